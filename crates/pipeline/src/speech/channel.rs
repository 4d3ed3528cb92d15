//! What happens to the samples of one audio channel. Pure: it is told what came and asked for its
//! next step, and whoever drives it does the waiting. `A` is what a model answers.

use paceline_audio::segment::EndReason;

use super::{Span, SpeechLimits, Style, event::Lost, segmented::Segmented, simple::Simple};

/// What to do next.
#[derive(Debug)]
pub(super) enum Step<A> {
    /// Ask how likely each of these frames is speech. Only one such question is open at a time.
    Detect(Vec<f32>),
    /// Ask the model.
    Infer(Job),
    /// Take a question to the model back.
    Withdraw(u64),
    /// Tell the client.
    Say(Said<A>),
}

/// A question to the model.
#[derive(Debug)]
pub(super) struct Job {
    /// Which of the channel's.
    pub(super) number: u64,
    pub(super) samples: Vec<f32>,
    pub(super) part: Part,
}

impl Job {
    /// Whether its answer is not the last word.
    pub(super) fn is_interim(&self) -> bool {
        self.part.is_final == Some(false)
    }
}

/// Which part of the audio a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) span: Span,
    pub(super) is_final: Option<bool>,
    /// Why the utterance ended, once it has.
    pub(super) ended: Option<EndReason>,
}

/// What the client is told about this channel.
#[derive(Debug)]
pub(super) enum Said<A> {
    Active(u64),
    Inactive(u64),
    /// Nobody has spoken for as long as was asked, since the end of an utterance.
    Paused(u64),
    Answer(Part, Result<A, Lost>),
    /// Frames that nobody could judge.
    Unheard(Span, Lost),
}

/// One audio channel.
#[derive(Debug)]
pub(super) enum Channel<A> {
    Simple(Simple<A>),
    Segmented(Box<Segmented<A>>),
}

impl<A> Channel<A> {
    pub(super) fn new(style: &Style, limits: &SpeechLimits) -> Self {
        match style {
            Style::Simple => Self::Simple(Simple::new(limits)),
            Style::Segmented(utterances) => {
                Self::Segmented(Box::new(Segmented::new(utterances, limits)))
            }
        }
    }

    /// Takes more audio. Whoever gives more than there is [room](Self::has_room) for only makes it
    /// hold more.
    pub(super) fn push(&mut self, samples: &[f32]) {
        match self {
            Self::Simple(simple) => simple.push(samples),
            Self::Segmented(segmented) => segmented.push(samples),
        }
    }

    /// Whether more audio is wanted now.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Self::Simple(simple) => simple.has_room(),
            Self::Segmented(segmented) => segmented.has_room(),
        }
    }

    /// Everything that came is to be answered, also an utterance that has not ended.
    pub(super) fn flush(&mut self) {
        if let Self::Segmented(segmented) = self {
            segmented.flush();
        }
    }

    /// What to do next; nothing until something is told.
    pub(super) fn step(&mut self) -> Option<Step<A>> {
        match self {
            Self::Simple(simple) => simple.step(),
            Self::Segmented(segmented) => segmented.step(),
        }
    }

    /// Frames were judged, or why not.
    pub(super) fn detected(&mut self, judged: Result<&[f32], Lost>) {
        if let Self::Segmented(segmented) = self {
            segmented.detected(judged);
        }
    }

    /// The model answered.
    pub(super) fn answered(&mut self, number: u64, answer: Result<A, Lost>) {
        match self {
            Self::Simple(simple) => simple.answered(number, answer),
            Self::Segmented(segmented) => segmented.answered(number, answer),
        }
    }

    /// Whether everything that came is done with. Without a flush, what is short of a frame or
    /// belongs to an utterance under way does not count.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Simple(simple) => simple.is_idle(),
            Self::Segmented(segmented) => segmented.is_idle(),
        }
    }

    /// Whether the one utterance that was asked for has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Segmented(segmented) if segmented.is_over())
    }

    /// Samples that came after it had.
    pub(super) fn n_ignored(&self) -> u64 {
        match self {
            Self::Simple(_) => 0,
            Self::Segmented(segmented) => segmented.n_ignored(),
        }
    }

    /// Samples that wait here, for the detector or for the model.
    pub(super) fn n_waiting(&self) -> usize {
        match self {
            Self::Simple(simple) => simple.n_waiting(),
            Self::Segmented(segmented) => segmented.n_waiting(),
        }
    }
}

#[cfg(test)]
mod tests;
