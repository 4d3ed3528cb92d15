//! One run: threads, their connections, and what came of it.

use std::{
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime,
    sync::{Barrier, Mutex as FairMutex, oneshot},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::{
    Arrivals, Failure, GrpcTarget, HttpTarget, Record,
    alarm::Alarm,
    batches::Batches,
    pace::Pacer,
    record::{Fault, Sample, Window},
    worker::{Caller, Shared, Stop, Worker},
};

/// How often progress is told.
const TICK: Duration = Duration::from_millis(200);

/// What is loaded.
#[derive(Debug, Clone)]
pub enum Target {
    /// Over HTTP/1.1.
    Http(HttpTarget),
    /// Over gRPC.
    Grpc(Box<GrpcTarget>),
}

/// How requests come.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// So many clients, each of whom sends again when it is answered.
    Closed {
        /// How many.
        concurrency: usize,
    },
    /// When they are due, whether or not the server keeps up.
    Open {
        /// When.
        arrivals: Arrivals,
        /// Most requests under way at once; more that are due wait, and are late.
        in_flight: usize,
    },
}

/// One run.
#[derive(Debug, Clone)]
pub struct Step {
    /// How requests come.
    pub load: Load,
    /// What happens in the first so much time does not count.
    pub warm_up: Duration,
    /// How long requests count after that.
    pub lasts: Duration,
    /// Most requests, warm-up included.
    pub max_requests: Option<u64>,
    /// Longest that an answer is waited for.
    pub timeout: Duration,
    /// Threads that send.
    pub threads: usize,
    /// The objective.
    pub slo: Option<Duration>,
    /// Of random due times.
    pub seed: u64,
}

/// Rows and model calls of a server so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Rows that were run.
    pub rows: u64,
    /// Calls that ran them.
    pub calls: u64,
}

/// Asks a server what it counted; `None` where it does not say.
pub type ReadCounts = Box<dyn FnMut() -> Pin<Box<dyn Future<Output = Option<Counts>> + Send>>>;

/// How far a run is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Since the start, warm-up included.
    pub elapsed: Duration,
    /// Good answers so far.
    pub n_answered: u64,
    /// Requests without one.
    pub n_failed: u64,
}

/// Who looks on.
pub struct Watch<'a> {
    /// Told now and then.
    pub on_progress: &'a mut dyn FnMut(Progress),
    /// Asked now and then.
    pub counts: Option<&'a mut ReadCounts>,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// What a run found.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What became of the requests.
    pub record: Record,
    /// How the server batched them, where it says.
    pub batches: Batches,
    /// The share of its threads' time that the generator itself used; near 1, it and not the
    /// server is what was measured.
    pub generator_busy: Option<f64>,
}

/// Why a run did not happen.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A connection.
    #[error("{}{}{}", .0.fault, if .0.said.is_empty() { "" } else { ": " }, .0.said)]
    Unconnected(Failure),
    /// The system.
    #[error("no thread or runtime to send from")]
    System(#[from] std::io::Error),
    /// This program.
    #[error("a sending thread ended without a result")]
    Thread,
}

/// Loads a server as `plan` says.
///
/// # Errors
///
/// When a connection cannot be made. What goes wrong later is part of what was measured.
pub async fn run(
    target: &Target,
    plan: &Step,
    stop: &Stop,
    watch: Watch<'_>,
) -> Result<Measured, RunError> {
    let n_callers = match plan.load {
        Load::Closed { concurrency } => concurrency,
        Load::Open { in_flight, .. } => in_flight,
    }
    .max(1);
    let threads = plan.threads.clamp(1, n_callers);
    let shared = Arc::new(Shared {
        ready: Barrier::new(n_callers + 1),
        start: OnceLock::new(),
        unconnected: Mutex::new(None),
        stop: stop.clone(),
        allowance: plan.max_requests.map(AtomicU64::new),
        end: plan.warm_up + plan.lasts,
        timeout: plan.timeout,
        n_answered: AtomicU64::new(0),
        n_failed: AtomicU64::new(0),
    });
    let window = Window { from: plan.warm_up, to: shared.end };
    let mut sending = Vec::with_capacity(threads);
    for thread in 0..threads {
        // Callers are dealt out like cards.
        let n_callers = n_callers / threads + usize::from(thread < n_callers % threads);
        let part = Part {
            target: target.clone(),
            arrivals: match &plan.load {
                Load::Closed { .. } => None,
                Load::Open { arrivals, .. } => Some(arrivals.clone()),
            },
            seed: plan.seed,
            thread,
            threads,
            n_callers,
            shared: Arc::clone(&shared),
            record: Record::new(window, plan.slo),
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (done, result) = oneshot::channel();
        thread::Builder::new().name(format!("load-{thread}")).spawn(move || {
            let record = runtime.block_on(part.run());
            // Nobody waits where another thread's failure ended the run.
            drop(done.send((record, cpu_time())));
        })?;
        sending.push(result);
    }
    let batches = Batches::new(plan.warm_up);
    let all = async {
        let mut parts = Vec::with_capacity(threads);
        for part in sending {
            parts.push(part.await.map_err(|_| RunError::Thread)?);
        }
        Ok::<_, RunError>(parts)
    };
    let (parts, batches) = look_on(&shared, watch, batches, all).await;
    let parts = parts?;
    if let Some(failure) = shared.unconnected.lock().take() {
        return Err(RunError::Unconnected(failure));
    }
    let mut record = Record::new(window, plan.slo);
    let mut busy = Some(Duration::ZERO);
    for (part, cpu) in &parts {
        record.merge(part);
        busy = busy.zip(*cpu).map(|(sum, cpu)| sum + cpu);
    }
    let spent = shared.allowance.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) == 0);
    if spent || stop.is_stopped() {
        record.end_early();
    }
    let took = record.last_done().max(shared.end.min(plan.warm_up + record.lasted()));
    #[expect(clippy::cast_precision_loss, reason = "threads are few")]
    let share = |busy: Duration| busy.as_secs_f64() / took.as_secs_f64() / threads as f64;
    let generator_busy = busy.filter(|_| !took.is_zero()).map(share);
    Ok(Measured { record, batches, generator_busy })
}

/// Starts the clock, then tells progress and asks for counts until `all` is done.
async fn look_on<T>(
    shared: &Shared,
    mut watch: Watch<'_>,
    mut batches: Batches,
    all: impl Future<Output = T>,
) -> (T, Batches) {
    tokio::pin!(all);
    if let Some(read) = &mut watch.counts {
        batches.learn(Duration::ZERO, read().await);
    }
    shared.ready.wait().await;
    let start = *shared.start.get_or_init(Instant::now);
    let mut ticks = interval_at(start + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let done = loop {
        // CANCEL SAFETY: a tick that is not taken comes again; `all` is kept.
        tokio::select! {
            done = &mut all => break done,
            _ = ticks.tick() => {
                (watch.on_progress)(Progress {
                    elapsed: start.elapsed(),
                    n_answered: shared.n_answered.load(Ordering::Relaxed),
                    n_failed: shared.n_failed.load(Ordering::Relaxed),
                });
                if let Some(read) = &mut watch.counts {
                    let counts = read().await;
                    batches.learn(start.elapsed(), counts);
                }
            }
        }
    };
    if let Some(read) = &mut watch.counts {
        let counts = read().await;
        batches.learn(start.elapsed(), counts);
    }
    (done, batches)
}

/// What one thread does.
struct Part {
    target: Target,
    arrivals: Option<Arrivals>,
    seed: u64,
    thread: usize,
    threads: usize,
    n_callers: usize,
    shared: Arc<Shared>,
    record: Record,
}

impl Part {
    async fn run(self) -> Record {
        match &self.target {
            Target::Http(target) => {
                let callers = (0..self.n_callers).map(|_| target.connection()).collect();
                self.drive(callers).await
            }
            Target::Grpc(target) => {
                let callers = target.callers(self.n_callers, self.threads);
                self.drive(callers).await
            }
        }
    }

    async fn drive<C: Caller>(self, callers: Vec<C>) -> Record {
        let Self { arrivals, seed, thread, threads, shared, record, .. } = self;
        let recorder = Arc::new(Mutex::new(record));
        let pacer = arrivals.map(|arrivals| {
            let due = arrivals.due(seed);
            let pacer = Pacer::new(due, thread, threads, shared.end, Alarm::new());
            Arc::new(FairMutex::new(pacer))
        });
        let mut workers = JoinSet::new();
        for caller in callers {
            let (shared, recorder) = (Arc::clone(&shared), Arc::clone(&recorder));
            workers.spawn(Worker { caller, shared, recorder, pacer: pacer.clone() }.run());
        }
        workers.join_all().await;
        let mut record = recorder.lock().clone();
        if let (Some(pacer), false) = (pacer, shared.stop.is_stopped()) {
            for due in pacer.lock().await.unsent() {
                let sample = Sample { due, sent: shared.end, done: shared.end };
                record.failed(sample, Fault::NotSent.into());
            }
        }
        record
    }
}

/// The CPU time that this thread used so far, where the system says.
fn cpu_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
