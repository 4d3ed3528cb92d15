//! The one ONNX Runtime of this process.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use ort::{environment::Environment, logging::LogLevel};

use super::guarded;
use crate::error::LoadError;

/// INVARIANT: set once and never dropped. The library allows one environment per process and
/// cannot be unloaded, so this cannot belong to a model.
static LOADED: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

/// The environment, from `library` when this is the first call.
pub(super) fn environment(library: &Path) -> Result<Environment, LoadError> {
    let wanted = library.canonicalize().unwrap_or_else(|_| library.to_owned());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((path, environment)) = &*loaded {
        return if *path == wanted {
            Ok(environment.clone())
        } else {
            Err(LoadError::OtherLibrary { loaded: path.clone(), wanted })
        };
    }
    let environment = guarded(|| {
        ort::init_from(&wanted)
            .map_err(|cause| cause.to_string())?
            .with_name("paceline")
            // Microsoft's builds report usage unless told not to.
            .with_telemetry(false)
            .build()
            .map_err(|cause| cause.to_string())
    })
    .map_err(|cause| LoadError::BadLibrary { cause })?;
    // Else every call formats messages that nobody reads.
    environment.set_log_level(LogLevel::Warning);
    *loaded = Some((wanted, environment.clone()));
    Ok(environment)
}
