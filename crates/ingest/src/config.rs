//! What can be set, its defaults, and what makes no sense.

use std::{num::NonZeroU16, path::PathBuf, time::Duration};

use paceline_frames::{Address, AddressError, TlsFiles, producer::camera_key, ring};
pub(crate) use paceline_types::duration;
use serde::{Deserialize, Serialize};

use crate::{
    entry::MAX_CAMERA,
    policy::Rule,
    shard::{MAX_SHARDS, ShardId, Shards},
};

/// Most frames in one commit. Its script hands up to two values for each to one command, and can hand
/// it fewer than 8000.
const MAX_COMMIT: usize = 2000;

/// Cameras on Redis Streams.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where frames come from. They can be pushed here either way.
    pub source: Source,
    /// Where Redis or Valkey is: `redis://[user:password@]host:port[/db]`, `rediss://` for TLS, or
    /// `unix:///path`. In a Cluster, any of its nodes; the others are found. Behind Sentinels,
    /// `redis+sentinel://[user:password@]host[:port][,host...]/service[/db]`.
    pub url: String,
    /// The authorities whose certificates are believed, in PEM, for `rediss://`.
    pub ca_file: Option<PathBuf>,
    /// A certificate that Redis is shown, in PEM, where it asks for one.
    pub certificate: Option<PathBuf>,
    /// Its private key, in PEM.
    pub key: Option<PathBuf>,
    /// The model that every frame is sent through.
    pub model: String,
    /// Whether cameras share shard streams or each has its own.
    pub layout: Layout,
    /// The key of a camera's own stream, for `layout = "camera"`: `<camera>` stands for the camera,
    /// `<shard>` for the hash tag of its shard, which a Cluster needs.
    pub camera_key: String,
    /// What the names of all other keys begin with.
    pub prefix: String,
    /// The consumer group.
    pub group: String,
    /// This node's name; stable over restarts, and different on every node.
    pub node: String,
    /// Virtual shards. All nodes and producers must agree, and it cannot change while frames wait.
    pub shards: u16,
    /// Reading tasks for each Redis server, each with connections of its own.
    pub readers: usize,
    /// Only these cameras are taken; every camera where left empty.
    pub cameras: Vec<String>,
    /// How often camera streams are looked for, for `layout = "camera"` without a list.
    #[serde(with = "duration")]
    pub discover: Duration,
    /// Most cameras that are kept track of by name.
    pub max_cameras: usize,
    /// What may be dropped, by camera; the first rule that matches counts.
    pub policies: Vec<Rule>,
    /// Most bytes of frames held here at once. Without credit nothing is read.
    pub credit_bytes: usize,
    /// Most frames held here at once.
    pub credit_frames: usize,
    /// Most frames in the model's queue or in the model.
    pub in_model: usize,
    /// Of these, most of one camera.
    pub in_model_per_camera: usize,
    /// Largest payload; larger ones go to the dead letters.
    pub max_frame_bytes: usize,
    /// Most pushed frames of one camera that wait.
    pub push_frames: usize,
    /// Where the rings of producers on this machine are, for frames in shared memory.
    pub ring_folder: PathBuf,
    /// About how many bytes one reply of Redis may have.
    pub reply_bytes: usize,
    /// How long a reader waits between reads that found something but not much.
    #[serde(with = "duration")]
    pub linger: Duration,
    /// How long a finished frame may wait for others to be committed with.
    #[serde(with = "duration")]
    pub commit_wait: Duration,
    /// Most frames in one commit.
    pub commit_frames: usize,
    /// A frame that was tried this often without a result goes to the dead letters.
    pub max_tries: u32,
    /// About how many results a shard's result stream keeps; older ones are trimmed.
    pub keep_results: usize,
    /// About how many dead letters a shard keeps.
    pub keep_dead: usize,
    /// How long a shard stays with a node that no longer says it is alive.
    #[serde(with = "duration")]
    pub lease: Duration,
    /// How long Redis may take to answer.
    #[serde(with = "duration")]
    pub timeout: Duration,
}

/// Where frames come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Redis Streams.
    #[default]
    Redis,
    /// Whoever pushes them; there is no Redis.
    Push,
}

/// How frames lie in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// A stream per shard, shared by its cameras; cheapest to read.
    #[default]
    Shard,
    /// A stream per camera, as producers of older systems have it.
    Camera,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            source: Source::default(),
            url: "redis://127.0.0.1:6379".to_owned(),
            ca_file: None,
            certificate: None,
            key: None,
            model: "simulated".to_owned(),
            layout: Layout::default(),
            camera_key: "cam:<camera>".to_owned(),
            prefix: "paceline".to_owned(),
            group: "paceline".to_owned(),
            node: "node-1".to_owned(),
            shards: 64,
            readers: 2,
            cameras: Vec::new(),
            discover: Duration::from_secs(5),
            max_cameras: 100_000,
            policies: Vec::new(),
            credit_bytes: 256 << 20,
            credit_frames: 16_384,
            in_model: 512,
            in_model_per_camera: 4,
            max_frame_bytes: 16 << 20,
            push_frames: 16,
            ring_folder: PathBuf::from(ring::FOLDER),
            reply_bytes: 1 << 20,
            linger: Duration::from_millis(5),
            commit_wait: Duration::from_millis(10),
            commit_frames: 256,
            max_tries: 5,
            keep_results: 10_000,
            keep_dead: 1_000,
            lease: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
        }
    }
}

/// A setting that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cameras.{field} is {value}; {allowed}")]
pub struct ConfigError {
    field: &'static str,
    value: String,
    allowed: &'static str,
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, value: &dyn ToString, allowed: &'static str) -> Self {
        Self { field, value: value.to_string(), allowed }
    }
}

impl Config {
    /// Where Redis is, and how it is spoken to.
    ///
    /// # Errors
    ///
    /// Names the setting that is wrong.
    pub fn address(&self) -> Result<Address, ConfigError> {
        let files = TlsFiles {
            ca_file: self.ca_file.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        };
        let wrong =
            |wrong: AddressError| ConfigError::new(wrong.field, &wrong.value, wrong.allowed);
        Address::new(&self.url, &files).map_err(wrong)
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// Names the first setting that makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = "it must be at least 1";
        for (field, value) in [
            ("readers", self.readers),
            ("max_cameras", self.max_cameras),
            ("credit_bytes", self.credit_bytes),
            ("credit_frames", self.credit_frames),
            ("in_model", self.in_model),
            ("in_model_per_camera", self.in_model_per_camera),
            ("max_frame_bytes", self.max_frame_bytes),
            ("reply_bytes", self.reply_bytes),
            ("push_frames", self.push_frames),
            ("commit_frames", self.commit_frames),
            ("keep_results", self.keep_results),
            ("keep_dead", self.keep_dead),
            ("max_tries", usize::try_from(self.max_tries).unwrap_or(usize::MAX)),
        ] {
            if value == 0 {
                return Err(ConfigError { field, value: "0".to_owned(), allowed: positive });
            }
        }
        let wrong =
            |field, value: &dyn ToString, allowed| Err(ConfigError::new(field, value, allowed));
        if self.certificate.is_some() != self.key.is_some() {
            return wrong("certificate", &"without its key", "`certificate` and `key` go together");
        }
        if MAX_COMMIT < self.commit_frames {
            return wrong("commit_frames", &self.commit_frames, "it must be at most 2000");
        }
        if !(1..=MAX_SHARDS).contains(&self.shards) {
            return wrong("shards", &self.shards, "it must be from 1 to 4096");
        }
        if !self.camera_key.contains("<camera>") {
            return wrong("camera_key", &self.camera_key, "it must hold `<camera>`");
        }
        if self.node.is_empty() || self.node.contains(':') {
            return wrong("node", &self.node, "it must be a name without a colon");
        }
        if self.lease < Duration::from_millis(100) {
            let value = humantime::format_duration(self.lease);
            return wrong("lease", &value, "it must be at least 100ms");
        }
        if self.timeout.is_zero() {
            return wrong("timeout", &"0s", "it must be longer than nothing");
        }
        if let Some(bad) = self.cameras.iter().find(|name| !is_camera(name)) {
            return wrong("cameras", bad, "a name has 1 to 128 bytes");
        }
        if self.max_cameras < self.cameras.len() {
            return wrong("cameras", &self.cameras.len(), "these are more than max_cameras");
        }
        Ok(())
    }

    /// The shards and what their keys are called.
    #[must_use]
    pub fn shards(&self) -> Shards {
        let count = NonZeroU16::new(self.shards).unwrap_or(NonZeroU16::MIN);
        Shards::new(self.prefix.clone(), count)
    }

    /// The key of a camera's own stream.
    #[must_use]
    pub fn key_of(&self, camera: &str, shard: ShardId) -> String {
        camera_key(&self.camera_key, camera, shard)
    }

    /// The camera whose own stream has this key.
    #[must_use]
    pub fn camera_of(&self, key: &str) -> Option<String> {
        let (before, after) = self.camera_key.split_once("<camera>")?;
        // A tag is `{s`, digits and `}`.
        let tag_at = match before.find("<shard>") {
            Some(at) => Some(at),
            None if after.contains("<shard>") => Some(key.rfind("{s")?),
            None => None,
        };
        let tag = match tag_at {
            Some(at) => key.get(at..)?.split_inclusive('}').next()?,
            None => "",
        };
        let (before, after) = (before.replace("<shard>", tag), after.replace("<shard>", tag));
        let camera = key.strip_prefix(&*before)?.strip_suffix(&*after)?;
        is_camera(camera).then(|| camera.to_owned())
    }

    /// A pattern that all camera streams match, for `SCAN`.
    #[must_use]
    pub fn key_pattern(&self) -> String {
        self.camera_key.replace("<shard>", "{s*}").replace("<camera>", "*")
    }
}

pub(crate) fn is_camera(name: &str) -> bool {
    (1..=MAX_CAMERA).contains(&name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_sense() {
        assert_eq!(Config::default().validate(), Ok(()));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let config = Config { node: "a:b".to_owned(), ..Config::default() };

        let error = config.validate().unwrap_err().to_string();
        assert_eq!(error, "cameras.node is a:b; it must be a name without a colon");
        assert!(Config { shards: 0, ..Config::default() }.validate().is_err());
        assert!(Config { in_model: 0, ..Config::default() }.validate().is_err());
        assert!(Config { commit_frames: 2001, ..Config::default() }.validate().is_err());
    }

    /// What is wrong with settings that differ from the defaults in this.
    fn wrong(change: impl FnOnce(&mut Config)) -> Option<&'static str> {
        let mut config = Config::default();
        change(&mut config);
        config.validate().err().map(|error| error.field)
    }

    #[test]
    fn nothing_of_which_there_must_be_some_may_be_none() {
        assert_eq!(wrong(|config| config.readers = 0), Some("readers"));
        assert_eq!(wrong(|config| config.max_cameras = 0), Some("max_cameras"));
        assert_eq!(wrong(|config| config.credit_bytes = 0), Some("credit_bytes"));
        assert_eq!(wrong(|config| config.credit_frames = 0), Some("credit_frames"));
        assert_eq!(wrong(|config| config.in_model_per_camera = 0), Some("in_model_per_camera"));
        assert_eq!(wrong(|config| config.max_frame_bytes = 0), Some("max_frame_bytes"));
        assert_eq!(wrong(|config| config.reply_bytes = 0), Some("reply_bytes"));
        assert_eq!(wrong(|config| config.push_frames = 0), Some("push_frames"));
        assert_eq!(wrong(|config| config.keep_results = 0), Some("keep_results"));
        assert_eq!(wrong(|config| config.keep_dead = 0), Some("keep_dead"));
        assert_eq!(wrong(|config| config.max_tries = 0), Some("max_tries"));
        assert_eq!(wrong(|config| config.timeout = Duration::ZERO), Some("timeout"));
    }

    #[test]
    fn the_last_value_that_makes_sense_is_taken_and_the_next_is_not() {
        assert_eq!(wrong(|config| config.commit_frames = 2000), None);
        assert_eq!(wrong(|config| config.commit_frames = 2001), Some("commit_frames"));
        assert_eq!(wrong(|config| config.shards = 4096), None);
        assert_eq!(wrong(|config| config.shards = 4097), Some("shards"));
        assert_eq!(wrong(|config| config.lease = Duration::from_millis(100)), None);
        assert_eq!(wrong(|config| config.lease = Duration::from_millis(99)), Some("lease"));
        let two = ["a", "b"].map(str::to_owned);
        assert_eq!(wrong(|config| (config.cameras, config.max_cameras) = (two.to_vec(), 2)), None);
        let more = |config: &mut Config| (config.cameras, config.max_cameras) = (two.to_vec(), 1);
        assert_eq!(wrong(more), Some("cameras"));
        assert_eq!(wrong(|config| config.cameras = vec!["x".repeat(128)]), None);
        assert_eq!(wrong(|config| config.cameras = vec!["x".repeat(129)]), Some("cameras"));
        assert_eq!(wrong(|config| config.cameras = vec![String::new()]), Some("cameras"));
        assert_eq!(wrong(|config| config.node = String::new()), Some("node"));
        assert_eq!(wrong(|config| config.camera_key = "cam".to_owned()), Some("camera_key"));
    }

    #[test]
    fn a_certificate_and_its_key_go_together() {
        let file = || Some(PathBuf::from("x.pem"));
        assert_eq!(wrong(|config| config.certificate = file()), Some("certificate"));
        assert_eq!(wrong(|config| config.key = file()), Some("certificate"));
        assert_eq!(wrong(|config| (config.certificate, config.key) = (file(), file())), None);
    }

    #[test]
    fn a_pattern_for_camera_streams_leaves_open_what_differs() {
        let pattern =
            |key: &str| Config { camera_key: key.to_owned(), ..Config::default() }.key_pattern();
        assert_eq!(pattern("x:<shard>:<camera>:y"), "x:{s*}:*:y");
        assert_eq!(pattern("cam:<camera>"), "cam:*");
    }

    #[test]
    fn there_are_as_many_shards_as_are_set() {
        let config = Config { shards: 7, prefix: "p".to_owned(), ..Config::default() };

        assert_eq!(config.shards().count(), 7);
        assert!(config.shards().frames(ShardId(3)).starts_with("p:"));
    }

    #[test]
    fn a_cameras_key_leads_back_to_it() {
        for template in ["cam:<camera>", "x:<shard>:<camera>:frames", "<camera>@<shard>:frames"] {
            let config = Config { camera_key: template.to_owned(), ..Config::default() };
            let key = config.key_of("door 7", ShardId(3));

            assert_eq!(config.camera_of(&key).as_deref(), Some("door 7"), "{key}");
            assert_eq!(config.camera_of("other"), None);
        }
    }
}
