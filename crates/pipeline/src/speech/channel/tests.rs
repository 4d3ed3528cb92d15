//! The laws of a channel, whatever the chunking and whoever answers first.

use std::time::Duration;

use paceline_batch::Key;
use paceline_types::ErrorCode;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::speech::{RATE, SegmentSettings, Utterances};

const FRAME: usize = RATE.frame();

/// What a test sees of a channel.
#[derive(Debug, Clone, PartialEq)]
enum Seen {
    Active(u64),
    Inactive(u64),
    Paused(u64),
    /// With a fingerprint of the samples that the model got.
    Segment(Span, Option<bool>, Key),
    Failed(Span, Option<bool>),
    Unheard(Span),
}

/// Drives a channel: detects by what is in the audio, answers in an order drawn from `random`.
struct Driver {
    channel: Channel<Key>,
    judging: Option<Vec<f32>>,
    open: Vec<Job>,
    seen: Vec<Seen>,
    max_open: usize,
    n_withdrawn: usize,
    /// Samples that the model got for interim results.
    n_interim: u64,
}

/// How those behave who answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    /// Everything at once.
    Prompt,
    /// By these dice; some fail.
    Dice(u64),
}

impl Driver {
    fn new(style: &Style, limits: &SpeechLimits) -> Self {
        Self {
            channel: Channel::new(style, limits),
            judging: None,
            open: Vec::new(),
            seen: Vec::new(),
            max_open: 0,
            n_withdrawn: 0,
            n_interim: 0,
        }
    }

    fn carry_on(&mut self) {
        while let Some(step) = self.channel.step() {
            match step {
                Step::Detect(frames) => {
                    assert!(self.judging.is_none(), "one question to the detector at a time");
                    assert!(!frames.is_empty() && frames.len().is_multiple_of(FRAME));
                    self.judging = Some(frames);
                }
                Step::Infer(job) => {
                    assert_eq!(job.part.span.n_samples(), job.samples.len() as u64);
                    if job.part.is_final == Some(false) {
                        self.n_interim += job.part.span.n_samples();
                    }
                    self.open.push(job);
                }
                Step::Withdraw(number) => {
                    let before = self.open.len();
                    self.open.retain(|job| job.number != number);
                    assert_eq!(self.open.len() + 1, before, "only what is open is withdrawn");
                    self.n_withdrawn += 1;
                }
                Step::Say(said) => self.seen.push(match said {
                    Said::Active(at) => Seen::Active(at),
                    Said::Inactive(at) => Seen::Inactive(at),
                    Said::Paused(since) => Seen::Paused(since),
                    Said::Answer(part, Ok(samples)) => {
                        Seen::Segment(part.span, part.is_final, samples)
                    }
                    Said::Answer(part, Err(_)) => Seen::Failed(part.span, part.is_final),
                    Said::Unheard(span, _) => Seen::Unheard(span),
                }),
            }
        }
        self.max_open = self.max_open.max(self.open.len());
    }

    /// One answer, of the detector or of the model.
    fn answer(&mut self, which: usize, fails: bool) {
        let broken = || Lost { code: ErrorCode::ModelFailed, message: "broken".to_owned() };
        if let Some(frames) = self.judging.take_if(|_| which == 0 || self.open.is_empty()) {
            // The first sample of a frame says how likely it is speech.
            let probabilities: Vec<f32> = frames.chunks(FRAME).map(|frame| frame[0]).collect();
            self.channel.detected(if fails { Err(broken()) } else { Ok(&probabilities) });
        } else if !self.open.is_empty() {
            let job = self.open.swap_remove(which % self.open.len());
            self.channel
                .answered(job.number, if fails { Err(broken()) } else { Ok(print(&job.samples)) });
        }
        self.carry_on();
    }

    fn is_busy(&self) -> bool {
        self.judging.is_some() || !self.open.is_empty()
    }

    fn work(&mut self, manner: Manner, dice: &mut impl FnMut() -> u64, is_last: bool) {
        self.carry_on();
        while self.is_busy() && (manner == Manner::Prompt || is_last || !dice().is_multiple_of(3)) {
            let (which, fails) = match manner {
                Manner::Prompt => (0, false),
                Manner::Dice(_) => (dice() as usize % 4, dice().is_multiple_of(16)),
            };
            self.answer(which, fails);
        }
    }

    /// Plays audio in these chunks, then flushes.
    fn play(mut self, audio: &[f32], chunks: &[usize], manner: Manner) -> Self {
        let mut state = if let Manner::Dice(seed) = manner { seed | 1 } else { 1 };
        let mut dice = move || {
            // Xorshift: the dice must not depend on anything but their seed.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 11
        };
        let (mut rest, mut at) = (audio, 0);
        while !rest.is_empty() {
            let length = chunks.get(at % chunks.len().max(1)).copied().unwrap_or(rest.len());
            let (chunk, later) = rest.split_at(length.clamp(1, rest.len()));
            (rest, at) = (later, at + 1);
            self.channel.push(chunk);
            self.work(manner, &mut dice, false);
        }
        self.channel.flush();
        self.work(manner, &mut dice, true);
        assert!(self.channel.is_idle(), "a flush leaves nothing behind");
        self
    }

    /// What was seen without interim results, voice activity apart from segments.
    fn lasting(&self) -> (Vec<Seen>, Vec<Seen>) {
        let lasting = self.seen.iter().filter(|seen| !is_interim(seen)).cloned();
        lasting.partition(|seen| matches!(seen, Seen::Active(_) | Seen::Inactive(_)))
    }
}

fn print(samples: &[f32]) -> Key {
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    Key::of(&bytes)
}

fn is_interim(seen: &Seen) -> bool {
    matches!(seen, Seen::Segment(_, Some(false), _) | Seen::Failed(_, Some(false)))
}

fn limits() -> SpeechLimits {
    SpeechLimits { stream_in_flight: 3, ..SpeechLimits::default() }
}

fn utterances(interim_ms: Option<u64>) -> Style {
    let settings =
        SegmentSettings { max_utterance: Duration::from_secs(6), ..SegmentSettings::default() };
    Style::Segmented(Utterances {
        settings: settings.validate().unwrap(),
        interim: interim_ms.map(Duration::from_millis),
        ..Utterances::default()
    })
}

/// Audio whose frames say how likely they are speech, and whose samples are all different.
fn audio(runs: &[(bool, usize)], tail: usize) -> Vec<f32> {
    let frames = runs.iter().flat_map(|&(is_speech, n_frames)| {
        std::iter::repeat_n(if is_speech { 0.9 } else { 0.1 }, n_frames)
    });
    let mut samples: Vec<f32> = frames
        .flat_map(|likely| std::iter::once(likely).chain(std::iter::repeat_n(0.0, FRAME - 1)))
        .chain(std::iter::repeat_n(0.0, tail))
        .collect();
    for (at, sample) in samples.iter_mut().enumerate().filter(|(at, _)| at % FRAME != 0) {
        *sample = at as f32;
    }
    samples
}

/// Runs of frames of speech or silence, and samples that make no frame.
fn any_runs() -> impl Strategy<Value = (Vec<(bool, usize)>, usize)> {
    (vec((any::<bool>(), 1_usize..60), 0..6), 0..FRAME)
}

fn any_chunks() -> impl Strategy<Value = Vec<usize>> {
    // One of them is large, or a case would take seconds.
    (700_usize..40_000, vec(1_usize..700, 0..5)).prop_map(|(large, mut chunks)| {
        chunks.push(large);
        chunks
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn simple_answers_every_sample_once_and_in_order(
        n_samples in 0_usize..60_000, chunks in any_chunks(), seed: u64
    ) {
        let audio: Vec<f32> = (0..n_samples).map(|at| at as f32).collect();

        let done = Driver::new(&Style::Simple, &limits()).play(&audio, &chunks, Manner::Dice(seed));

        let mut end = 0;
        for seen in &done.seen {
            match seen {
                Seen::Segment(span, None, samples) => {
                    prop_assert_eq!(span.start, end);
                    let own = usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap();
                    prop_assert_eq!(print(&audio[own]), *samples);
                    end = span.end;
                }
                Seen::Failed(span, None) => {
                    prop_assert_eq!(span.start, end);
                    end = span.end;
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(end, n_samples as u64);
        prop_assert!(done.max_open <= 3);
    }

    #[test]
    fn segmented_finds_the_same_utterances_in_any_chunking_and_order(
        (runs, tail) in any_runs(), chunks in any_chunks(), seed: u64, interim: bool
    ) {
        let audio = audio(&runs, tail);
        let style = utterances(interim.then_some(500));
        let prompt = Driver::new(&style, &limits()).play(&audio, &[usize::MAX], Manner::Prompt);

        let done = Driver::new(&style, &limits()).play(&audio, &chunks, Manner::Dice(seed));

        // Frames that were not judged change what is heard.
        prop_assume!(!done.seen.iter().any(|seen| matches!(seen, Seen::Unheard(_))));
        let (voice, segments) = done.lasting();
        let (prompt_voice, prompt_segments) = prompt.lasting();
        prop_assert_eq!(voice, prompt_voice);
        prop_assert_eq!(segments.len(), prompt_segments.len());
        for (seen, expected) in segments.iter().zip(&prompt_segments) {
            let Seen::Segment(span, Some(true), samples) = expected else { unreachable!() };
            let own = usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap();
            prop_assert_eq!(print(&audio[own]), *samples);
            prop_assert!(seen == expected || *seen == Seen::Failed(*span, Some(true)));
        }
        prop_assert!(interim || !done.seen.iter().any(is_interim));
        prop_assert!(done.max_open <= 3);
        prop_assert!(!done.channel.is_over(), "nobody asked for one utterance only");
    }

    #[test]
    fn an_utterance_is_active_then_told_then_inactive_then_final(
        (runs, tail) in any_runs(), chunks in any_chunks(), seed: u64
    ) {
        let audio = audio(&runs, tail);

        let done = Driver::new(&utterances(Some(500)), &limits())
            .play(&audio, &chunks, Manner::Dice(seed));

        let (mut is_active, mut last_inactive, mut last_final) = (false, None, 0);
        for seen in &done.seen {
            match seen {
                Seen::Active(at) => {
                    prop_assert!(!is_active && last_inactive <= Some(*at));
                    is_active = true;
                }
                Seen::Inactive(at) => {
                    prop_assert!(is_active);
                    (is_active, last_inactive) = (false, Some(*at));
                }
                Seen::Segment(span, Some(false), _) | Seen::Failed(span, Some(false)) => {
                    prop_assert!(last_final <= span.start, "interim results follow what is final");
                }
                Seen::Segment(span, ..) | Seen::Failed(span, _) => {
                    prop_assert!(last_final <= span.start);
                    // A cut one has no `Inactive`; it is followed by the rest without a gap.
                    let is_ended = last_inactive >= Some(span.end);
                    prop_assert!(is_ended || is_active);
                    last_final = span.end.max(last_final);
                }
                Seen::Unheard(_) | Seen::Paused(_) => {}
            }
        }
        prop_assert!(!is_active, "what was begun is ended");
    }

    #[test]
    fn a_pause_is_told_once_after_the_final_word_and_only_if_it_lasted(
        (runs, tail) in any_runs(), chunks in any_chunks(), seed: u64
    ) {
        let Style::Segmented(mut told) = utterances(None) else { unreachable!() };
        told.pause = Some(Duration::from_secs(1));
        let audio = audio(&runs, tail);
        let prompt = Driver::new(&Style::Segmented(told), &limits())
            .play(&audio, &[usize::MAX], Manner::Prompt);

        let done = Driver::new(&Style::Segmented(told), &limits())
            .play(&audio, &chunks, Manner::Dice(seed));

        prop_assume!(!done.seen.iter().any(|seen| matches!(seen, Seen::Unheard(_))));
        let pauses = |seen: &[Seen]| -> Vec<Seen> {
            seen.iter().filter(|seen| matches!(seen, Seen::Paused(_))).cloned().collect()
        };
        prop_assert_eq!(pauses(&done.seen), pauses(&prompt.seen), "in any chunking");
        // What was judged after the last word of each utterance, before somebody spoke again.
        let judged = (audio.len() / FRAME * FRAME) as u64;
        let (mut last_final, mut n_told) = (None, 0);
        for seen in &done.seen {
            match seen {
                Seen::Segment(span, ..) | Seen::Failed(span, _) => last_final = Some(span.end),
                Seen::Paused(since) => {
                    prop_assert_eq!(Some(*since), last_final.take(), "after its final word, once");
                    prop_assert!(since + RATE.samples(Duration::from_secs(1)) <= judged);
                    n_told += 1;
                }
                _ => {}
            }
        }
        let has_spoken = done.seen.iter().any(|seen| matches!(seen, Seen::Segment(..) | Seen::Failed(..)));
        let is_quiet = matches!(runs.last(), Some((false, n_frames)) if 32 + 19 <= *n_frames);
        prop_assert!(!has_spoken || !is_quiet || 0 < n_told, "a long silence at the end is told");
    }

    #[test]
    fn a_single_utterance_ends_the_round_and_the_rest_is_counted(
        before in 0_usize..40, speech in 12_usize..60, chunks in any_chunks()
    ) {
        let Style::Segmented(mut once) = utterances(None) else { unreachable!() };
        once.single = true;
        let audio = audio(&[(false, before), (true, speech), (false, 40), (true, 40)], 7);

        let done = Driver::new(&Style::Segmented(once), &limits())
            .play(&audio, &chunks, Manner::Prompt);

        prop_assert!(done.channel.is_over());
        prop_assert_eq!(done.seen.len(), 3);
        let Seen::Segment(span, Some(true), _) = &done.seen[2] else { unreachable!() };
        // Of the silence that decided it, what is not in the utterance is not ignored either.
        let silence = RATE.samples(Duration::from_millis(600)) / FRAME as u64 + 1;
        let padding = RATE.samples(Duration::from_millis(300));
        let heard = span.end - padding + silence * FRAME as u64;
        prop_assert_eq!(heard + done.channel.n_ignored(), audio.len() as u64);
    }
}

#[test]
fn interim_results_cost_no_more_than_so_many_times_the_utterance() {
    let limits = SpeechLimits { interim_cost: 4, ..limits() };
    let style = Style::Segmented(Utterances {
        interim: Some(Duration::from_millis(500)),
        ..Utterances::default()
    });
    let minute = audio(&[(true, 60 * 1000 / 32)], 0);

    let done = Driver::new(&style, &limits).play(&minute, &[FRAME], Manner::Prompt);

    let n_interims = done.seen.iter().filter(|seen| is_interim(seen)).count();
    assert!((28..=36).contains(&n_interims), "{n_interims} in two utterances of half a minute");
    // Of lengths that grow by a quarter each time, all together are four times what follows.
    assert!(done.n_interim <= 5 * minute.len() as u64, "{}", done.n_interim);
}

#[test]
fn an_interim_result_that_is_late_gives_way_to_the_final_one() {
    let mut driver = Driver::new(&utterances(Some(500)), &limits());
    driver.channel.push(&audio(&[(true, 10), (false, 30)], 0));
    driver.carry_on();
    driver.answer(0, false);
    driver.answer(0, false);

    assert_eq!(driver.open.len(), 1, "the final one only");
    assert_eq!(driver.open[0].part.is_final, Some(true));
}

#[test]
fn cut_utterances_are_contiguous() {
    let long = audio(&[(true, 600)], 0);

    let done = Driver::new(&utterances(None), &limits()).play(&long, &[3333], Manner::Prompt);

    let (voice, segments) = done.lasting();
    assert_eq!(voice, [Seen::Active(0), Seen::Inactive(long.len() as u64)]);
    let spans = segments.iter().map(|seen| match seen {
        Seen::Segment(span, Some(true), _) => *span,
        other => panic!("{other:?}"),
    });
    let end = spans.fold(0, |end, span| {
        assert_eq!(span.start, end);
        span.end
    });
    assert_eq!(end, long.len() as u64);
    assert!(2 < segments.len());
}

#[test]
fn frames_that_nobody_could_judge_change_nothing_and_are_told() {
    let mut driver = Driver::new(&utterances(None), &limits());
    driver.channel.push(&audio(&[(true, 10)], 0));
    driver.carry_on();
    driver.answer(0, false);
    driver.channel.push(&audio(&[(false, 30)], 0));
    driver.carry_on();
    driver.answer(0, true);
    driver.channel.flush();
    driver.work(Manner::Prompt, &mut || 0, true);

    assert_eq!(driver.seen[0], Seen::Active(0));
    assert!(matches!(driver.seen[1], Seen::Unheard(_)));
    assert_eq!(driver.seen[2], Seen::Inactive(40 * FRAME as u64), "speech went on");
    assert!(
        matches!(driver.seen[3], Seen::Segment(Span { start: 0, end }, Some(true), _) if end == 40 * FRAME as u64)
    );
}

#[test]
fn a_busy_model_stops_the_channel_from_taking_more() {
    let limits = SpeechLimits { max_backlog: Duration::from_secs(1), ..limits() };
    let mut driver = Driver::new(&Style::Simple, &limits);
    let mut n_pushed = 0;
    while driver.channel.has_room() {
        driver.channel.push(&[0.0; 1600]);
        n_pushed += 1600;
        driver.carry_on();
    }

    assert_eq!(driver.open.len(), 3);
    assert_eq!(n_pushed, 3 * 1600 + 16_000);
    driver.answer(0, false);
    assert!(driver.channel.has_room(), "one answer, and everything that waits is taken");
    assert_eq!(driver.open.iter().map(|job| job.samples.len()).max(), Some(16_000));
}

#[test]
fn a_busy_detector_stops_the_channel_from_taking_more() {
    let limits = SpeechLimits { max_backlog: Duration::from_secs(1), ..limits() };
    let mut driver = Driver::new(&utterances(None), &limits);
    let mut n_pushed = 0;
    while driver.channel.has_room() {
        driver.channel.push(&[0.0; FRAME]);
        n_pushed += FRAME;
        assert!(n_pushed < 1 << 20, "it takes without end");
        driver.carry_on();
    }

    let n_waiting = driver.channel.n_waiting();
    assert!((16_000..16_000 + FRAME).contains(&n_waiting), "{n_waiting}");
    assert!(FRAME <= n_pushed - n_waiting, "the segmenter has the rest");
    driver.answer(0, false);
    assert!(driver.channel.has_room() && driver.channel.n_waiting() < n_waiting);
}

#[test]
fn a_busy_model_has_as_many_utterances_as_it_may_have_and_no_more() {
    let mut driver = Driver::new(&utterances(Some(500)), &limits());
    // Each is long enough for an interim question, which the final one takes back.
    let utterance = audio(&[(true, 30), (false, 40)], 0);
    for _ in 0..6 {
        for frame in utterance.chunks(FRAME) {
            driver.channel.push(frame);
            driver.carry_on();
            while driver.judging.is_some() {
                driver.answer(0, false);
            }
        }
    }

    let finals = driver.open.iter().filter(|job| job.part.is_final == Some(true));
    assert_eq!((finals.count(), driver.open.len(), driver.max_open), (3, 3, 3));
    // Nobody has a place for the fourth before one of these is answered.
    assert_eq!(driver.n_withdrawn, 3);
    driver.channel.flush();
    driver.work(Manner::Prompt, &mut || 0, true);
    assert!(driver.channel.is_idle());
    let segments = driver.lasting().1;
    assert_eq!(segments.len(), 6);
}

#[test]
fn a_channel_is_idle_only_when_nothing_of_it_is_judged_asked_or_untold() {
    let mut channel = Channel::<()>::new(&utterances(None), &limits());
    assert!(channel.is_idle());

    channel.push(&audio(&[(true, 20)], 0));
    assert!(!channel.is_idle(), "frames wait");
    let Some(Step::Detect(frames)) = channel.step() else { panic!("they are to be judged") };
    assert!(!channel.is_idle(), "they are being judged");
    channel.detected(Ok(&vec![0.9; frames.len() / FRAME]));
    assert!(!channel.is_idle(), "it is to be told that somebody speaks");
    assert!(matches!(channel.step(), Some(Step::Say(Said::Active(0)))));
    assert!(channel.step().is_none() && channel.is_idle(), "what goes on does not count");
    channel.flush();
    assert!(!channel.is_idle(), "what goes on is to be ended");
    assert!(matches!(channel.step(), Some(Step::Say(Said::Inactive(_)))));
    let Some(Step::Infer(job)) = channel.step() else { panic!("its last word is asked for") };
    assert!(!channel.is_idle(), "the model is asked");
    channel.answered(job.number, Ok(()));
    assert!(!channel.is_idle(), "the answer is to be told");
    assert!(matches!(channel.step(), Some(Step::Say(Said::Answer(..)))));
    assert!(channel.is_idle());
}

proptest! {
    #[test]
    fn the_first_interim_result_comes_with_the_first_frame_after_its_interval(
        before in 0_usize..80, interim_ms in 200_u64..1500
    ) {
        let audio = audio(&[(false, before), (true, 80)], 0);

        let done = Driver::new(&utterances(Some(interim_ms)), &limits())
            .play(&audio, &[FRAME], Manner::Prompt);

        let first = done.seen.iter().find_map(|seen| match seen {
            Seen::Segment(span, Some(false), _) => Some(*span),
            _ => None,
        });
        let first = first.expect("somebody speaks for longer than that").n_samples();
        let interval = RATE.samples(Duration::from_millis(interim_ms));
        // Speech is told once it has lasted a little, and what was before it is a part of it.
        let known = RATE.samples(Duration::from_secs(1));
        prop_assert!(interval <= first, "{first} samples, asked for every {interval}");
        prop_assert!(first < interval.max(known) + FRAME as u64, "{first} of {interval}");
    }
}
