//! What is needed to serve a model, and why one cannot be.

use std::{io, sync::Arc};

use paceline_backend::{Backend, BackendError, Instance, Item, Output, Ragged};
use paceline_batch::{Cause, Puller, Settings, SettingsError, Timekeeper};
use paceline_types::{Signature, Tensor};

use crate::{SequenceLimits, VersionPolicy, adapt::Adapter};

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

/// Runs one instance, by this name, until its batcher is closed and empty, and then says how it
/// ended.
pub type Host<'a> =
    dyn FnMut(String, Puller<Item, Output, Vec<Tensor>>, Instance, Ended) -> io::Result<()> + 'a;

/// Who is told how an instance ended.
pub type Ended = Box<dyn FnOnce(Result<(), Cause>) + Send>;

/// What is needed to serve a model.
pub struct Blueprint {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// Which of its versions are served, for those who ask.
    pub version_policy: VersionPolicy,
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
    /// Bounds on its sequences, where it is stateful.
    pub sequences: SequenceLimits,
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
