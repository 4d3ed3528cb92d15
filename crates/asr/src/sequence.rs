//! An utterance on its way from sound to tokens.

use crate::shape::{LAYERS, WIDTH, max_tokens};

/// What there is to say of an utterance: keys and values for every layer of the decoder to attend
/// to, 14 KB for each of 41.7 frames a second.
#[derive(Debug)]
pub struct Encoded {
    pub(crate) n_frames: usize,
    /// Tokens it may have, its end included.
    pub(crate) max_tokens: usize,
    /// Layer after layer, a row for each frame.
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Encoded {
    pub(crate) fn new(n_samples: usize, n_frames: usize) -> Self {
        let zeros = || vec![0.0; LAYERS * n_frames * WIDTH];
        let (keys, values) = (zeros(), zeros());
        Self { n_frames, max_tokens: max_tokens(n_samples), keys, values }
    }

    /// The keys and values of each layer.
    pub(crate) fn layers_mut(&mut self) -> impl Iterator<Item = (&mut [f32], &mut [f32])> {
        let n = self.n_frames * WIDTH;
        self.keys.chunks_exact_mut(n).zip(self.values.chunks_exact_mut(n))
    }

    /// The keys and values of a layer.
    pub(crate) fn layer(&self, layer: usize) -> (&[f32], &[f32]) {
        let n = self.n_frames * WIDTH;
        let place = layer * n..(layer + 1) * n;
        (&self.keys[place.clone()], &self.values[place])
    }
}

/// Which utterance of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub(crate) u64);

/// What a step made of an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It goes on with a token.
    Token {
        /// Which utterance.
        id: Id,
        /// The token.
        token: u32,
    },
    /// It has ended and has left the decoder.
    End {
        /// Which utterance.
        id: Id,
        /// How.
        end: End,
    },
}

/// How an utterance ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All was said.
    Said,
    /// It had as many tokens as audio of its length may have.
    CutOff,
}

/// An utterance that is being decoded: what it says, and what it said.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) id: Id,
    pub(crate) encoded: Encoded,
    /// The last token.
    pub(crate) token: u32,
    /// Tokens before it.
    pub(crate) n_past: usize,
    /// For each layer, rows of keys and values of as many tokens as there may be.
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Sequence {
    pub(crate) fn new(id: Id, encoded: Encoded, token: u32) -> Self {
        let zeros = || vec![0.0; LAYERS * encoded.max_tokens * WIDTH];
        let (keys, values) = (zeros(), zeros());
        Self { id, encoded, token, n_past: 0, keys, values }
    }

    /// Adds the last token's key and value to a layer.
    pub(crate) fn remember(&mut self, layer: usize, key: &[f32], value: &[f32]) {
        let at = (layer * self.encoded.max_tokens + self.n_past) * WIDTH;
        self.keys[at..at + WIDTH].copy_from_slice(key);
        self.values[at..at + WIDTH].copy_from_slice(value);
    }

    /// A layer's keys and values, up to the last token's.
    pub(crate) fn past(&self, layer: usize) -> (&[f32], &[f32]) {
        let at = layer * self.encoded.max_tokens * WIDTH;
        let place = at..at + (self.n_past + 1) * WIDTH;
        (&self.keys[place.clone()], &self.values[place])
    }
}
