//! How a remote model is asked.

use std::time::Duration;

use crate::Endpoint;

/// How a remote model is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteOptions {
    /// The model's name here, for log lines.
    pub name: String,
    /// Its name there.
    pub model: String,
    /// Its version there; the remote chooses where there is none.
    pub version: Option<u64>,
    /// The servers that have it. All must declare the same.
    pub endpoints: Vec<Endpoint>,
    /// Whether the first extent of every tensor is the batch; asked of the remote's configuration
    /// where it is not said.
    pub batched: Option<bool>,
    /// What is shown to servers that want one.
    pub token: Option<String>,
    /// Longest to wait for a first endpoint when the model is loaded.
    pub load_timeout: Duration,
    /// Longest for one connection to be made, and for one probe.
    pub connect_timeout: Duration,
    /// Longest for one call, further attempts included.
    pub call_timeout: Duration,
    /// How often endpoints that are well are asked whether they still are.
    pub health_interval: Duration,
    /// Failures in a row after which an endpoint is left alone for a while.
    pub max_failures: u32,
    /// For how long at first; twice as long each time that it fails again.
    pub first_pause: Duration,
    /// Whether a call may be sent again where it may have been run already.
    pub retry_safe: bool,
    /// Largest answer in bytes.
    pub max_response: usize,
}

impl RemoteOptions {
    /// A model with the usual settings.
    #[must_use]
    pub fn new(name: &str, endpoints: Vec<Endpoint>) -> Self {
        Self {
            name: name.to_owned(),
            model: name.to_owned(),
            version: None,
            endpoints,
            batched: None,
            token: None,
            load_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(2),
            call_timeout: Duration::from_mins(1),
            health_interval: Duration::from_secs(5),
            max_failures: 3,
            first_pause: Duration::from_millis(500),
            retry_safe: false,
            max_response: 1 << 28,
        }
    }
}
