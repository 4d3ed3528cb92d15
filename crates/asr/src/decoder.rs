//! The decoder: a token a step for every utterance that is live.

use std::sync::Arc;

use paceline_simd::{Kernel, Kind, LANES, Scratch, Simd, Then};

use crate::{
    Encoded, End, Event, Full, Id, Weights,
    attention::{Scores, attend},
    layer::{multiply, norm},
    sequence::Sequence,
    shape::{BEGIN, END, HIDDEN, VOCABULARY, WIDTH},
    weights::{DecoderLayer, Mlp},
};

/// Says utterances token by token, all that are live in each step.
///
/// The weights are read once for all of them; each has its own past and what it attends to, of
/// whatever length. One joins at any step and leaves with the step that ends it.
#[derive(Debug)]
pub struct Decoder {
    weights: Arc<Weights>,
    kind: Kind,
    capacity: usize,
    live: Vec<Sequence>,
    n_joined: u64,
    events: Vec<Event>,
    work: Work,
}

impl Decoder {
    /// A decoder for at most this many utterances at once that uses the best of what this CPU has.
    #[must_use]
    pub fn new(weights: Arc<Weights>, capacity: usize) -> Self {
        Self::with_kind(weights, capacity, Kind::best())
    }

    /// A decoder that uses these instructions: to compare them.
    #[must_use]
    pub fn with_kind(weights: Arc<Weights>, capacity: usize, kind: Kind) -> Self {
        let (live, events, work) = (Vec::new(), Vec::new(), Work::default());
        Self { weights, kind, capacity, live, n_joined: 0, events, work }
    }

    /// Takes an utterance in; the next step says its first token.
    ///
    /// # Errors
    ///
    /// When there are as many as it takes.
    pub fn join(&mut self, encoded: Encoded) -> Result<Id, Full> {
        if self.live.len() >= self.capacity {
            return Err(Full { capacity: self.capacity });
        }
        let id = Id(self.n_joined);
        self.n_joined += 1;
        self.live.push(Sequence::new(id, encoded, BEGIN));
        Ok(id)
    }

    /// Lets go of an utterance that nobody waits for any more. Says whether it was live.
    pub fn leave(&mut self, id: Id) -> bool {
        let n_live = self.live.len();
        self.live.retain(|sequence| sequence.id != id);
        self.live.len() < n_live
    }

    /// How many utterances are live.
    #[must_use]
    pub const fn n_live(&self) -> usize {
        self.live.len()
    }

    /// How many more it takes.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.capacity - self.live.len()
    }

    /// One token more for every live utterance: a token or the end of each, or both for one that
    /// is cut off. In the order in which they joined.
    pub fn step(&mut self) -> &[Event] {
        self.events.clear();
        if self.live.is_empty() {
            return &self.events;
        }
        let (live, work) = (&mut self.live[..], &mut self.work);
        self.kind.run(Step { weights: &self.weights, live, work });
        let events = &mut self.events;
        self.live.retain_mut(|sequence| {
            let (id, token) = (sequence.id, sequence.token);
            if token == END {
                events.push(Event::End { id, end: End::Said });
                return false;
            }
            events.push(Event::Token { id, token });
            let is_cut_off = sequence.n_past == sequence.encoded.max_tokens;
            if is_cut_off {
                events.push(Event::End { id, end: End::CutOff });
            }
            !is_cut_off
        });
        &self.events
    }
}

/// Where the decoder works: rows for each live utterance.
#[derive(Debug, Default)]
struct Work {
    /// What every layer adds to.
    rows: Vec<f32>,
    normed: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    hidden: Vec<f32>,
    gated: Vec<f32>,
    likelihoods: Vec<f32>,
    scores: Scores,
    scratch: Scratch,
}

struct Step<'a> {
    weights: &'a Weights,
    live: &'a mut [Sequence],
    work: &'a mut Work,
}

impl Kernel for Step<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { weights, live, work } = self;
        let n_live = live.len();
        let Work { rows, normed, queries, keys, values, .. } = work;
        for buffer in [rows, normed, queries, keys, values] {
            buffer.resize(n_live * WIDTH, 0.0);
        }
        work.hidden.resize(n_live * 2 * HIDDEN, 0.0);
        work.gated.resize(n_live * HIDDEN, 0.0);
        work.likelihoods.resize(n_live * VOCABULARY, 0.0);

        for (row, sequence) in work.rows.chunks_exact_mut(WIDTH).zip(&*live) {
            let token = weights.vocabulary.column(sequence.token as usize);
            row.iter_mut().zip(token).for_each(|(to, number)| *to = number);
        }
        for (at, layer) in weights.decoder.iter().enumerate() {
            work.attend_to_past(simd, weights, (at, layer), live);
            work.attend_to_heard(simd, (at, layer), live);
            work.run_mlp(simd, &layer.mlp);
        }
        norm(simd, &weights.decoder_norm, &work.rows, &mut work.normed);
        let to = (&mut work.likelihoods[..], Then::Keep);
        multiply(simd, &weights.vocabulary, &work.normed, to, &mut work.scratch);
        for (likelihoods, sequence) in work.likelihoods.chunks_exact(VOCABULARY).zip(live) {
            sequence.token = likeliest(simd, likelihoods);
            sequence.n_past += 1;
        }
    }
}

impl Work {
    #[inline(always)]
    fn attend_to_past<S: Simd>(
        &mut self,
        simd: S,
        weights: &Weights,
        (at, layer): (usize, &DecoderLayer),
        live: &mut [Sequence],
    ) {
        let Self { rows, normed, queries, keys, values, scores, scratch, .. } = self;
        norm(simd, &layer.past.norm, rows, normed);
        for (matrix, to) in [
            (&layer.past.query, &mut *queries),
            (&layer.past.key, &mut *keys),
            (&layer.past.value, &mut *values),
        ] {
            multiply(simd, matrix, normed, (to, Then::Keep), scratch);
        }
        for (row, sequence) in live.iter_mut().enumerate() {
            let row = row * WIDTH..(row + 1) * WIDTH;
            let (query, key) = (&mut queries[row.clone()], &mut keys[row.clone()]);
            weights.rotary.turn(simd, query, sequence.n_past);
            weights.rotary.turn(simd, key, sequence.n_past);
            sequence.remember(at, key, &values[row.clone()]);
            attend(simd, query, sequence.past(at), scores, &mut normed[row]);
        }
        multiply(simd, &layer.past.output, normed, (rows, Then::Add), scratch);
    }

    #[inline(always)]
    fn attend_to_heard<S: Simd>(
        &mut self,
        simd: S,
        (at, layer): (usize, &DecoderLayer),
        live: &[Sequence],
    ) {
        let Self { rows, normed, queries, scores, scratch, .. } = self;
        norm(simd, &layer.heard.norm, rows, normed);
        multiply(simd, &layer.heard.query, normed, (queries, Then::Keep), scratch);
        let queries = queries.chunks_exact(WIDTH).zip(normed.chunks_exact_mut(WIDTH));
        for (sequence, (query, to)) in live.iter().zip(queries) {
            attend(simd, query, sequence.encoded.layer(at), scores, to);
        }
        multiply(simd, &layer.heard.output, normed, (rows, Then::Add), scratch);
    }

    #[inline(always)]
    fn run_mlp<S: Simd>(&mut self, simd: S, mlp: &Mlp) {
        let Self { rows, normed, hidden, gated, scratch, .. } = self;
        norm(simd, &mlp.norm, rows, normed);
        multiply(simd, &mlp.up, normed, (hidden, Then::Keep), scratch);
        for (hidden, to) in hidden.chunks_exact(2 * HIDDEN).zip(gated.chunks_exact_mut(HIDDEN)) {
            let (numbers, gates) = hidden.split_at(HIDDEN);
            let (numbers, gates) = (numbers.as_chunks().0, gates.as_chunks().0);
            for ((number, gate), to) in numbers.iter().zip(gates).zip(to.as_chunks_mut().0) {
                let gate = simd.load(gate);
                let gate = simd.mul(gate, simd.sigmoid(gate));
                simd.store(simd.mul(simd.load(number), gate), to);
            }
        }
        multiply(simd, &mlp.down, gated, (rows, Then::Add), scratch);
    }
}

/// The first of the likeliest tokens.
#[inline(always)]
fn likeliest<S: Simd>(simd: S, likelihoods: &[f32]) -> u32 {
    /// Numbers of which only the greatest is looked at, unless the token is among them.
    const PART: usize = 512;
    let mut best = (f32::MIN, 0);
    for (at, part) in likelihoods.chunks_exact(PART).enumerate() {
        let mut greatest = simd.splat(f32::MIN);
        for vector in part.as_chunks().0 {
            greatest = simd.max(simd.load(vector), greatest);
        }
        let mut lanes = [0.0; LANES];
        simd.store(greatest, &mut lanes);
        let greatest = lanes.into_iter().fold(f32::MIN, f32::max);
        if best.0 < greatest {
            best = (greatest, at * PART);
        }
    }
    let part = &likelihoods[best.1..best.1 + PART];
    let at = best.1 + part.iter().position(|number| best.0 <= *number).unwrap_or(0);
    u32::try_from(at).expect("there are few tokens")
}
