//! One version of a model as it is served: its batcher, its executors, what it did so far.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::Either;
use paceline_backend::{
    EarlySender, Health, Instance, Item, Output, Ragged, WarmUp, run_on_thread, step_on_thread,
};
use paceline_batch::{
    BatchRecord, Batcher, Cause, Explanation, Key, Limits, Priority, Runner, Settings, Stats,
    Stepper, Tag,
};
use paceline_types::{Dim, Signature, Tensor, TensorSpec, TraceContext};
use smallvec::SmallVec;
use tokio::sync::mpsc;

use crate::{
    Blueprint, Clock, Host, InferError, Mode, ModelStats, OpenError, Results, Ride, Sequence,
    SequenceError, VersionPolicy,
    adapt::Adapter,
    counts::Counts,
    parts::{self, MAX_PARTS},
    results::Answer,
    sequences::Sequences,
    submitted::Submitted,
    trace::{Tracer, Tracing},
};

/// Most results of one request that wait to be read; a client that is further behind loses the rest.
const EARLY_RESULTS: usize = 64;

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
    /// Of each instance.
    healths: Vec<Health>,
    counts: Arc<Counts>,
    /// For stateful models.
    sequences: Option<Sequences>,
    /// Whose parts those of the next request are that is split.
    next_split: AtomicU64,
    /// Who keeps spans of requests, and the name that they bear, if anybody does.
    tracer: OnceLock<(Arc<dyn Tracer>, Arc<str>)>,
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
    /// How many items each instance works on at once, where it works in steps.
    pub seats: Option<usize>,
    /// What warming up found out.
    pub warm_up: WarmUp,
    /// Whether it gives several results for each request, as they come.
    pub streams: bool,
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
    /// By when its answer is wanted, where that is later than at once; it is not dropped for being
    /// late.
    pub wanted: Option<Duration>,
    /// How many results that come before the last may wait to be read; 64 where it is left out.
    pub early_results: Option<usize>,
    /// Whose request it is, for fairness.
    pub stream: Option<u64>,
    /// Who asks, where that one can be told to come again later: when there is no room, it gives
    /// way to those who wait with less.
    pub client: Option<u64>,
    /// The sequence that it belongs to; needed where the model is stateful.
    pub sequence: Option<Sequence>,
    /// Whether it waits while the queue is full, so that pressure reaches whoever sends, instead of
    /// being refused.
    pub waits_for_room: bool,
    /// Where its client stands in a trace.
    pub trace: Option<TraceContext>,
}

impl Model {
    /// Loads, warms up and starts a model. Blocks for as long as that takes. The timekeeper must
    /// be run.
    ///
    /// # Errors
    ///
    /// When any part of it is not right; nothing is left behind then.
    pub fn open(blueprint: Blueprint) -> Result<(Arc<Self>, Clock), OpenError> {
        Self::open_on(blueprint, &mut |name, puller, instance, ended| {
            let is_instant = instance.is_instant();
            let runner = Runner::new(puller, instance);
            if is_instant {
                runner.lend(ended);
                return Ok(());
            }
            run_on_thread(name, runner, ended)
        })
    }

    /// As [`open`](Self::open), with a say in where instances run: on a thread each, or on those of
    /// their clients, unless time is to be a simulation's.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_on(
        blueprint: Blueprint,
        host: &mut Host<'_>,
    ) -> Result<(Arc<Self>, Clock), OpenError> {
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
        let mut first = build(0)?;
        let full = first.signature().clone();
        let streams = first.streams();
        let ragged = Arc::new((blueprint.ragged)(&full).map_err(OpenError::Ragged)?);
        if mode != Mode::Batch || !full.batched {
            one_by_one(&mut batch);
        }
        let mut limits = batch.validate()?;
        if let Some(max_rows) = first.max_rows().filter(|most| *most < limits.max_items()) {
            batch.max_items = Some(max_rows);
            limits = batch.validate()?;
        }
        let seats = first.steps().map(|_| limits.max_items());
        if seats.is_some() {
            // Each item is a call of its own, and leaves as soon as there is a seat.
            (batch.max_items, batch.sizes) = (Some(1), Vec::new());
            limits = batch.validate()?;
        }
        let mut ready = Vec::with_capacity(instances);
        let (mut first, mut warm_up) = (Some(first), None);
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
        let healths = ready.iter().map(Instance::health).collect();
        let n_alive = start(&name, &batcher, ready, (seats, host))?;
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
                seats,
                warm_up,
                streams,
            },
            length_of: padded.first().copied(),
            padded,
            has_free_shape: signature.inputs.iter().any(is_free),
            signature,
            batcher,
            adapter: blueprint.adapter,
            n_alive,
            healths,
            counts: Arc::default(),
            sequences,
            // Far from what clients number their sequences with.
            next_split: AtomicU64::new(1 << 63),
            tracer: OnceLock::new(),
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

    /// Whether it can answer: it was warmed up, an executor lives, and an instance is well.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.trouble().is_none()
    }

    /// Why it cannot answer, if it cannot.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        if self.n_alive.load(Ordering::Relaxed) == 0 {
            return Some("none of its instances lives".to_owned());
        }
        let mut troubles = self.healths.iter().map(Health::trouble);
        let first = troubles.next().flatten()?;
        troubles.all(|trouble| trouble.is_some()).then_some(first)
    }

    /// Submits a request, at once, and waits for its result. Dropping the future withdraws the
    /// request.
    ///
    /// # Errors
    ///
    /// When there is no result, and why.
    pub fn infer(
        &self,
        mut ask: Ask,
    ) -> impl Future<Output = Result<(Output, Ride), InferError>> + Send + use<'_> {
        // What is asked is handed over here and not in the future, which would have room for it
        // several times over, and is moved more than once itself. For the same reason what few
        // need is boxed.
        let tracing = self.trace(&mut ask).map(Box::new);
        let counting = self.counts.begin();
        let submitted = if self.facts.streams {
            Either::Left(Err(InferError::Streams(self.facts.name.clone())))
        } else if ask.waits_for_room {
            Either::Right(Box::pin(self.submit_when_room(ask)))
        } else {
            Either::Left(self.submit(ask, None))
        };
        async move {
            let submitted = match submitted {
                Either::Left(submitted) => submitted,
                Either::Right(submitting) => submitting.await,
            };
            let (answer, rows): (Answer, _) = match submitted {
                Ok(submitted) => {
                    let rows = submitted.rows;
                    (submitted.wait().await, rows)
                }
                Err(error) => (Err(error), 0),
            };
            counting.end(&answer, rows);
            if let Some(tracing) = tracing {
                tracing.end(&answer);
            }
            answer
        }
    }

    /// Submits a request and gives its results as they come: one, or several where the model
    /// streams. Dropping them withdraws the request.
    pub fn infer_stream(&self, mut ask: Ask) -> Results {
        let tracing = self.trace(&mut ask);
        let counting = self.counts.begin();
        let (early, results) = mpsc::channel(ask.early_results.unwrap_or(EARLY_RESULTS).max(1));
        Results::new(counting, tracing, results, self.submit(ask, Some(early)))
    }

    /// Has its requests traced.
    pub(crate) fn trace_with(&self, tracer: &Arc<dyn Tracer>) {
        drop(self.tracer.set((Arc::clone(tracer), self.facts.name.as_str().into())));
    }

    /// Begins a request's span, where it is traced; what it asks for then stands in that, and not
    /// any more where its client does.
    fn trace(&self, ask: &mut Ask) -> Option<Tracing> {
        let (tracer, name) = self.tracer.get()?;
        let tracing = Tracing::begin(tracer, ask.trace, name, self.facts.version)?;
        ask.trace = Some(tracing.context().of_batch());
        Some(tracing)
    }

    /// How often an instance was made anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.healths.iter().map(Health::restarts).sum()
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

    /// How long ago it was loaded.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.batcher.age()
    }

    /// What its batcher believes now, and what it would do about it.
    #[must_use]
    pub fn explain(&self) -> Explanation {
        self.batcher.explain()
    }

    /// The batches that landed after the one with this sequence number: at most the newest so
    /// many, of those that are kept, oldest first. Asking costs a copy of what is new.
    #[must_use]
    pub fn landed_after(&self, sequence: u64, most: usize) -> Vec<BatchRecord> {
        self.batcher.landed_after(sequence, most)
    }

    /// Takes no more requests; those accepted are answered.
    pub fn close(&self) {
        self.batcher.close();
    }

    /// Takes a request in, whichever way it goes: in one piece, in parts, or on its sequence's
    /// lane. Results that come before the last go to `early`.
    fn submit(&self, ask: Ask, early: Option<EarlySender>) -> Result<Submitted, InferError> {
        let (rows, tag) = self.tag(&ask)?;
        let Ask { inputs, sequence, trace, .. } = ask;
        if let Some(sequences) = &self.sequences {
            if rows != 1 {
                return Err(SequenceError::Rows(rows).into());
            }
            let step = sequence.ok_or(SequenceError::Missing)?;
            return self.submit_step(sequences, &step, Item { inputs, early, trace }, &tag);
        }
        let most = self.facts.limits.max_rows(tag.length);
        // Where not even one row fits, the batcher says why. Results of a stream that come before
        // the last cannot be joined, so neither can its parts.
        if rows <= most || most == 0 || self.facts.streams {
            let tag = sized(&tag, &inputs, rows);
            let first = self.batcher.try_submit(Item { inputs, early, trace }, &tag)?;
            return Ok(Submitted { first, rest: Vec::new(), open: None, rows: rows as u64 });
        }
        self.submit_parts(&inputs, rows, most, tag)
    }

    /// As [`submit`](Self::submit), waiting for room where it goes in one piece.
    async fn submit_when_room(&self, ask: Ask) -> Result<Submitted, InferError> {
        let (rows, tag) = self.tag(&ask)?;
        let most = self.facts.limits.max_rows(tag.length);
        if self.sequences.is_some() || (most < rows && most != 0) {
            return self.submit(ask, None);
        }
        let tag = sized(&tag, &ask.inputs, rows);
        let first =
            self.batcher.submit(Item { trace: ask.trace, ..Item::new(ask.inputs) }, &tag).await?;
        Ok(Submitted { first, rest: Vec::new(), open: None, rows: rows as u64 })
    }

    /// How many rows a request has, and what the batcher is told of it.
    fn tag(&self, ask: &Ask) -> Result<(usize, Tag), InferError> {
        let rows = self.signature.rows_of(&ask.inputs)?;
        let length = self.length_of.map_or(0, |(input, axis)| ask.inputs[input].shape()[axis]);
        let tag = Tag {
            key: self.key(ask),
            length: u32::try_from(length).unwrap_or(u32::MAX),
            priority: ask.priority,
            timeout: ask.timeout,
            wanted: ask.wanted,
            stream: ask.stream,
            client: ask.client,
            ..Tag::default()
        };
        Ok((rows, tag))
    }

    /// One request of a sequence, on the sequence's lane.
    fn submit_step(
        &self,
        sequences: &Sequences,
        step: &Sequence,
        item: Item,
        tag: &Tag,
    ) -> Result<Submitted, InferError> {
        let open = sequences.enter(step, &self.batcher)?;
        let tag = sized(tag, &item.inputs, 1);
        let submitted = open.lane.try_submit(item, &tag);
        if submitted.is_err() && step.start {
            sequences.forget(&step.id, &open);
        }
        Ok(Submitted { first: submitted?, rest: Vec::new(), open: Some(open), rows: 1 })
    }

    /// A request with more rows than a batch may have.
    fn submit_parts(
        &self,
        inputs: &[Tensor],
        rows: usize,
        most: usize,
        mut tag: Tag,
    ) -> Result<Submitted, InferError> {
        if MAX_PARTS < rows.div_ceil(most) {
            return Err(InferError::TooManyRows { rows, max: most * MAX_PARTS });
        }
        // All parts together have one share of the queue, as any other request has.
        let own = || self.next_split.fetch_add(1, Ordering::Relaxed);
        tag.stream = tag.stream.or_else(|| Some(own()));
        let mut tickets = parts::split(inputs, rows, most)?.into_iter().map(|inputs| {
            let tag = sized(&tag, &inputs, inputs[0].shape()[0]);
            self.batcher.try_submit(Item::new(inputs), &tag)
        });
        let first = tickets.next().ok_or(InferError::TooManyRows { rows, max: 0 })??;
        let rest = tickets.collect::<Result<_, _>>()?;
        Ok(Submitted { first, rest, open: None, rows: rows as u64 })
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

/// Has each instance run, in steps where it has seats, and keeps count of those that live.
fn start(
    name: &str,
    batcher: &Batcher<Item, Output, Vec<Tensor>>,
    instances: Vec<Instance>,
    (seats, host): (Option<usize>, &mut Host<'_>),
) -> std::io::Result<Arc<AtomicUsize>> {
    let n_alive = Arc::new(AtomicUsize::new(instances.len()));
    for (number, instance) in instances.into_iter().enumerate() {
        let (alive, model) = (Arc::clone(&n_alive), name.to_owned());
        let ended = move |ended: Result<(), Cause>| {
            alive.fetch_sub(1, Ordering::Relaxed);
            if let Err(cause) = ended {
                tracing::error!(model, number, %cause, "an instance is gone for good");
            }
        };
        let thread = format!("{name}-{number}");
        if let Some(seats) = seats {
            let stepper = Stepper::new(batcher.attach_seats(seats), instance);
            step_on_thread(thread, stepper, ended)?;
            continue;
        }
        host(thread, batcher.attach(), instance, Box::new(ended))?;
    }
    Ok(n_alive)
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
