//! How a Python class is run: the section of a `model.toml`, and what the backend is told.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf, absolute},
    time::Duration,
};

use paceline_backend_python::PythonOptions;
use serde::{Deserialize, Serialize};

/// How a Python class is run.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PythonSection {
    /// Where the class is, as `module:Class`; the module is a file or a package beside others in
    /// the version's folder.
    pub class: String,
    /// The interpreter: a name that is looked for in `PATH`, or a path from the model's folder.
    pub interpreter: PathBuf,
    /// Variables that are set in addition to the server's own environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What `CUDA_VISIBLE_DEVICES` is set to, instance by instance, over and over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Longest that loading may take.
    #[serde(with = "crate::config::duration")]
    pub load_timeout: Duration,
    /// Longest that the worker may take to answer a call, or to give the next result of a stream.
    #[serde(with = "crate::config::duration")]
    pub call_timeout: Duration,
    /// Whether calls take well under a millisecond.
    pub instant: bool,
    /// Whether a call that a crash cut short may be run once more.
    pub retry_safe: bool,
    /// Most private memory of a worker in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<u64>,
    /// Whether workers are kept from files, other processes and TCP.
    pub sandbox: bool,
}

impl Default for PythonSection {
    fn default() -> Self {
        let PythonOptions { python: interpreter, load_timeout, call_timeout, .. } =
            PythonOptions::new("", "", PathBuf::new());
        Self {
            class: "model:Model".to_owned(),
            interpreter,
            env: BTreeMap::new(),
            devices: Vec::new(),
            load_timeout,
            call_timeout,
            instant: false,
            retry_safe: false,
            memory_limit: None,
            sandbox: false,
        }
    }
}

impl PythonSection {
    /// The files of which a version must have one.
    pub(crate) fn files(&self) -> Vec<String> {
        let module = self.class.split([':', '.']).next().unwrap_or_default();
        vec![format!("{module}.py"), format!("{module}/__init__.py")]
    }

    /// What the backend is told of a model in `folder` whose version is in `own`.
    ///
    /// # Errors
    ///
    /// When the system does not know where it is.
    pub(crate) fn options(
        self,
        name: &str,
        folder: &Path,
        own: &Path,
    ) -> io::Result<PythonOptions> {
        let is_path = 1 < self.interpreter.components().count();
        Ok(PythonOptions {
            python: if is_path {
                absolute(folder.join(&self.interpreter))?
            } else {
                self.interpreter
            },
            env: self.env,
            devices: self.devices,
            load_timeout: self.load_timeout,
            call_timeout: self.call_timeout,
            instant: self.instant,
            retry_safe: self.retry_safe,
            memory_limit: self.memory_limit,
            sandbox: self.sandbox,
            ..PythonOptions::new(name, &self.class, absolute(own)?)
        })
    }
}
