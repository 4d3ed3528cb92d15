//! How a model on another server is asked: the section of a `model.toml`, and what the backend is
//! told.

use std::time::Duration;

use paceline_backend_remote::{Endpoint, RemoteOptions};
use serde::{Deserialize, Serialize};

/// How a model on another server is asked.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RemoteSection {
    /// The servers that have it: `grpc://host:port` or `http://host:port`.
    pub endpoints: Vec<String>,
    /// Its name there; the name it has here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its version there; the server chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Whether the first extent of every tensor is the batch; asked of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batched: Option<bool>,
    /// The variable that holds the token which is shown to the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// Longest to wait for a first server when the model is loaded.
    #[serde(with = "crate::config::duration")]
    pub load_timeout: Duration,
    /// Longest for one connection to be made, and for one probe.
    #[serde(with = "crate::config::duration")]
    pub connect_timeout: Duration,
    /// Longest for one call, further attempts included.
    #[serde(with = "crate::config::duration")]
    pub call_timeout: Duration,
    /// How often servers that are well are asked whether they still are.
    #[serde(with = "crate::config::duration")]
    pub health_interval: Duration,
    /// Failures in a row after which a server is left alone for a while.
    pub max_failures: u32,
    /// For how long at first; twice as long each time that it fails again.
    #[serde(with = "crate::config::duration")]
    pub first_pause: Duration,
    /// Whether a call may be sent again where it may have been run already.
    pub retry_safe: bool,
    /// Largest answer in bytes.
    pub max_response: usize,
}

impl Default for RemoteSection {
    fn default() -> Self {
        let usual = RemoteOptions::new("", Vec::new());
        Self {
            endpoints: Vec::new(),
            model: None,
            version: None,
            batched: None,
            token_env: None,
            load_timeout: usual.load_timeout,
            connect_timeout: usual.connect_timeout,
            call_timeout: usual.call_timeout,
            health_interval: usual.health_interval,
            max_failures: usual.max_failures,
            first_pause: usual.first_pause,
            retry_safe: usual.retry_safe,
            max_response: usual.max_response,
        }
    }
}

impl RemoteSection {
    /// What the backend is told of a model that is called `name` here.
    ///
    /// # Errors
    ///
    /// Says which setting is wrong and what would be right.
    pub(crate) fn options(self, name: &str) -> Result<RemoteOptions, String> {
        let model = self.model.unwrap_or_else(|| name.to_owned());
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if model.is_empty() || !model.chars().all(is_plain) {
            return Err(format!(
                "remote.model is `{}`; letters, digits, `-`, `_` and `.` are expected",
                model.escape_debug()
            ));
        }
        if self.endpoints.is_empty() {
            return Err("remote.endpoints is empty; write [\"grpc://host:8001\"]".to_owned());
        }
        let endpoints = self.endpoints.iter().map(|text| text.parse::<Endpoint>());
        let endpoints = endpoints.collect::<Result<_, _>>();
        let endpoints = endpoints.map_err(|error| format!("remote.endpoints: {error}"))?;
        if self.health_interval.is_zero() || self.max_failures == 0 {
            let message = "remote.health_interval and remote.max_failures must be above zero";
            return Err(message.to_owned());
        }
        Ok(RemoteOptions {
            model,
            version: self.version,
            batched: self.batched,
            token: self.token_env.as_deref().map(token).transpose()?,
            load_timeout: self.load_timeout,
            connect_timeout: self.connect_timeout,
            call_timeout: self.call_timeout,
            health_interval: self.health_interval,
            max_failures: self.max_failures,
            first_pause: self.first_pause,
            retry_safe: self.retry_safe,
            max_response: self.max_response,
            ..RemoteOptions::new(name, endpoints)
        })
    }
}

fn token(variable: &str) -> Result<String, String> {
    #[expect(clippy::disallowed_methods, reason = "this is the configuration")]
    let token = std::env::var(variable);
    token.map_err(|_| format!("remote.token_env: there is no variable {variable}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<RemoteOptions, String> {
        toml::from_str::<RemoteSection>(text).unwrap().options("here")
    }

    #[test]
    fn a_section_with_endpoints_is_enough() {
        let options = options("endpoints = ['grpc://a:8001', 'http://b:8000']").unwrap();

        assert_eq!((&*options.name, &*options.model), ("here", "here"));
        assert_eq!(options.endpoints.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("", "remote.endpoints is empty"),
            ("endpoints = ['a:8001']", "remote.endpoints: `a:8001` is no endpoint"),
            ("endpoints = ['http://a:1']\nmodel = 'a/b'", "remote.model is `a/b`"),
            ("endpoints = ['http://a:1']\nhealth_interval = '0s'", "must be above zero"),
            ("endpoints = ['http://a:1']\ntoken_env = 'NO_SUCH'", "no variable NO_SUCH"),
        ] {
            let error = options(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
