//! A producer: adds frames to the streams that Paceline reads, each kind of payload alike.
//!
//! Frames are gathered and sent together: [`Producer::add`] puts one into the next pipeline,
//! [`Producer::flush`] sends it and says what became of each.

use std::{path::Path, time::Duration};

use redis::{Pipeline, RedisError, Value};

use crate::{
    address::{Address, Wire},
    label::Label,
    ring::{Ring, RingError},
    shard::{ShardId, Shards},
};

/// Longest that Redis may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a frame's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The elements of the model's input; type and shape are found from the model.
    Raw,
    /// A JPEG file.
    Jpeg,
    /// A PNG file.
    Png,
}

/// A frame to add.
#[derive(Debug, Clone, Copy)]
pub struct NewFrame<'a> {
    /// Whose it is.
    pub camera: &'a str,
    /// The producer's number for it, handed back with the result.
    pub number: u64,
    /// When it was taken, in milliseconds since 1970.
    pub taken_ms: u64,
    /// What its bytes are.
    pub format: Format,
    /// Its bytes.
    pub data: &'a [u8],
}

/// Where frames go.
#[derive(Debug, Clone)]
pub enum Placement {
    /// To streams that the cameras of a shard share.
    Shards(Shards),
    /// To a stream for each camera. `<camera>` in the key stands for the camera, `<shard>` for the
    /// hash tag of its shard.
    Cameras(Shards, String),
}

impl Placement {
    /// The stream of a camera's frames.
    #[must_use]
    pub fn key(&self, camera: &str) -> String {
        match self {
            Self::Shards(shards) => shards.frames(shards.of(camera)),
            Self::Cameras(shards, template) => camera_key(template, camera, shards.of(camera)),
        }
    }
}

/// The key of a camera's own stream.
#[must_use]
pub fn camera_key(template: &str, camera: &str, shard: ShardId) -> String {
    template.replace("<shard>", &format!("{{{shard}}}")).replace("<camera>", camera)
}

/// Why frames were not added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// Redis, or the way to it.
    #[error("Redis: {0}")]
    Redis(#[from] RedisError),
    /// Shared memory.
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// Adds frames to the streams of one Redis server.
pub struct Producer {
    wire: Wire,
    placement: Placement,
    ring: Option<Ring>,
    waiting: Pipeline,
}

impl Producer {
    /// Connects.
    ///
    /// # Errors
    ///
    /// When Redis cannot be reached.
    pub async fn connect(redis: &Address, placement: Placement) -> Result<Self, AddError> {
        let wire = redis.connect(TIMEOUT).await?;
        Ok(Self { wire, placement, ring: None, waiting: Pipeline::new() })
    }

    /// From now on frames lie in shared memory and Redis carries handles: for a server on this
    /// machine. A ring of `slots` must hold all frames that may wait at once, since the oldest is
    /// written over.
    ///
    /// # Errors
    ///
    /// When there is no room for it.
    pub fn use_ring(&mut self, folder: &Path, slot_bytes: u64, slots: u64) -> Result<(), AddError> {
        self.ring = Some(Ring::create(folder, "producer", slot_bytes, slots)?);
        Ok(())
    }

    /// Puts a frame into the next pipeline.
    ///
    /// # Errors
    ///
    /// When it does not fit the ring.
    pub fn add(&mut self, frame: &NewFrame<'_>) -> Result<(), AddError> {
        let handle = match &mut self.ring {
            Some(ring) => Some(ring.write(frame.data)?.to_string()),
            None => None,
        };
        let add = self.waiting.cmd("XADD").arg(self.placement.key(frame.camera)).arg("*");
        let (number, taken_ms) = (Some(frame.number), frame.taken_ms);
        add.arg("k").arg(Label { number, taken_ms, camera: frame.camera }.to_string());
        match frame.format {
            Format::Raw => {}
            Format::Jpeg => {
                add.arg("f").arg("jpeg");
            }
            Format::Png => {
                add.arg("f").arg("png");
            }
        }
        match handle {
            Some(handle) => add.arg("h").arg(handle),
            None => add.arg("d").arg(frame.data),
        };
        Ok(())
    }

    /// Frames that were added and not sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends what was added. Says for each frame, in order, what Redis refused it with, if it did.
    ///
    /// # Errors
    ///
    /// When the connection failed; frames may have been added all the same.
    pub async fn flush(&mut self) -> Result<Vec<Option<String>>, AddError> {
        let pipeline = std::mem::take(&mut self.waiting);
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let n = pipeline.len();
        let values = self.wire.connection.send_packed_commands(&pipeline, 0, n).await?;
        let refused = |value| match value {
            Value::ServerError(error) => Some(error.to_string()),
            _ => None,
        };
        Ok(values.into_iter().map(refused).collect())
    }
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("placement", &self.placement).finish_non_exhaustive()
    }
}
