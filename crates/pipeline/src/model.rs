//! One version of a model as it is served: its batcher, its executors, what it did so far.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use paceline_backend::{Instance, Item, Output, Ragged, WarmUp, run_on_thread};
use paceline_batch::{Batcher, Key, Limits, Priority, Runner, Settings, Stats, Tag};
use paceline_types::{Dim, Signature, Tensor, TensorSpec};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::{
    Blueprint, Clock, InferError, Mode, ModelStats, OpenError, Ride, Sequence, SequenceError,
    VersionPolicy,
    adapt::Adapter,
    counts::Counts,
    parts::{self, Inputs, MAX_PARTS},
    sequences::Sequences,
};

/// One version of a model, served. Dropping the last reference closes it; what it accepted is
/// answered all the same.
pub struct Model {
    facts: ModelFacts,
    /// As clients see it: without inputs that are made here.
    signature: Signature,
    /// The first padded input among those that clients give, and its axis.
    length_of: Option<(usize, usize)>,
    /// Inputs among those that clients give whose axes are padded.
    padded: Vec<(usize, usize)>,
    has_free_shape: bool,
    batcher: Batcher<Item, Output, Vec<Tensor>>,
    adapter: Option<Box<dyn Adapter>>,
    n_alive: Arc<AtomicUsize>,
    counts: Counts,
    /// For stateful models.
    sequences: Option<Sequences>,
    /// Whose parts those of the next request are that is split.
    next_split: AtomicU64,
}

/// What is fixed about a served model.
#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// Which of its versions are served.
    pub version_policy: VersionPolicy,
    /// What runs it.
    pub platform: String,
    /// How items reach its instances.
    pub mode: Mode,
    /// How many instances it has.
    pub instances: usize,
    /// The batcher's limits.
    pub limits: Limits,
    /// What warming up found out.
    pub warm_up: WarmUp,
}

/// One request.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// The inputs in the signature's order.
    pub inputs: SmallVec<[Tensor; 2]>,
    /// A fingerprint of every parameter that changes the result.
    pub params: Key,
    /// Whether it shares its call with nobody, whatever waits beside it.
    pub alone: bool,
    /// How urgent it is.
    pub priority: Priority,
    /// How long its answer is worth waiting for.
    pub timeout: Option<Duration>,
    /// Whose request it is, for fairness.
    pub stream: Option<u64>,
    /// The sequence that it belongs to; needed where the model is stateful.
    pub sequence: Option<Sequence>,
}

impl Model {
    /// Loads, warms up and starts a model. Blocks for as long as that takes. The timekeeper must
    /// be run.
    ///
    /// # Errors
    ///
    /// When any part of it is not right; nothing is left behind then.
    pub fn open(blueprint: Blueprint) -> Result<(Arc<Self>, Clock), OpenError> {
        let Blueprint {
            name,
            version,
            version_policy,
            platform,
            mode,
            mut batch,
            instances,
            build,
            ..
        } = blueprint;
        let first = build(0)?;
        let full = first.signature().clone();
        let ragged = Arc::new((blueprint.ragged)(&full).map_err(OpenError::Ragged)?);
        if mode != Mode::Batch || !full.batched {
            one_by_one(&mut batch);
        }
        let limits = batch.validate()?;
        let mut ready = Vec::with_capacity(instances);
        let mut first = Some(first);
        let mut warm_up = None;
        for number in 0..instances.max(1) {
            let backend = first.take().map_or_else(|| build(number), Ok)?;
            let rebuild = {
                let build = Arc::clone(&build);
                Box::new(move || build(number))
            };
            let mut instance = Instance::new(backend, rebuild, Arc::clone(&ragged));
            let found = instance.warm_up(limits.max_items(), blueprint.warm_up_length)?;
            warm_up.get_or_insert(found);
            ready.push(instance);
        }
        let warm_up = warm_up.unwrap_or(WarmUp { times: Vec::new(), batch_difference: None });
        let state = ready.first().map(Instance::initial_state).unwrap_or_default();
        let sequences = (!state.is_empty()).then(|| Sequences::new(blueprint.sequences, state));
        let (batcher, timekeeper) = Batcher::pair(limits.clone());
        let length = u32::try_from(blueprint.warm_up_length).unwrap_or(u32::MAX);
        for &(rows, took) in &warm_up.times {
            batcher.learn(if ragged.inputs.is_empty() { 0 } else { length }, rows, took);
        }
        let n_alive = Arc::new(AtomicUsize::new(ready.len()));
        for (number, instance) in ready.into_iter().enumerate() {
            let (alive, model) = (Arc::clone(&n_alive), name.clone());
            run_on_thread(
                format!("{name}-{number}"),
                Runner::new(batcher.attach(), instance),
                move |ended| {
                    alive.fetch_sub(1, Ordering::Relaxed);
                    if let Err(cause) = ended {
                        tracing::error!(model, number, %cause, "an instance is gone for good");
                    }
                },
            )?;
        }
        let (signature, padded) = as_clients_see_it(&full, &ragged);
        let is_free = |spec: &TensorSpec| spec.dims.contains(&Dim::Any);
        let model = Self {
            facts: ModelFacts {
                name,
                version,
                version_policy,
                platform,
                mode,
                instances,
                limits,
                warm_up,
            },
            length_of: padded.first().copied(),
            padded,
            has_free_shape: signature.inputs.iter().any(is_free),
            signature,
            batcher,
            adapter: blueprint.adapter,
            n_alive,
            counts: Counts::default(),
            sequences,
            // Far from what clients number their sequences with.
            next_split: AtomicU64::new(1 << 63),
        };
        Ok((Arc::new(model), timekeeper))
    }

    /// What is fixed about it.
    #[must_use]
    pub const fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// What clients give and get.
    #[must_use]
    pub const fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Plain bytes in, plain JSON out, where the model has that.
    #[must_use]
    pub fn adapter(&self) -> Option<&dyn Adapter> {
        self.adapter.as_deref()
    }

    /// Whether it can answer: it was warmed up, and an executor lives.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        0 < self.n_alive.load(Ordering::Relaxed)
    }

    /// Submits a request and waits for its result. Dropping the future withdraws the request.
    ///
    /// # Errors
    ///
    /// When there is no result, and why.
    pub async fn infer(&self, ask: Ask) -> Result<(Output, Ride), InferError> {
        let counting = self.counts.begin();
        match self.submit_and_wait(ask).await {
            Ok((output, ride, rows)) => {
                counting.good(&ride, rows);
                Ok((output, ride))
            }
            Err(error) => {
                counting.failed();
                Err(error)
            }
        }
    }

    /// What it did so far, in requests.
    #[must_use]
    pub fn stats(&self) -> ModelStats {
        self.counts.read()
    }

    /// How long a sequence of it may stay silent, where it is stateful.
    #[must_use]
    pub fn sequence_idle(&self) -> Option<Duration> {
        self.sequences.as_ref().map(Sequences::max_idle)
    }

    /// What its batcher did so far.
    #[must_use]
    pub fn batch_stats(&self) -> Stats {
        self.batcher.stats()
    }

    /// Takes no more requests; those accepted are answered.
    pub fn close(&self) {
        self.batcher.close();
    }

    async fn submit_and_wait(&self, mut ask: Ask) -> Result<(Output, Ride, u64), InferError> {
        let rows = self.signature.rows_of(&ask.inputs)?;
        let length = self.length_of.map_or(0, |(input, axis)| ask.inputs[input].shape()[axis]);
        let tag = Tag {
            key: self.key(&ask),
            length: u32::try_from(length).unwrap_or(u32::MAX),
            priority: ask.priority,
            timeout: ask.timeout,
            stream: ask.stream,
            ..Tag::default()
        };
        let inputs = std::mem::take(&mut ask.inputs);
        let (output, ride) = if let Some(sequences) = &self.sequences {
            if rows != 1 {
                return Err(SequenceError::Rows(rows).into());
            }
            let step = ask.sequence.ok_or(SequenceError::Missing)?;
            self.infer_step(sequences, step, inputs, tag).await?
        } else {
            let most = self.facts.limits.max_rows(tag.length);
            // Where not even one row fits, the batcher says why.
            if rows <= most || most == 0 {
                let tag = sized(&tag, &inputs, rows);
                let ticket = self.batcher.try_submit(Item { inputs }, &tag)?;
                let (output, ride) = ticket.with_ride().await?;
                (output, ride.into())
            } else {
                self.infer_parts(&inputs, rows, most, tag).await?
            }
        };
        Ok((output, ride, rows as u64))
    }

    /// One request of a sequence, on the sequence's lane.
    async fn infer_step(
        &self,
        sequences: &Sequences,
        step: Sequence,
        inputs: Inputs,
        tag: Tag,
    ) -> Result<(Output, Ride), InferError> {
        let open = sequences.enter(&step, &self.batcher)?;
        let tag = sized(&tag, &inputs, 1);
        let submitted = open.lane.try_submit(Item { inputs }, &tag);
        if submitted.is_err() && step.start {
            sequences.forget(&step.id, &open);
        }
        let (output, ride) = submitted?.with_ride().await?;
        open.touch(Instant::now());
        Ok((output, ride.into()))
    }

    /// A request with more rows than a batch may have. Dropping the future, or one part's failure,
    /// withdraws every part that has not left yet.
    async fn infer_parts(
        &self,
        inputs: &[Tensor],
        rows: usize,
        most: usize,
        mut tag: Tag,
    ) -> Result<(Output, Ride), InferError> {
        if MAX_PARTS < rows.div_ceil(most) {
            return Err(InferError::TooManyRows { rows, max: most * MAX_PARTS });
        }
        // All parts together have one share of the queue, as any other request has.
        let own = || self.next_split.fetch_add(1, Ordering::Relaxed);
        tag.stream = tag.stream.or_else(|| Some(own()));
        let mut tickets = Vec::with_capacity(rows.div_ceil(most));
        for inputs in parts::split(inputs, rows, most)? {
            let tag = sized(&tag, &inputs, inputs[0].shape()[0]);
            tickets.push(self.batcher.try_submit(Item { inputs }, &tag)?);
        }
        let mut outputs = Vec::with_capacity(tickets.len());
        let mut whole: Option<Ride> = None;
        for ticket in tickets {
            let (output, ride) = ticket.with_ride().await?;
            outputs.push(output);
            let ride = Ride::from(ride);
            whole = Some(whole.map_or(ride, |whole| whole.and(ride)));
        }
        let whole = whole.ok_or(InferError::TooManyRows { rows, max: 0 })?;
        Ok((parts::join(&outputs)?, whole))
    }

    /// What must be equal for requests to share a call: parameters, and every extent that is free
    /// and not padded.
    fn key(&self, ask: &Ask) -> Key {
        if ask.alone {
            return Key::unique();
        }
        if !self.has_free_shape {
            return ask.params;
        }
        let mut extents = SmallVec::<[usize; 8]>::new();
        for (at, tensor) in ask.inputs.iter().enumerate() {
            let own = &tensor.shape()[usize::from(self.signature.batched)..];
            for (axis, &extent) in own.iter().enumerate() {
                let is_padded = self.padded.contains(&(at, axis + 1));
                extents.push(if is_padded { 0 } else { extent });
            }
        }
        Key::of(&(ask.params, extents))
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// The signature without inputs that are made here, and which of its inputs' axes are padded.
fn as_clients_see_it(full: &Signature, ragged: &Ragged) -> (Signature, Vec<(usize, usize)>) {
    let made = [ragged.lengths, ragged.mask].map(|made| made.map(|(input, _)| input));
    let given: Vec<usize> =
        (0..full.inputs.len()).filter(|at| !made.contains(&Some(*at))).collect();
    let place = |input| given.iter().position(|&at| at == input);
    let padded =
        ragged.inputs.iter().filter_map(|&(input, axis)| Some((place(input)?, axis))).collect();
    let inputs = given.iter().map(|&at| full.inputs[at].clone()).collect();
    (Signature { inputs, ..full.clone() }, padded)
}

/// Settings under which nothing is batched, held or dropped.
fn one_by_one(batch: &mut Settings) {
    batch.max_items = Some(1);
    batch.sizes = Vec::new();
    batch.policy = paceline_batch::PolicyName::Fixed;
    batch.max_wait = Some(Duration::ZERO);
    batch.fast_path_wait = Some(Duration::ZERO);
    batch.early_fire = None;
}

/// A tag for these inputs of so many rows.
fn sized(tag: &Tag, inputs: &[Tensor], rows: usize) -> Tag {
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    Tag {
        rows,
        cost: u64::from(rows) * u64::from(tag.length.max(1)),
        bytes: inputs.iter().map(|tensor| tensor.data().len()).sum(),
        ..tag.clone()
    }
}
