//! One listener's request from text to sound: carries out what its [`Listener`] decides, and waits.

use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesOrdered};
use paceline_batch::Moment;
use paceline_types::Tensor;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until},
};

use super::{
    Pair, Sound,
    bind::Bound,
    counts::nanos,
    error::SynthesisError,
    listener::{Listener, Next},
    plan::Window,
    seam::Joiner,
    tape::{Tape, WrongTokens},
};
use crate::{Ask, Model, Results};

/// Most results of a token model that wait to be read: its tokens come faster than they are played.
const TOKEN_RESULTS: usize = 16_384;

type Vocoding =
    Pin<Box<dyn Future<Output = Result<(Window, Vec<f32>, Duration), SynthesisError>> + Send>>;

/// One listener's request. Whoever holds it pulls the sound out of it; dropping it withdraws
/// whatever of it is with the models.
pub struct Session {
    pair: Arc<Pair>,
    tokens: Stage,
    vocoder: Stage,
    /// Parts of the text that are not with the token model yet.
    parts: VecDeque<Tensor>,
    /// The run whose tokens are being turned into sound, and the one after it, whose tokens are
    /// on their way meanwhile.
    runs: VecDeque<Run>,
    listener: Listener,
    joiner: Joiner,
    vocoding: FuturesOrdered<Vocoding>,
    began: Instant,
    last_chunk: Option<Instant>,
    has_token: bool,
    outcome: Option<Outcome>,
    _place: OwnedSemaphorePermit,
}

/// A model, and what this request gives to its inputs.
pub(super) struct Stage {
    pub(super) model: Arc<Model>,
    pub(super) bound: Bound,
}

/// The tokens of one part of the text.
struct Run {
    results: Option<Results>,
    tape: Tape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Finished,
    Failed,
}

impl Session {
    pub(super) fn new(
        pair: Arc<Pair>,
        (tokens, vocoder): (Stage, Stage),
        parts: VecDeque<Tensor>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let finalizes = vocoder.bound.finalizes();
        let listener = Listener::new(pair.settings.chunks.clone(), pair.pace, finalizes);
        pair.counts.change(|counts| counts.started += 1);
        Self {
            pair,
            tokens,
            vocoder,
            parts,
            runs: VecDeque::new(),
            listener,
            joiner: Joiner::default(),
            vocoding: FuturesOrdered::new(),
            began: Instant::now(),
            last_chunk: None,
            has_token: false,
            outcome: None,
            _place: place,
        }
    }

    /// Samples in a second of its sound.
    #[must_use]
    pub fn sample_rate(&self) -> u32 {
        self.pair.settings.chunks.sample_rate
    }

    /// What was heard so far.
    #[must_use]
    pub const fn heard(&self) -> &super::Playback {
        self.listener.playback()
    }

    /// The next sound; `None` after the last. An error is the last.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Sound, SynthesisError>> {
        if self.outcome.is_some() {
            return None;
        }
        match self.advance().await {
            Ok(Some(sound)) => Some(Ok(sound)),
            Ok(None) => {
                self.outcome = Some(Outcome::Finished);
                let took = self.began.elapsed();
                let heard = *self.listener.playback();
                self.pair.counts.change(|counts| counts.finish(&heard, took));
                None
            }
            Err(error) => {
                self.outcome = Some(Outcome::Failed);
                self.pair.counts.change(|counts| counts.failed += 1);
                Some(Err(error))
            }
        }
    }

    async fn advance(&mut self) -> Result<Option<Sound>, SynthesisError> {
        let mut spare = None;
        loop {
            self.begin_runs();
            let early = match self.decide(spare.is_some()) {
                Next::Ask(window, wanted) => {
                    self.vocode(window, wanted, spare.take());
                    continue;
                }
                Next::Early(until) => Some(self.began + until.since(Moment::START)),
                Next::Wait => None,
            };
            spare = None;
            let is_spent = self.runs.front().is_none_or(|run| run.results.is_none());
            if early.is_none() && is_spent && self.listener.has_asked_for_all() {
                if self.next_run() {
                    continue;
                }
                if self.vocoding.is_empty() {
                    return Ok(None);
                }
            }
            let at_once = Arc::clone(&self.pair.spare);
            tokio::select! {
                biased;
                Some(sound) = self.vocoding.next() => {
                    let (window, sound, took) = sound?;
                    return self.hand_over(window, &sound, took).map(Some);
                }
                tokens = next_tokens(&mut self.runs) => self.take_in(tokens)?,
                () = sleep_until(early.unwrap_or(self.began)), if early.is_some() => {}
                // Nothing is closed while a session lives.
                permit = at_once.acquire_owned(), if early.is_some() => spare = permit.ok(),
            }
        }
    }

    /// What the listener needs now.
    fn decide(&mut self, has_spare: bool) -> Next {
        let now = self.now();
        let Some(run) = self.runs.front() else { return Next::Wait };
        self.listener.next(run.tape.len(), run.results.is_none(), has_spare, now)
    }

    /// Has the token model begin the first part, and the next one once the one before is done.
    fn begin_runs(&mut self) {
        let all_done = self.runs.iter().all(|run| run.results.is_none());
        if !all_done || 2 <= self.runs.len() {
            return;
        }
        let Some(part) = self.parts.pop_front() else { return };
        let (inputs, params) = self.tokens.bound.item(&part, self.parts.is_empty());
        let ask = Ask {
            inputs,
            params,
            wanted: Some(self.listener.wanted(self.now())),
            early_results: Some(TOKEN_RESULTS),
            ..Ask::default()
        };
        let results = Some(self.tokens.model.infer_stream(ask));
        self.runs.push_back(Run { results, tape: Tape::default() });
    }

    /// Goes on with the next run; `false` where there is none.
    fn next_run(&mut self) -> bool {
        self.runs.pop_front();
        self.listener.next_run();
        !self.runs.is_empty() || !self.parts.is_empty()
    }

    /// Has the vocoder make a chunk.
    fn vocode(&mut self, window: Window, wanted: Duration, spare: Option<OwnedSemaphorePermit>) {
        let Some(run) = self.runs.front_mut() else { return };
        let tokens = run.tape.window(&window, self.pair.settings.chunks.edge.unwrap_or(0.0));
        run.tape.forget_before(self.listener.oldest_needed());
        let (inputs, params) = self.vocoder.bound.item(&tokens, window.is_last);
        let ask =
            Ask { inputs, params, wanted: Some(wanted), waits_for_room: true, ..Ask::default() };
        let model = Arc::clone(&self.vocoder.model);
        self.vocoding.push_back(Box::pin(async move {
            let asked = Instant::now();
            let (outputs, _) = model.infer(ask).await?;
            drop(spare);
            let sound = outputs.first().and_then(Tensor::to_f32);
            let not_sound =
                || SynthesisError::Setup("the vocoder's first output is no FP32".into());
            Ok((window, sound.ok_or_else(not_sound)?, asked.elapsed()))
        }));
    }

    /// Gives a chunk to whoever listens.
    fn hand_over(
        &mut self,
        window: Window,
        sound: &[f32],
        took: Duration,
    ) -> Result<Sound, SynthesisError> {
        let samples = self.joiner.join(&self.pair.settings.chunks, &window, sound)?;
        let now = self.now();
        let gap = self.listener.hand_over(now);
        let instant = Instant::now();
        let before = self.last_chunk.replace(instant);
        let time = self.pair.settings.chunks.time(samples.len() as u64);
        self.pair.counts.change(|counts| {
            counts.chunks += 1;
            counts.sound += time;
            counts.chunk_latency.record(nanos(took));
            match before {
                None => counts.first_chunk.record(nanos(instant - self.began)),
                Some(before) => counts.between_chunks.record(nanos(instant - before)),
            }
            if let Some(gap) = gap {
                counts.gaps += 1;
                counts.silence += gap;
            }
        });
        Ok(Sound { samples, gap })
    }

    /// Takes in what the token model said next of the last run.
    fn take_in(
        &mut self,
        tokens: Option<Result<Vec<Tensor>, crate::InferError>>,
    ) -> Result<(), SynthesisError> {
        let Some(run) = self.runs.back_mut() else { return Ok(()) };
        let Some(outputs) = tokens.transpose()? else {
            run.results = None;
            return Ok(());
        };
        let count = self.pair.count_output.map(|at| count(&outputs, at)).transpose()?;
        let before = run.tape.len();
        if let Some(tokens) = outputs.get(self.pair.tokens_output) {
            run.tape.push(tokens, count)?;
        }
        let n_new = (run.tape.len() - before) as u64;
        let is_first = 0 < n_new && !std::mem::replace(&mut self.has_token, true);
        let since = nanos(self.began.elapsed());
        self.pair.counts.change(|counts| {
            counts.tokens += n_new;
            if is_first {
                counts.first_token.record(since);
            }
        });
        Ok(())
    }

    /// The time as the listener is told it.
    fn now(&self) -> Moment {
        Moment::at(self.began.elapsed())
    }
}

/// The token model's next words, of the run that still has any; for ever, where none has.
async fn next_tokens(runs: &mut VecDeque<Run>) -> Option<Result<Vec<Tensor>, crate::InferError>> {
    match runs.back_mut().and_then(|run| run.results.as_mut()) {
        Some(results) => results.next().await,
        None => std::future::pending().await,
    }
}

/// How many tokens are valid, by the output that says so.
fn count(outputs: &[Tensor], at: usize) -> Result<usize, WrongTokens> {
    let value = outputs.get(at).and_then(|count| {
        let data = &count.data()[..];
        let narrow = data.try_into().map(i32::from_le_bytes).map(i64::from);
        let value = narrow.or_else(|_| data.try_into().map(i64::from_le_bytes)).ok()?;
        usize::try_from(value).ok()
    });
    value.ok_or_else(|| WrongTokens::count(outputs.get(at)))
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.outcome.is_none() {
            self.pair.counts.change(|counts| counts.cancelled += 1);
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("listener", &self.listener).finish_non_exhaustive()
    }
}
