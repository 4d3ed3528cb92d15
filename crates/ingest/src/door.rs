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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ending;

    #[test]
    fn everything_that_is_counted_and_known_is_shown() {
        let (cameras, _) = Cameras::pair(Config::default(), Arc::default()).unwrap();
        let common = &cameras.common;
        common.ledger.take(40);
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            common.ledger.end(Ending::Dropped(reason), at as u64);
        }
        for (ending, n) in [
            (Ending::Committed, 7),
            (Ending::Dead, 6),
            (Ending::Lost, 5),
            (Ending::Duplicate, 4),
            (Ending::Returned, 3),
        ] {
            common.ledger.end(ending, n);
        }
        let held = common.credit.charge(500);
        common.flow.unread.store(8, Ordering::Relaxed);
        common.flow.lag_ms.store(9, Ordering::Relaxed);
        common.flow.commit_time.took(Duration::from_millis(1), 2);
        common.flow.latency.took(Duration::from_millis(1), 3);
        let health = Health {
            is_up: true,
            has_model: false,
            n_shards: 11,
            nodes: vec!["a".to_owned()],
            problem: Some("p".to_owned()),
            warnings: vec!["w".to_owned()],
            n_resets: 12,
            n_faults: 13,
            is_circuit_open: true,
        };
        common.health.update(|shown| shown.clone_from(&health));

        let dropped = ["stale", "superseded", "paused", "unlisted", "overwritten"];
        let expected = CameraSnapshot {
            frames_in: 40,
            committed: 7,
            dropped: dropped.into_iter().zip(0..).collect(),
            dead_lettered: 6,
            lost: 5,
            duplicated: 4,
            returned: 3,
            in_flight: 5,
            held_bytes: 500,
            unread: 8,
            lag: Duration::from_millis(9),
            commit_time: common.flow.commit_time.now(),
            latency: common.flow.latency.now(),
            is_up: true,
            is_circuit_open: true,
            has_model: false,
            faults: 13,
            resets: 12,
            problem: Some("p".to_owned()),
            warnings: vec!["w".to_owned()],
            shards: 11,
            nodes: vec!["a".to_owned()],
        };
        assert_eq!(cameras.snapshot(), expected);
        assert_eq!((expected.commit_time.n(), expected.latency.n()), (2, 3));
        assert_eq!((cameras.health(), cameras.held()), (health, (500, 1)));
        assert_eq!(cameras.counts().taken, 40);
        drop(held);
    }

    #[test]
    fn settings_that_make_no_sense_make_no_door() {
        let config = Config { readers: 0, ..Config::default() };
        assert!(Cameras::pair(config, Arc::default()).is_err());
        let config = Config { url: "http://here".to_owned(), ..Config::default() };
        assert!(Cameras::pair(config, Arc::default()).is_err());
    }
}
