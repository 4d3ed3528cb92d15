//! The door as others see it: a handle to look at and to steer, and what has to be run.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use paceline_pipeline::{CameraSnapshot, Models};
use tokio_util::sync::CancellationToken;

use crate::{
    Answer, Config, ConfigError, Frame, PushError, Source,
    common::{Common, Health},
    coordinator::Coordinator,
    dead::{self, DeadLetter},
    entry::EntryId,
    ledger::{Counts, Reason},
    link::Fault,
    push::{self, Desk},
    roster::Roster,
    shard::ShardId,
    totals::{self, Totals},
};

/// A handle on the cameras; cheap to clone.
#[derive(Debug, Clone)]
pub struct Cameras {
    pub(crate) common: Arc<Common>,
}

/// What reads, asks and commits; it must be run.
#[derive(Debug)]
pub struct Door {
    common: Arc<Common>,
}

impl Cameras {
    /// A handle and what has to be run.
    ///
    /// # Errors
    ///
    /// When a setting makes no sense.
    pub fn pair(config: Config, models: Arc<Models>) -> Result<(Self, Door), ConfigError> {
        config.validate()?;
        let address = config.address()?;
        let common = Arc::new(Common::new(config, address, models));
        Ok((Self { common: Arc::clone(&common) }, Door { common }))
    }

    /// Which cameras are taken; add, remove, pause and reconcile here.
    #[must_use]
    pub fn roster(&self) -> &Roster {
        &self.common.roster
    }

    /// What this process did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.common.ledger.counts()
    }

    /// Bytes and frames that are held now.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        self.common.credit.used()
    }

    /// How the door is.
    #[must_use]
    pub fn health(&self) -> Health {
        self.common.health.now()
    }

    /// Everything that metrics and people are shown, without asking Redis.
    #[must_use]
    pub fn snapshot(&self) -> CameraSnapshot {
        let (counts, health, flow) = (self.counts(), self.health(), &self.common.flow);
        let dropped = Reason::ALL.iter().zip(counts.dropped);
        CameraSnapshot {
            frames_in: counts.taken,
            committed: counts.committed,
            dropped: dropped.map(|(reason, n)| (reason.as_str(), n)).collect(),
            dead_lettered: counts.dead,
            lost: counts.lost,
            duplicated: counts.duplicate,
            returned: counts.returned,
            in_flight: counts.in_flight,
            held_bytes: self.held().0 as u64,
            unread: flow.unread.load(Ordering::Relaxed),
            lag: Duration::from_millis(flow.lag_ms.load(Ordering::Relaxed)),
            commit_time: flow.commit_time.now(),
            latency: flow.latency.now(),
            is_up: health.is_up,
            is_circuit_open: health.is_circuit_open,
            has_model: health.has_model,
            faults: health.n_faults,
            resets: health.n_resets,
            problem: health.problem,
            warnings: health.warnings,
            shards: health.n_shards,
            nodes: health.nodes,
        }
    }

    /// Takes a frame without Redis and waits for its result.
    ///
    /// # Errors
    ///
    /// When it was dropped, refused, or the model failed on it.
    pub async fn push(&self, frame: Frame) -> Result<Answer, PushError> {
        push::push(&self.common, frame).await
    }

    /// What became of every frame, over all nodes.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn totals(&self) -> Result<Totals, Fault> {
        totals::totals(&self.common).await
    }

    /// The oldest dead letters, at most `most` of each shard.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, Fault> {
        dead::dead_letters(&self.common, most).await
    }

    /// One dead letter, where it is still there.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn dead_letter(
        &self,
        shard: ShardId,
        id: EntryId,
    ) -> Result<Option<DeadLetter>, Fault> {
        dead::dead_letter(&self.common, shard, id).await
    }

    /// Puts a dead letter back at the end of its stream and says its new id; `None` where there is
    /// no such letter any more, or nothing is left of its frame.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn replay(&self, letter: &DeadLetter) -> Result<Option<String>, Fault> {
        dead::replay(&self.common, letter).await
    }

    /// Removes dead letters for good; says how many there were.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn purge(&self, letters: &[DeadLetter]) -> Result<u64, Fault> {
        dead::purge(&self.common, letters).await
    }
}

impl Door {
    /// Runs until told to stop. Then nothing more is read, what was read is finished and committed,
    /// and the shards are given back. Redis may be away at the start and at any time after.
    pub async fn run(self, stop: CancellationToken) {
        let desk = Desk::new(Arc::clone(&self.common)).run(stop.clone());
        match self.common.config.source {
            Source::Redis => {
                tokio::join!(desk, Coordinator::new(self.common).run(stop));
            }
            Source::Push => {
                self.common.health.update(|health| health.is_up = true);
                desk.await;
            }
        }
    }
}
