//! Models on the simulation's clock that take their time, fail and panic as the seed says.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use paceline_backend::{
    Backend, BackendError, Call, Instance, Item, Output, Outputs, Ragged, Simulated, simulated,
};
use paceline_batch::{Cause, Executor, Reply, Runner, Settings};
use paceline_pipeline::{Blueprint, Mode, Model, Models, SequenceLimits, VersionPolicy};
use paceline_types::{Signature, Tensor};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

/// How a panic on purpose begins.
pub(crate) const PANIC: &str = "on purpose";

/// How a model behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mood {
    pub(crate) seed: u64,
    /// Longest that a call takes, in milliseconds.
    pub(crate) slowest_ms: u64,
    /// The share of rows that fail alone, of calls that fail, and of calls that panic.
    pub(crate) row_fails: f64,
    pub(crate) call_fails: f64,
    pub(crate) panics: f64,
}

/// A simulated model with moods.
struct Moody {
    model: Simulated,
    mood: Mood,
    random: ChaCha8Rng,
    /// Not while it is being tried.
    is_served: Arc<AtomicBool>,
}

impl Backend for Moody {
    fn signature(&self) -> &Signature {
        self.model.signature()
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        let mut outputs = self.model.run(call)?;
        if !self.is_served.load(Ordering::Relaxed) {
            return Ok(outputs);
        }
        assert!(!self.random.random_bool(self.mood.panics), "{PANIC}");
        if self.random.random_bool(self.mood.call_fails) {
            return Err(BackendError::Failed("this call fails".to_owned()));
        }
        for row in 0..call.rows {
            if self.random.random_bool(self.mood.row_fails) {
                outputs.failed.push((row, "this row fails".to_owned()));
            }
        }
        Ok(outputs)
    }
}

/// An instance that takes its time on the simulation's clock.
struct Paced {
    instance: Instance,
    slowest_ms: u64,
    random: ChaCha8Rng,
}

impl Executor<Item, Output, Vec<Tensor>> for Paced {
    async fn execute(
        &mut self,
        call: &paceline_batch::Call<'_, Item, Output, Vec<Tensor>>,
        replies: &mut Vec<Reply<Output, Vec<Tensor>>>,
    ) -> Result<(), Cause> {
        sleep(Duration::from_millis(self.random.random_range(0..=self.slowest_ms))).await;
        self.instance.execute(call, replies).await
    }

    async fn recover(&mut self) -> Result<(), Cause> {
        self.instance.recover().await
    }
}

/// Serves a model under a name; what it is, how it is batched, and how it behaves.
pub(crate) fn open(
    models: &Models,
    tasks: &TaskTracker,
    name: &str,
    (settings, batch, mood): (simulated::Settings, Settings, Mood),
) -> Arc<Model> {
    let is_served = Arc::new(AtomicBool::new(false));
    let of_model = Arc::clone(&is_served);
    let blueprint = Blueprint {
        name: name.to_owned(),
        version: 1,
        version_policy: VersionPolicy::default(),
        platform: "paceline_simulated".to_owned(),
        mode: Mode::Batch,
        batch,
        instances: 1,
        build: Arc::new(move |instance| {
            Ok(Box::new(Moody {
                model: Simulated::build(settings.clone(), instance as u64).unwrap(),
                mood,
                random: ChaCha8Rng::seed_from_u64(mood.seed),
                is_served: Arc::clone(&of_model),
            }))
        }),
        ragged: Box::new(|_| Ok(Ragged::default())),
        sequences: SequenceLimits::default(),
        warm_up_length: 1,
        adapter: None,
    };
    let (model, clock) = Model::open_on(blueprint, &mut |_, puller, instance, ended| {
        let random = ChaCha8Rng::seed_from_u64(mood.seed ^ 1);
        let paced = Paced { instance, slowest_ms: mood.slowest_ms, random };
        tasks.spawn(async move { ended(Runner::new(puller, paced).run().await) });
        Ok(())
    })
    .unwrap();
    tasks.spawn(clock.run());
    is_served.store(true, Ordering::Relaxed);
    models.replace(name, vec![Arc::clone(&model)]);
    model
}
