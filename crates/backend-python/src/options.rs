//! How a Python model is run.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// How a Python model is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonOptions {
    /// The model's name, for log lines.
    pub name: String,
    /// Where its class is, as `module:Class`.
    pub class: String,
    /// The folder in which the module is looked for first, and in which the worker runs.
    pub folder: PathBuf,
    /// The interpreter.
    pub python: PathBuf,
    /// Variables that are set in addition to the server's own environment.
    pub env: BTreeMap<String, String>,
    /// What `CUDA_VISIBLE_DEVICES` is set to, instance by instance, over and over; untouched where
    /// there are none.
    pub devices: Vec<String>,
    /// Longest that loading may take.
    pub load_timeout: Duration,
    /// Longest that the worker may take to answer a call, or to give the next result of a stream.
    pub call_timeout: Duration,
    /// Whether calls take well under a millisecond, so that the threads which serve clients make
    /// them: to wake another thread would take longer.
    pub instant: bool,
    /// Whether a call that a crash cut short may be run once more.
    pub retry_safe: bool,
    /// Most private memory of the worker in bytes.
    pub memory_limit: Option<u64>,
    /// Whether the worker is kept from files, other processes and TCP.
    pub sandbox: bool,
    /// How often a worker that has nothing to do is asked whether it lives.
    pub heartbeat: Duration,
}

impl PythonOptions {
    /// A model with the usual settings.
    #[must_use]
    pub fn new(name: &str, class: &str, folder: PathBuf) -> Self {
        Self {
            name: name.to_owned(),
            class: class.to_owned(),
            folder,
            python: PathBuf::from("python3"),
            env: BTreeMap::new(),
            devices: Vec::new(),
            load_timeout: Duration::from_mins(5),
            call_timeout: Duration::from_mins(1),
            instant: false,
            retry_safe: false,
            memory_limit: None,
            sandbox: false,
            heartbeat: Duration::from_secs(10),
        }
    }
}
