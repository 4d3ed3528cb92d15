//! Utterances: a pure state machine from probabilities of 32 ms frames to where speech begins and
//! ends. It knows no clock, no model and no task; all times are counts of samples.
//!
//! The same audio with the same probabilities gives the same events, however it was cut into
//! chunks: only whole frames are judged, and the rest waits.
//!
//! ```
//! use paceline_audio::{segment::{Segmenter, ValidSettings}, silero::Rate};
//!
//! let mut segmenter = Segmenter::new(ValidSettings::default(), Rate::Hz16000);
//! let mut events = Vec::new();
//! let mut audio = &[0.0; 16_000][..];
//! while !audio.is_empty() {
//!     audio = &audio[segmenter.push(audio)..];
//!     let frames = segmenter.unscored(usize::MAX);
//!     for frame in frames.chunks(512) {
//!         let probability = frame[0]; // of a voice detector
//!         segmenter.score(probability, &mut events);
//!     }
//! }
//! segmenter.flush(&mut events);
//! assert!(events.is_empty());
//! ```

mod settings;
mod tape;

use std::collections::VecDeque;

pub use settings::{SegmentSettings, SegmentSettingsError, ValidSettings};
use tape::Tape;

use crate::silero::Rate;

/// Most whole frames that wait for their probability; about one second.
pub const MAX_UNSCORED: usize = 32;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum SegmentEvent {
    /// Somebody speaks.
    SpeechStart {
        /// Where the utterance begins, its padding included.
        start: u64,
    },
    /// An utterance is complete. Unless its reason is [`EndReason::TooLong`], nobody speaks now.
    SpeechEnd {
        /// Its first sample.
        start: u64,
        /// Its last sample, exclusive.
        end: u64,
        /// Its samples.
        samples: Vec<f32>,
        /// Why it ended.
        reason: EndReason,
    },
}

/// Why an utterance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// Silence lasted long enough.
    Silence,
    /// It was cut because it was too long. Speech goes on: the next utterance begins at the very
    /// sample where this one ends, without a [`SegmentEvent::SpeechStart`] of its own.
    TooLong,
    /// It was flushed.
    Flushed,
}

/// One stream's utterances.
#[derive(Debug)]
pub struct Segmenter {
    rate: Rate,
    rules: Rules,
    tape: Tape,
    /// Everything before this is judged.
    scored: u64,
    /// No utterance may begin before this: it belongs to the one before.
    floor: u64,
    /// Silent samples at the end of what is judged.
    silent: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Silence,
    /// A frame was speech; whether it lasts is not known yet.
    Candidate {
        start: u64,
        /// Samples since that frame.
        lasted: u64,
    },
    Speaking {
        start: u64,
        /// Probabilities of the last frames, where a cut would be looked for.
        recent: VecDeque<f32>,
    },
}

/// The settings, in samples.
#[derive(Debug, Clone, Copy)]
struct Rules {
    positive: f32,
    negative: f32,
    pre_pad: u64,
    post_pad: u64,
    redemption: u64,
    min_speech: u64,
    max_utterance: u64,
    /// Frames to look at for a cut, silence included.
    n_recent: usize,
}

impl Rules {
    fn new(settings: &ValidSettings, rate: Rate) -> Self {
        let settings = settings.get();
        let window = settings::CUT_WINDOW + settings.redemption_time;
        Self {
            positive: settings.positive_threshold,
            negative: settings.negative_threshold,
            pre_pad: rate.samples(settings.pre_speech_pad),
            post_pad: rate.samples(settings.post_speech_pad.min(settings.redemption_time)),
            redemption: rate.samples(settings.redemption_time),
            min_speech: rate.samples(settings.min_speech_time),
            max_utterance: rate.samples(settings.max_utterance),
            n_recent: index_of(rate.samples(window) / rate.frame() as u64),
        }
    }
}

impl Segmenter {
    /// A stream of which nothing was heard yet.
    #[must_use]
    pub fn new(settings: ValidSettings, rate: Rate) -> Self {
        Self {
            rate,
            rules: Rules::new(&settings, rate),
            tape: Tape::default(),
            scored: 0,
            floor: 0,
            silent: 0,
            state: State::Silence,
        }
    }

    /// The sample rate of its audio.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Other settings from the next frame on.
    pub fn set(&mut self, settings: ValidSettings) {
        self.rules = Rules::new(&settings, self.rate);
    }

    /// Takes in as many of these samples as there is room for, and says how many. There is room
    /// for at least one whenever no whole frame waits for its probability.
    #[must_use = "the rest must be pushed again once some frames have their probability"]
    pub fn push(&mut self, samples: &[f32]) -> usize {
        // Room for whole frames and for what is short of one.
        let room = (MAX_UNSCORED + 1) * self.rate.frame() - 1 - self.n_unscored();
        let n_taken = samples.len().min(room);
        let is_growing = !matches!(self.state, State::Silence);
        self.tape.push(&samples[..n_taken], is_growing);
        n_taken
    }

    /// Whole frames that wait for their probability, at most so many, one after the other.
    #[must_use]
    pub fn unscored(&self, max_frames: usize) -> Vec<f32> {
        let n_frames = (self.n_unscored() / self.rate.frame()).min(max_frames);
        self.tape.copy(self.scored..self.scored + (n_frames * self.rate.frame()) as u64)
    }

    /// Judges the next whole frame by how likely it is speech.
    ///
    /// # Panics
    ///
    /// When no whole frame waits.
    pub fn score(&mut self, probability: f32, events: &mut Vec<SegmentEvent>) {
        assert!(self.rate.frame() <= self.n_unscored(), "no whole frame waits for a probability");
        let frame = self.rate.frame() as u64;
        let before = self.scored;
        self.scored += frame;
        let is_silent = probability < self.rules.negative;
        self.silent = if is_silent { self.silent + frame } else { 0 };

        match &mut self.state {
            State::Silence => {
                // A frame that was flushed with the utterance before begins no new one.
                if self.rules.positive < probability && self.floor < self.scored {
                    let padded = before.saturating_sub(self.rules.pre_pad);
                    let start = padded.max(self.floor).max(self.tape.start());
                    self.tape.unpack();
                    self.state = State::Candidate { start, lasted: 0 };
                }
            }
            State::Candidate { start, lasted } => {
                *lasted += frame;
                if self.rules.min_speech < *lasted {
                    let start = *start;
                    events.push(SegmentEvent::SpeechStart { start });
                    self.state = State::Speaking { start, recent: VecDeque::new() };
                    self.speak(probability, is_silent, events);
                } else if is_silent {
                    self.state = State::Silence;
                }
            }
            State::Speaking { .. } => self.speak(probability, is_silent, events),
        }
        self.trim();
    }

    /// Ends the utterance under way, if somebody speaks, with everything that was pushed. The
    /// stream may go on.
    pub fn flush(&mut self, events: &mut Vec<SegmentEvent>) {
        if let State::Speaking { start, .. } = self.state {
            events.push(self.end(start, self.received(), EndReason::Flushed));
        }
        self.state = State::Silence;
        self.trim();
    }

    /// Whether somebody speaks: an utterance was begun and not ended.
    #[must_use]
    pub const fn is_speaking(&self) -> bool {
        matches!(self.state, State::Speaking { .. })
    }

    /// The utterance so far, where somebody speaks.
    #[must_use]
    pub fn speech(&self) -> Option<Speech<'_>> {
        let State::Speaking { start, .. } = self.state else { return None };
        Some(Speech { start, end: self.scored, tape: &self.tape })
    }

    /// Samples that were pushed.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.tape.end()
    }

    /// Samples that were judged.
    #[must_use]
    pub const fn scored(&self) -> u64 {
        self.scored
    }

    /// Silent samples at the end of what was judged.
    #[must_use]
    pub const fn silence(&self) -> u64 {
        self.silent
    }

    /// Samples that are held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.tape.end() - self.tape.start()
    }

    fn n_unscored(&self) -> usize {
        index_of(self.tape.end() - self.scored)
    }

    /// One frame while somebody speaks: goes on, ends or is cut.
    fn speak(&mut self, probability: f32, is_silent: bool, events: &mut Vec<SegmentEvent>) {
        let State::Speaking { start, recent } = &mut self.state else { return };
        let start = *start;
        recent.push_back(probability);
        while self.rules.n_recent < recent.len() {
            recent.pop_front();
        }
        if is_silent && self.rules.redemption < self.silent {
            let last = self.scored - self.silent;
            let end = last + self.rules.post_pad;
            events.push(self.end(start, end, EndReason::Silence));
        } else if self.rules.max_utterance <= self.scored - start {
            let cut = self.cut(start);
            events.push(self.end(start, cut, EndReason::TooLong));
        }
    }

    /// The middle of the frame that is least like speech, near the end of an utterance but not in
    /// the silence at its end: that would leave nothing but silence for the next one.
    fn cut(&self, start: u64) -> u64 {
        let frame = self.rate.frame() as u64;
        let State::Speaking { recent, .. } = &self.state else { return self.scored };
        let last = recent.len().saturating_sub(index_of(self.silent / frame));
        let middle = |at: usize| self.scored - (recent.len() - at) as u64 * frame + frame / 2;
        let n_window = self.rules.n_recent - index_of(self.rules.redemption / frame);
        (last.saturating_sub(n_window)..last)
            .filter(|&at| start < middle(at))
            .min_by(|&a, &b| recent[a].total_cmp(&recent[b]).then(b.cmp(&a)))
            .map_or(self.scored, middle)
    }

    /// Forgets what no utterance can need any more.
    fn trim(&mut self) {
        match self.state {
            State::Silence => {
                let padded = self.scored.saturating_sub(self.rules.pre_pad);
                self.tape.forget(padded.max(self.floor).min(self.scored));
                self.tape.pack(self.scored);
            }
            State::Candidate { start, .. } | State::Speaking { start, .. } => {
                self.tape.forget(start);
            }
        }
    }

    /// Closes the utterance that began at `start`.
    fn end(&mut self, start: u64, end: u64, reason: EndReason) -> SegmentEvent {
        let samples = self.tape.copy(start..end);
        self.floor = end;
        if reason == EndReason::TooLong {
            if let State::Speaking { start, .. } = &mut self.state {
                *start = end;
            }
        } else {
            self.state = State::Silence;
            self.trim();
        }
        SegmentEvent::SpeechEnd { start, end, samples, reason }
    }
}

/// An utterance under way, without a copy of it.
#[derive(Debug, Clone, Copy)]
pub struct Speech<'a> {
    /// Its first sample.
    pub start: u64,
    /// The end of what was judged of it, exclusive.
    pub end: u64,
    tape: &'a Tape,
}

impl<'a> Speech<'a> {
    /// Its samples from `from` on, or all where it began later, in one or two pieces.
    #[must_use]
    pub fn since(&self, from: u64) -> [&'a [f32]; 2] {
        self.tape.slices(from.clamp(self.start, self.end)..self.end)
    }

    /// A copy of its samples.
    #[must_use]
    pub fn to_vec(&self) -> Vec<f32> {
        self.tape.copy(self.start..self.end)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a part of what is held in memory")]
const fn index_of(offset: u64) -> usize {
    offset as usize
}

#[cfg(test)]
mod tests;
