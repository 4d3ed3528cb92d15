//! Utterances go to the model: voice is detected frame by frame, and the segmenter says where
//! utterances begin and end.

use std::collections::VecDeque;

use paceline_audio::segment::{EndReason, MAX_UNSCORED, SegmentEvent, Segmenter};

use super::{
    RATE, Span, SpeechLimits, Utterances,
    channel::{Job, Part, Said, Step},
    event::Lost,
    order::InOrder,
};

#[derive(Debug)]
pub(super) struct Segmented<A> {
    segmenter: Segmenter,
    /// Samples that the segmenter has no room for yet.
    waiting: VecDeque<f32>,
    /// What the detector is judging.
    judging: Option<Span>,
    /// What the client is to be told at once, and what the model is to be asked when it has room.
    /// Both are bounded by what one answer of the detector can bring about.
    said: VecDeque<Said<A>>,
    asks: VecDeque<Job>,
    /// An interim question that is to be taken back.
    withdrawn: Option<u64>,
    answers: InOrder<Part, Word<A>>,
    /// Questions that are with the model.
    n_flying: usize,
    interim: Option<Interim>,
    pause: Option<Pause>,
    /// The probability that changes nothing: who speaks goes on, who is silent too.
    undecided: f32,
    is_flushing: bool,
    /// Only the first utterance is wanted.
    is_single: bool,
    /// The one utterance that was wanted has ended.
    is_over: bool,
    n_ignored: u64,
    max_waiting: usize,
    max_flying: usize,
}

/// Interim results: at most one is with the model, so a slow model gets fewer. Each covers the
/// utterance from its beginning on, because the model understands words by those before them; they
/// are further and further apart, so that all of them together cost so many times the utterance.
#[derive(Debug)]
struct Interim {
    interval: u64,
    cost: u64,
    /// Where the next one is due.
    due: u64,
    /// The one that has no answer yet.
    open: Option<u64>,
}

/// What stands in the order of a channel's utterances.
#[derive(Debug)]
enum Word<A> {
    /// The model's, about one of them.
    Answer(Result<A, Lost>),
    /// Ours: a pause after it was long enough.
    Pause,
}

/// Pauses that the client wants to hear of.
#[derive(Debug)]
struct Pause {
    least: u64,
    /// Where the last utterance ended, until its pause is told or somebody speaks.
    since: Option<u64>,
}

impl<A> Segmented<A> {
    pub(super) fn new(utterances: &Utterances, limits: &SpeechLimits) -> Self {
        let thresholds = utterances.settings.get();
        Self {
            segmenter: Segmenter::new(utterances.settings, RATE),
            waiting: VecDeque::new(),
            judging: None,
            said: VecDeque::new(),
            asks: VecDeque::new(),
            withdrawn: None,
            answers: InOrder::default(),
            n_flying: 0,
            interim: utterances.interim.map(|interval| Interim {
                interval: RATE.samples(interval),
                cost: u64::from(limits.interim_cost.max(1)),
                due: 0,
                open: None,
            }),
            pause: utterances.pause.map(|least| Pause { least: RATE.samples(least), since: None }),
            undecided: f32::midpoint(thresholds.negative_threshold, thresholds.positive_threshold),
            is_flushing: false,
            is_single: utterances.single,
            is_over: false,
            n_ignored: 0,
            max_waiting: limits.backlog(),
            max_flying: limits.stream_in_flight,
        }
    }

    pub(super) fn push(&mut self, samples: &[f32]) {
        if self.is_over {
            self.n_ignored += samples.len() as u64;
            return;
        }
        let n_taken = if self.waiting.is_empty() { self.segmenter.push(samples) } else { 0 };
        self.waiting.extend(&samples[n_taken..]);
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < self.max_waiting
    }

    pub(super) fn flush(&mut self) {
        self.is_flushing = true;
    }

    pub(super) fn step(&mut self) -> Option<Step<A>> {
        loop {
            if let Some(number) = self.withdrawn.take() {
                return Some(Step::Withdraw(number));
            }
            if let Some(said) = self.said.pop_front() {
                return Some(Step::Say(said));
            }
            if let Some((part, word)) = self.answers.next() {
                return Some(Step::Say(match word {
                    Word::Answer(answer) => Said::Answer(part, answer),
                    Word::Pause => Said::Paused(part.span.start),
                }));
            }
            if !self.asks.is_empty() && self.n_flying < self.max_flying {
                self.n_flying += 1;
                return self.asks.pop_front().map(Step::Infer);
            }
            // Nothing more is judged while the model has no room for what was found.
            if !self.asks.is_empty() || self.judging.is_some() {
                return None;
            }
            if self.has_frames() {
                let frames = self.segmenter.unscored(MAX_UNSCORED);
                let start = self.segmenter.scored();
                self.judging = Some(Span { start, end: start + frames.len() as u64 });
                return Some(Step::Detect(frames));
            }
            if !self.is_flushing {
                return None;
            }
            self.is_flushing = false;
            let mut events = Vec::new();
            self.segmenter.flush(&mut events);
            for event in events {
                self.hear(event);
            }
        }
    }

    pub(super) fn detected(&mut self, judged: Result<&[f32], Lost>) {
        let Some(span) = self.judging.take() else { return };
        let n_frames = usize::try_from(span.n_samples()).unwrap_or(0) / RATE.frame();
        let probabilities = judged.unwrap_or_else(|lost| {
            self.said.push_back(Said::Unheard(span, lost));
            &[]
        });
        let mut events = Vec::new();
        for at in 0..n_frames {
            let probability = probabilities.get(at).copied().unwrap_or(self.undecided);
            self.segmenter.score(probability, &mut events);
            events.drain(..).for_each(|event| self.hear(event));
            if self.is_over {
                self.n_ignored += self.segmenter.received() - self.segmenter.scored();
                self.n_ignored += self.waiting.len() as u64;
                self.waiting = VecDeque::new();
                return;
            }
            self.ask_interim();
            self.tell_pause();
        }
        let waiting = self.waiting.make_contiguous();
        let n_taken = self.segmenter.push(waiting);
        self.waiting.drain(..n_taken);
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
    }

    pub(super) fn answered(&mut self, number: u64, answer: Result<A, Lost>) {
        self.n_flying -= 1;
        self.answers.answer(number, Word::Answer(answer));
        if let Some(interim) = &mut self.interim
            && interim.open == Some(number)
        {
            interim.open = None;
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let says_nothing = self.said.is_empty() && self.answers.is_empty();
        says_nothing && self.judging.is_none() && !self.has_frames() && !self.is_flushing
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) const fn n_ignored(&self) -> u64 {
        self.n_ignored
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether whole frames wait for the detector.
    fn has_frames(&self) -> bool {
        let n_unscored = self.segmenter.received() - self.segmenter.scored();
        RATE.frame() as u64 <= n_unscored && !self.is_over
    }

    fn hear(&mut self, event: SegmentEvent) {
        match event {
            SegmentEvent::SpeechStart { start } => {
                self.said.push_back(Said::Active(start));
                if let Some(interim) = &mut self.interim {
                    interim.due = start + interim.interval;
                }
                if let Some(pause) = &mut self.pause {
                    pause.since = None;
                }
            }
            SegmentEvent::SpeechEnd { start, end, samples, reason } => {
                self.withdraw_interim();
                if reason != EndReason::TooLong {
                    self.said.push_back(Said::Inactive(end));
                    self.is_over = self.is_single;
                    if let Some(pause) = &mut self.pause {
                        pause.since = Some(end);
                    }
                }
                let span = Span { start, end };
                self.ask(Part { span, is_final: Some(true), ended: Some(reason) }, samples);
            }
        }
    }

    fn ask(&mut self, part: Part, samples: Vec<f32>) -> u64 {
        let number = self.answers.ask(part);
        self.asks.push_back(Job { number, samples, part });
        number
    }

    fn ask_interim(&mut self) {
        let Some(interim) = &self.interim else { return };
        let Some(speech) = self.segmenter.speech() else { return };
        if interim.open.is_some() || speech.end < interim.due {
            return;
        }
        let span = Span { start: speech.start, end: speech.end };
        let gap = interim.interval.max(span.n_samples() / interim.cost);
        let (samples, due) = (speech.to_vec(), speech.end + gap);
        let open = Some(self.ask(Part { span, is_final: Some(false), ended: None }, samples));
        if let Some(interim) = &mut self.interim {
            (interim.due, interim.open) = (due, open);
        }
    }

    /// A pause is told after the final word of the utterance before it.
    fn tell_pause(&mut self) {
        let Some(pause) = &mut self.pause else { return };
        let scored = self.segmenter.scored();
        let Some(at) = pause.since.take_if(|since| *since + pause.least <= scored) else { return };
        let part = Part { span: Span { start: at, end: at }, is_final: None, ended: None };
        let number = self.answers.ask(part);
        self.answers.answer(number, Word::Pause);
    }

    /// The final word makes an interim one that is still open worthless.
    fn withdraw_interim(&mut self) {
        let open = self.interim.as_mut().and_then(|interim| interim.open.take());
        let Some(number) = open else { return };
        self.answers.withdraw(number);
        if let Some(at) = self.asks.iter().position(|job| job.number == number) {
            self.asks.remove(at);
        } else {
            self.n_flying -= 1;
            self.withdrawn = Some(number);
        }
    }
}
