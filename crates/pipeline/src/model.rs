//! One version of a model as it is served: its batcher, its executors, what it did so far.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use paceline_backend::{
    Backend, BackendError, EarlySender, Health, Instance, Item, Output, Ragged, WarmUp,
    run_on_thread,
};
use paceline_batch::{
    Batcher, Key, Limits, Priority, Ride, Runner, Settings, SettingsError, Stats, Tag, Ticket,
    Timekeeper,
};
use paceline_types::{Dim, Signature, Tensor, TensorSpec};
use smallvec::SmallVec;
use tokio::{sync::mpsc, time::Instant};

use crate::{InferError, Results, adapt::Adapter};

/// Most results of one request that wait to be read; a client that is further behind loses the rest.
const EARLY_RESULTS: usize = 64;

/// How a model's items reach its instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// In batches.
    #[default]
    Batch,
    /// One by one, without waiting, over several instances: for models that do not batch.
    Pool,
    /// One by one on an instance of its own, never dropped: for calls that must not queue behind
    /// a stream.
    Direct,
}

/// Makes an instance; called once for each, and again after a panic.
pub type Build = Arc<dyn Fn(usize) -> Result<Box<dyn Backend>, BackendError> + Send + Sync>;

/// Finds the padded axes in a signature, or says what is wrong with how they were named.
pub type FindRagged = Box<dyn FnOnce(&Signature) -> Result<Ragged, String> + Send>;

/// What enforces a model's deadlines; it must be run.
pub type Clock = Timekeeper<Item, Output, Vec<Tensor>>;

/// What is needed to serve a model.
pub struct Blueprint {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// What runs it, as the protocol's `platform` says it.
    pub platform: String,
    /// How items reach its instances.
    pub mode: Mode,
    /// The batcher's settings.
    pub batch: Settings,
    /// How many instances it has.
    pub instances: usize,
    /// Makes an instance.
    pub build: Build,
    /// Names of the padded axes, once the signature is known.
    pub ragged: FindRagged,
    /// What free extents are taken as when it is warmed up.
    pub warm_up_length: usize,
    /// Plain bytes in, plain JSON out.
    pub adapter: Option<Box<dyn Adapter>>,
}

impl std::fmt::Debug for Blueprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blueprint").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a model cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The model itself.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Its batch settings.
    #[error("batch.{0}")]
    Settings(#[from] SettingsError),
    /// Its padded axes.
    #[error("padding: {0}")]
    Ragged(String),
    /// The system.
    #[error("no thread for an instance")]
    Thread(#[from] std::io::Error),
}

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
    counts: Counts,
}

/// What is fixed about a served model.
#[derive(Debug, Clone)]
pub struct ModelFacts {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
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
    /// How urgent it is.
    pub priority: Priority,
    /// How long its answer is worth waiting for.
    pub timeout: Option<Duration>,
    /// Whose request it is, for fairness.
    pub stream: Option<u64>,
}

/// What a model did so far, counted in requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelStats {
    /// Requests with a result.
    pub n_good: u64,
    /// Requests without.
    pub n_failed: u64,
    /// Rows of the good ones.
    pub n_rows: u64,
    /// Nanoseconds from request to result, over all good ones.
    pub total_ns: u64,
    /// Of these, waiting.
    pub wait_ns: u64,
    /// Of these, in the model.
    pub compute_ns: u64,
    /// Nanoseconds from request to failure, over all failed ones.
    pub failed_ns: u64,
}

#[derive(Debug, Default)]
struct Counts {
    n_good: AtomicU64,
    n_failed: AtomicU64,
    n_rows: AtomicU64,
    total_ns: AtomicU64,
    wait_ns: AtomicU64,
    compute_ns: AtomicU64,
    failed_ns: AtomicU64,
}

impl Model {
    /// Loads, warms up and starts a model. Blocks for as long as that takes. The timekeeper must
    /// be run.
    ///
    /// # Errors
    ///
    /// When any part of it is not right; nothing is left behind then.
    pub fn open(blueprint: Blueprint) -> Result<(Arc<Self>, Clock), OpenError> {
        let Blueprint { name, version, platform, mode, mut batch, instances, build, .. } =
            blueprint;
        let first = build(0)?;
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
        let (batcher, timekeeper) = Batcher::pair(limits.clone());
        let length = u32::try_from(blueprint.warm_up_length).unwrap_or(u32::MAX);
        for &(rows, took) in &warm_up.times {
            batcher.learn(if ragged.inputs.is_empty() { 0 } else { length }, rows, took);
        }
        let healths = ready.iter().map(Instance::health).collect();
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
                platform,
                mode,
                instances,
                limits,
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
            counts: Counts::default(),
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

    /// Submits a request and waits for its result. Dropping the future withdraws the request.
    ///
    /// # Errors
    ///
    /// When there is no result, and why.
    pub async fn infer(&self, ask: Ask) -> Result<(Output, Ride), InferError> {
        let began = Instant::now();
        let result = if self.facts.streams {
            Err(InferError::Streams(self.facts.name.clone()))
        } else {
            match self.submit(ask, None) {
                Ok((ticket, rows)) => {
                    ticket.with_ride().await.map(|answer| (answer, rows)).map_err(InferError::from)
                }
                Err(error) => Err(error),
            }
        };
        self.count(began, result.as_ref().ok().map(|((_, ride), rows)| (ride, *rows)));
        result.map(|(answer, _)| answer)
    }

    /// Submits a request and gives its results as they come: one, or several where the model
    /// streams. Dropping them withdraws the request.
    pub fn infer_stream(self: &Arc<Self>, ask: Ask) -> Results {
        let (early, results) = mpsc::channel(EARLY_RESULTS);
        Results::new(Arc::clone(self), results, self.submit(ask, Some(early)))
    }

    /// Counts a request that began then, by how it travelled if it was good.
    pub(crate) fn count(&self, began: Instant, good: Option<(&Ride, u64)>) {
        let took = nanos(began.elapsed());
        let count = |count: &AtomicU64, more: u64| {
            count.fetch_add(more, Ordering::Relaxed);
        };
        if let Some((ride, rows)) = good {
            count(&self.counts.n_good, 1);
            count(&self.counts.n_rows, rows);
            count(&self.counts.total_ns, took);
            count(&self.counts.wait_ns, nanos(ride.waited));
            count(&self.counts.compute_ns, nanos(ride.took));
        } else {
            count(&self.counts.n_failed, 1);
            count(&self.counts.failed_ns, took);
        }
    }

    /// What it did so far, in requests.
    #[must_use]
    pub fn stats(&self) -> ModelStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ModelStats {
            n_good: read(&self.counts.n_good),
            n_failed: read(&self.counts.n_failed),
            n_rows: read(&self.counts.n_rows),
            total_ns: read(&self.counts.total_ns),
            wait_ns: read(&self.counts.wait_ns),
            compute_ns: read(&self.counts.compute_ns),
            failed_ns: read(&self.counts.failed_ns),
        }
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

    /// Submits a request, and says how many rows it has.
    fn submit(
        &self,
        ask: Ask,
        early: Option<EarlySender>,
    ) -> Result<(Ticket<Output>, u64), InferError> {
        let rows = self.signature.rows_of(&ask.inputs)?;
        let length = self.length_of.map_or(0, |(input, axis)| ask.inputs[input].shape()[axis]);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let tag = Tag {
            key: self.key(&ask),
            length,
            rows,
            cost: u64::from(rows) * u64::from(length.max(1)),
            bytes: ask.inputs.iter().map(|tensor| tensor.data().len()).sum(),
            priority: ask.priority,
            timeout: ask.timeout,
            stream: ask.stream,
        };
        let ticket = self.batcher.try_submit(Item { inputs: ask.inputs, early }, &tag)?;
        Ok((ticket, u64::from(rows)))
    }

    /// What must be equal for requests to share a call: parameters, and every extent that is free
    /// and not padded.
    fn key(&self, ask: &Ask) -> Key {
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
