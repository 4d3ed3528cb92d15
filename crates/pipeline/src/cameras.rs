//! Cameras as doors, metrics and people see them, whatever carries their frames.

use std::{future::Future, pin::Pin, time::Duration};

use bytes::Bytes;

use crate::ControlError;

/// An answer to come from wherever frames lie.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = Result<T, ControlError>> + Send + 'a>>;

/// Who reads cameras, as doors steer it.
pub trait CameraControl: Send + Sync {
    /// Everything that metrics and people are shown.
    fn snapshot(&self) -> CameraSnapshot;

    /// At most so many cameras whose names come after `after`, in the order of their names.
    fn list(&self, after: &str, most: usize) -> Vec<KnownCamera>;

    /// One camera, where it is known.
    fn find(&self, camera: &str) -> Option<KnownCamera>;

    /// Changes how a camera stands.
    ///
    /// # Errors
    ///
    /// When there is no such camera, its name is none, or there is no room for it.
    fn set(&self, camera: &str, wish: CameraWish) -> Result<(), ControlError>;

    /// Takes these cameras and no others; those that were listed before stay as they were.
    ///
    /// # Errors
    ///
    /// When a name is none or there are too many; nothing is changed then.
    fn reconcile(&self, cameras: &[String]) -> Result<Reconciled, ControlError>;

    /// Takes a frame and waits for its result, where frames are not read from Redis or beside that.
    fn push(&self, frame: PushedFrame) -> Later<'_, PushedResult>;

    /// The oldest dead letters, at most so many of each shard.
    fn dead_letters(&self, most: usize) -> Later<'_, Vec<DeadLetter>>;

    /// Puts a dead letter back at the end of its stream; whether it was still there.
    fn replay<'a>(&'a self, id: &'a str) -> Later<'a, bool>;
}

/// A frame that somebody pushes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedFrame {
    /// Whose it is.
    pub camera: String,
    /// When it was taken, in milliseconds since 1970; now, where it is left out.
    pub taken_ms: Option<u64>,
    /// Whether it is a JPEG or PNG picture; the elements of the model's input otherwise.
    pub is_picture: bool,
    /// Its bytes.
    pub data: Bytes,
}

/// The result of a pushed frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushedResult {
    /// The answer as a JSON document, of a model with an adapter.
    Json(Bytes),
    /// The outputs.
    Tensors {
        /// Names, types and shapes, as a JSON list.
        outputs: Bytes,
        /// Their bytes, one after the other.
        data: Bytes,
    },
}

/// What is to become of a camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CameraWish {
    /// Its frames are taken.
    Add,
    /// Its frames are not taken any more.
    Remove,
    /// Its frames are not taken for now.
    Pause,
    /// Its frames are taken again.
    Resume,
}

/// How a camera stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CameraState {
    /// Its frames are inferred.
    Taken,
    /// Its frames are not; in a stream of its own they wait, elsewhere they are dropped.
    Paused,
    /// It was removed; its frames are not inferred.
    Removed,
}

/// One camera and what this process has seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCamera {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub state: CameraState,
    /// Frames of it that came.
    pub frames: u64,
    /// Of these, with a result.
    pub results: u64,
    /// When the last came, in milliseconds since 1970.
    pub last_frame_ms: Option<u64>,
}

/// What a reconciliation changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Cameras that were not listed before.
    pub added: Vec<String>,
    /// Cameras that are not listed any more.
    pub removed: Vec<String>,
    /// Cameras that stayed as they were.
    pub unchanged: usize,
}

/// A frame that will never have a result, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its own id, by which it is replayed.
    pub id: String,
    /// The camera, where the frame named one.
    pub camera: Option<String>,
    /// The stream it came from.
    pub stream: String,
    /// The frame's id in that stream.
    pub frame: String,
    /// Why it is here.
    pub reason: String,
    /// How often it was tried.
    pub tries: u32,
    /// Bytes that are kept of it.
    pub bytes: usize,
}

/// What the camera pipeline of this process did and how it is, at one moment.
///
/// At rest `frames_in` is the sum of `committed`, `dropped`, `dead_lettered`, `lost`, `duplicated`,
/// `returned` and `in_flight`; while frames move, one may be seen in two places or in none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CameraSnapshot {
    /// Frames that were read, pushed or taken over.
    pub frames_in: u64,
    /// With a result.
    pub committed: u64,
    /// Dropped on purpose, by reason; every reason is listed.
    pub dropped: Vec<(&'static str, u64)>,
    /// Put to the dead letters.
    pub dead_lettered: u64,
    /// Trimmed away by somebody before they could be inferred.
    pub lost: u64,
    /// Delivered again though they had been settled; nothing was written for these.
    pub duplicated: u64,
    /// Left to another node.
    pub returned: u64,
    /// Read and not ended yet.
    pub in_flight: u64,
    /// Bytes that these hold.
    pub held_bytes: u64,
    /// Frames that wait where they come from and that nobody has read yet, when last looked.
    pub unread: u64,
    /// How old the newest frame was when it was read; nothing while no frame waits.
    pub lag: Duration,
    /// How long each commit took.
    pub commit_time: Times,
    /// From when a frame was taken until its result was written.
    pub latency: Times,
    /// Whether the source of frames answers.
    pub is_up: bool,
    /// Whether the source failed so often that it is only tried now and then.
    pub is_circuit_open: bool,
    /// Whether the model can be asked.
    pub has_model: bool,
    /// Times that the source failed or refused.
    pub faults: u64,
    /// Times that the source had lost what it held.
    pub resets: u64,
    /// The last thing that went wrong, until it is well again.
    pub problem: Option<String>,
    /// Settings of the source with which frames can be lost.
    pub warnings: Vec<String>,
    /// Shards that this node owns.
    pub shards: usize,
    /// Nodes that share the work, this one among them.
    pub nodes: Vec<String>,
}

impl CameraSnapshot {
    /// All dropped frames.
    #[must_use]
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().map(|(_, n)| n).sum()
    }
}

/// How often something took how long, in the buckets of a Prometheus histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// How many took at most as long as the bound of the same place in [`Times::BOUNDS`] and longer
    /// than the one before; those that took longer than all bounds come last.
    pub counts: [u64; Times::BOUNDS.len() + 1],
    /// What all took together.
    pub sum: Duration,
}

impl Times {
    /// Upper bounds of the buckets.
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_millis(1),
        Duration::from_millis(2),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(20),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(200),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(5),
        Duration::from_secs(30),
    ];

    /// The bucket that something belongs to that took so long.
    #[must_use]
    pub fn bucket(took: Duration) -> usize {
        Self::BOUNDS.partition_point(|bound| *bound < took)
    }

    /// How many there were.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_belongs_to_the_first_bucket_whose_bound_it_does_not_exceed() {
        let mut times = Times::default();
        for (bucket, bound) in Times::BOUNDS.into_iter().enumerate() {
            assert_eq!(Times::bucket(bound), bucket);
            assert_eq!(Times::bucket(bound + Duration::from_nanos(1)), bucket + 1);
            times.counts[bucket] = 2;
        }
        times.counts[Times::BOUNDS.len()] = 1;

        assert_eq!(Times::bucket(Duration::ZERO), 0);
        assert_eq!(times.n(), 2 * Times::BOUNDS.len() as u64 + 1);
    }

    #[test]
    fn what_was_dropped_is_added_up_over_all_reasons() {
        let dropped = vec![("late", 3), ("full", 0), ("paused", 4)];

        assert_eq!(CameraSnapshot { dropped, ..CameraSnapshot::default() }.all_dropped(), 7);
    }
}
