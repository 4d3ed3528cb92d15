//! Loading and unloading models while the server runs, as doors ask for it.

use std::{future::Future, pin::Pin};

use paceline_types::ErrorCode;

/// Why a model could not be loaded or unloaded, as the asker is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// What was wrong and what to do.
    pub message: String,
}

/// One model that the repository knows, served or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// The version that is served, or was last.
    pub version: Option<u64>,
    /// Why it is not served; `None` while it is.
    pub reason: Option<String>,
}

/// An answer to come.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), ControlError>> + Send + 'a>>;

/// Who loads and unloads models.
pub trait Control: Send + Sync {
    /// Loads a model, or loads it again. The new one is warm before the old one stops, and if it
    /// cannot be had, the old one goes on.
    fn load<'a>(&'a self, name: &'a str) -> Answer<'a>;

    /// Stops serving a model; what it accepted is answered.
    fn unload<'a>(&'a self, name: &'a str) -> Answer<'a>;

    /// Every model that is known.
    fn known(&self) -> Vec<Known>;
}
