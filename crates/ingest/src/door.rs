//! The door as others see it: a handle to look at and to steer, and what has to be run.

use std::sync::Arc;

use paceline_pipeline::Models;
use tokio_util::sync::CancellationToken;

use crate::{
    Config, ConfigError, Prepare,
    common::{Common, Health},
    coordinator::Coordinator,
    dead::{self, DeadLetter},
    ledger::Counts,
    link::Fault,
    roster::Roster,
    totals::{self, Totals},
};

/// A handle on the cameras; cheap to clone.
#[derive(Debug, Clone)]
pub struct Cameras {
    common: Arc<Common>,
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
    pub fn pair(
        config: Config,
        models: Arc<Models>,
        prepare: Arc<dyn Prepare>,
    ) -> Result<(Self, Door), ConfigError> {
        config.validate()?;
        let common = Arc::new(Common::new(config, models, prepare));
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
        Coordinator::new(self.common).run(stop).await;
    }
}
