//! Those who did nothing wrong: clients of every door, each of which knows the right answer.

pub(crate) mod cameras;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod pipelined;
pub(crate) mod speech;
pub(crate) mod synthesis;
pub(crate) mod transcription;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    ledger::{Ledger, Outcome},
    parts::{Part, Parts},
    server::Server,
};

/// Nothing here takes so long, however much harm is done.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a client works with.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) server: Arc<Server>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) stop: Arc<AtomicBool>,
    /// How long a client rests after each operation.
    pub(crate) rest: Duration,
}

impl Stage {
    /// Runs an operation and writes down how it ended.
    pub(crate) async fn settle(&self, door: &'static str, work: impl Future<Output = Outcome>) {
        let began = Instant::now();
        let outcome = timeout(PATIENCE, work).await.unwrap_or(Outcome::Silent);
        self.ledger.settle(door, began, Instant::now(), &outcome);
        if matches!(outcome, Outcome::Right | Outcome::Failed(_)) {
            self.rest().await;
        } else {
            self.back_off().await;
        }
    }

    async fn rest(&self) {
        if !self.rest.is_zero() {
            sleep(self.rest).await;
        }
    }

    /// Whoever is refused does not ask again at once.
    async fn back_off(&self) {
        sleep(Duration::from_millis(20)).await;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Starts all clients. They end soon after they are told to.
pub(crate) fn start(stage: &Stage, parts: &Parts, n_pipelined: usize, seed: u64) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let mut seed = seed;
    let mut next = || {
        seed = seed.wrapping_add(1);
        seed
    };
    let mut doors = vec![http::Door::Plain, http::Door::Tensors, http::Door::Binary];
    if parts.has(Part::Python) {
        doors.push(http::Door::Worker);
    }
    for door in doors {
        for _ in 0..4 {
            clients.spawn(http::ask_on_and_on(stage.clone(), door, next()));
        }
    }
    for _ in 0..4 {
        clients.spawn(grpc::ask_on_and_on(stage.clone(), next()));
        clients.spawn(speech::simple_on_and_on(stage.clone(), next()));
    }
    let texts = transcription::Texts::default();
    for _ in 0..2 {
        clients.spawn(synthesis::ask_on_and_on(stage.clone(), next()));
        clients.spawn(transcription::ask_on_and_on(stage.clone(), Arc::clone(&texts), next()));
    }
    for _ in 0..n_pipelined {
        clients.spawn(pipelined::ask_on_and_on(stage.clone(), next()));
    }
    for _ in 0..2 {
        clients.spawn(speech::segmented_on_and_on(stage.clone(), next()));
    }
    clients
}
