//! Encoder and decoder together: utterances in, tokens out, a bounded piece of work at a time.

use std::{collections::VecDeque, sync::Arc};

use crate::{AudioError, Decoder, Encoder, End, Event, Id, Weights, encoder::check};

/// Most frames that go through a part of the encoder between two steps of the decoder, while
/// somebody waits for those: about 8 ms.
const ENCODED_BETWEEN_STEPS: usize = 800;

/// Recognises any number of utterances at once, each at its own pace. `K` tells them apart.
#[derive(Debug)]
pub struct Recogniser<K> {
    encoder: Encoder,
    decoder: Decoder,
    waiting: VecDeque<(K, Vec<f32>)>,
    /// Whose utterance the encoder is at.
    encoding: Option<K>,
    saying: Vec<Saying<K>>,
}

#[derive(Debug)]
struct Saying<K> {
    id: Id,
    key: K,
    tokens: Vec<u32>,
}

impl<K: Copy + PartialEq> Recogniser<K> {
    /// A recogniser with nothing to do. Who uses it says how many utterances there may be.
    #[must_use]
    pub fn new(weights: Arc<Weights>) -> Self {
        Self {
            encoder: Encoder::new(Arc::clone(&weights)),
            decoder: Decoder::new(weights, usize::MAX),
            waiting: VecDeque::new(),
            encoding: None,
            saying: Vec::new(),
        }
    }

    /// Takes an utterance: samples from -1 to 1, 16 000 a second.
    ///
    /// # Errors
    ///
    /// When it is too short, too long or no sound.
    pub fn begin(&mut self, key: K, samples: Vec<f32>) -> Result<(), AudioError> {
        check(&samples)?;
        self.waiting.push_back((key, samples));
        Ok(())
    }

    /// Lets go of an utterance that nobody waits for any more.
    pub fn leave(&mut self, key: K) {
        self.waiting.retain(|(waiting, _)| *waiting != key);
        if self.encoding == Some(key) {
            self.encoding = None;
            self.encoder.give_up();
        }
        if let Some(at) = self.saying.iter().position(|saying| saying.key == key) {
            let Saying { id, .. } = self.saying.swap_remove(at);
            self.decoder.leave(id);
        }
    }

    /// One token more for each utterance that is being said, after a part of encoding others.
    /// `ended` hears of those that are done.
    pub fn step(&mut self, mut ended: impl FnMut(K, &[u32])) {
        self.encode();
        for event in self.decoder.step() {
            let (Event::Token { id, .. } | Event::End { id, .. }) = event;
            let Some(at) = self.saying.iter().position(|saying| saying.id == *id) else { continue };
            match event {
                Event::Token { token, .. } => self.saying[at].tokens.push(*token),
                Event::End { end: End::Said | End::CutOff, .. } => {
                    let Saying { key, tokens, .. } = self.saying.swap_remove(at);
                    ended(key, &tokens);
                }
            }
        }
    }

    /// Encodes what waits; no more than a bounded part of it where somebody waits for a token.
    fn encode(&mut self) {
        let mut left = ENCODED_BETWEEN_STEPS;
        loop {
            if self.encoding.is_none() {
                let Some((key, samples)) = self.waiting.pop_front() else { return };
                // It was checked when it came, so that it begins.
                self.encoding = self.encoder.begin(&samples).is_ok().then_some(key);
            }
            let cost = self.encoder.next_cost();
            let has_begun = left < ENCODED_BETWEEN_STEPS;
            if left < cost && has_begun && 0 < self.decoder.n_live() {
                return;
            }
            left = left.saturating_sub(cost.max(1));
            let Some(encoded) = self.encoder.advance() else { continue };
            let (Some(key), Ok(id)) = (self.encoding.take(), self.decoder.join(encoded)) else {
                continue;
            };
            self.saying.push(Saying { id, key, tokens: Vec::new() });
        }
    }
}
