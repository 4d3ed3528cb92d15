//! One version of a model as it is served: its batcher, its executors, what it did so far.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use paceline_backend::{
    Backend, BackendError, Instance, Item, Output, Ragged, WarmUp, run_on_thread,
};
use paceline_batch::{
    Batcher, Key, Limits, Priority, Ride, Runner, Settings, SettingsError, Stats, Tag, Timekeeper,
};
use paceline_types::{Dim, Signature, Tensor, TensorSpec};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::{InferError, adapt::Adapter};

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
    /// Whether it waits while the queue is full, so that pressure reaches whoever sends, instead of
    /// being refused.
    pub waits_for_room: bool,
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
            facts: ModelFacts { name, version, platform, mode, instances, limits, warm_up },
            length_of: padded.first().copied(),
            padded,
            has_free_shape: signature.inputs.iter().any(is_free),
            signature,
            batcher,
            adapter: blueprint.adapter,
            n_alive,
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
        let began = Instant::now();
        let result = self.submit_and_wait(ask).await;
        let took = nanos(began.elapsed());
        let count = |count: &AtomicU64, more: u64| {
            count.fetch_add(more, Ordering::Relaxed);
        };
        if let Ok((_, ride, rows)) = &result {
            count(&self.counts.n_good, 1);
            count(&self.counts.n_rows, *rows);
            count(&self.counts.total_ns, took);
            count(&self.counts.wait_ns, nanos(ride.waited));
            count(&self.counts.compute_ns, nanos(ride.took));
        } else {
            count(&self.counts.n_failed, 1);
            count(&self.counts.failed_ns, took);
        }
        result.map(|(output, ride, _)| (output, ride))
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

    async fn submit_and_wait(&self, ask: Ask) -> Result<(Output, Ride, u64), InferError> {
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
        let item = Item { inputs: ask.inputs };
        let ticket = if ask.waits_for_room {
            self.batcher.submit(item, &tag).await?
        } else {
            self.batcher.try_submit(item, &tag)?
        };
        let (output, ride) = ticket.with_ride().await?;
        Ok((output, ride, u64::from(rows)))
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
