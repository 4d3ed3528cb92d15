//! Every sample goes to the model. Whatever waits is taken at once, so that a busy model gets few
//! large pieces rather than many small ones.

use super::{
    Span, SpeechLimits,
    channel::{Job, Part, Said, Step},
    event::Lost,
    order::InOrder,
};

#[derive(Debug)]
pub(super) struct Simple<A> {
    waiting: Vec<f32>,
    /// Samples that went to the model: where what waits begins.
    taken: u64,
    answers: InOrder<Part, Result<A, Lost>>,
    max_waiting: usize,
    max_flying: usize,
}

impl<A> Simple<A> {
    pub(super) fn new(limits: &SpeechLimits) -> Self {
        Self {
            waiting: Vec::new(),
            taken: 0,
            answers: InOrder::default(),
            max_waiting: limits.backlog(),
            max_flying: limits.stream_in_flight,
        }
    }

    pub(super) fn push(&mut self, samples: &[f32]) {
        self.waiting.extend_from_slice(samples);
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < self.max_waiting
    }

    pub(super) fn step(&mut self) -> Option<Step<A>> {
        if let Some((part, answer)) = self.answers.next() {
            return Some(Step::Say(Said::Answer(part, answer)));
        }
        if self.waiting.is_empty() || self.max_flying <= self.answers.n_open() {
            return None;
        }
        let samples = std::mem::take(&mut self.waiting);
        let span = Span { start: self.taken, end: self.taken + samples.len() as u64 };
        self.taken = span.end;
        let part = Part { span, is_final: None, ended: None };
        Some(Step::Infer(Job { number: self.answers.ask(part), samples, part }))
    }

    pub(super) fn answered(&mut self, number: u64, answer: Result<A, Lost>) {
        self.answers.answer(number, answer);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.answers.is_empty()
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.waiting.len()
    }
}
