//! Voice detection as a service: the frames of all streams of the moment share a call.
//!
//! A stream lives on one of a few shards, each a thread with a batcher of its own. A shard that is
//! idle runs a frame at once; while it is busy, the frames of its other streams gather and go
//! together next. Nothing waits for company.

mod shard;

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use paceline_audio::{segment::MAX_UNSCORED, silero::Rate};
use paceline_backend::run_on_thread;
use paceline_batch::{
    Batcher, Failure, Key, Lane, Limits, PolicyName, Refused, Runner, Settings, SettingsError,
    Stats, Tag, Ticket,
};
use paceline_types::ErrorCode;
pub use shard::Probabilities;
use shard::{Frames, Shard, State};

/// How the service is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VoiceSettings {
    /// Threads; as many as there are cores where it is not said.
    pub shards: Option<NonZeroUsize>,
    /// Most streams in a call; more only adds to how long each call takes. 32.
    pub max_streams: Option<NonZeroUsize>,
    /// Most items that wait at once, on each shard. 8192.
    pub queue_items: Option<NonZeroUsize>,
}

impl VoiceSettings {
    /// What each shard's batcher is held to.
    fn limits(&self) -> Result<Limits, SettingsError> {
        let limits = Settings {
            policy: PolicyName::Fixed,
            max_items: Some(self.max_streams.map_or(32, NonZeroUsize::get)),
            max_cost: Some(MAX_FRAMES),
            max_wait: Some(Duration::ZERO),
            queue_items: Some(self.queue_items.map_or(8192, NonZeroUsize::get)),
            queue_bytes: Some(QUEUE_BYTES),
            ..Settings::default()
        };
        limits.validate()
    }
}

/// Frames in a call, whatever its streams submit: it bounds how long a stream waits for others.
const MAX_FRAMES: u64 = 256;
/// Bytes of audio that wait on a shard: each stream's most, for a thousand streams.
const QUEUE_BYTES: usize = 64 << 20;

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum VoiceStartError {
    /// Its settings.
    #[error("voice detection: {0}")]
    Settings(#[from] SettingsError),
    /// The system.
    #[error("no thread for voice detection")]
    Thread(#[from] std::io::Error),
}

/// Why frames have no probabilities.
#[derive(Debug, thiserror::Error)]
pub enum VoiceError {
    /// They are not 1 to [`MAX_UNSCORED`] whole frames.
    #[error(
        "{samples} samples are not 1 to {MAX_UNSCORED} whole frames of {frame} samples; send whole frames"
    )]
    Frames {
        /// As submitted.
        samples: usize,
        /// Of the stream's rate.
        frame: usize,
    },
    /// They were not taken in.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// They were taken in and have none. The stream's state is as it was before them.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl VoiceError {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            // Frames are cut here and nowhere else.
            Self::Frames { .. } => ErrorCode::Internal,
            Self::Refused(refused) => refused.code(),
            Self::Failed(failure) => failure.code(),
        }
    }
}

type ShardBatcher = Batcher<Frames, Probabilities, State>;

#[derive(Debug)]
struct Door {
    batcher: ShardBatcher,
    /// Streams that live on this shard.
    n_streams: AtomicUsize,
}

/// A cheap handle to the service. It ends when the last handle and stream are dropped, or by
/// [`close`](Self::close); everything accepted is answered all the same.
#[derive(Debug, Clone)]
pub struct VoiceDetector {
    doors: Arc<[Arc<Door>]>,
}

impl VoiceDetector {
    /// Starts the service's threads.
    ///
    /// # Errors
    ///
    /// When a setting makes no sense or the system has no thread to give.
    pub fn start(settings: VoiceSettings) -> Result<Self, VoiceStartError> {
        let limits = settings.limits()?;
        let n_shards = settings.shards.or_else(|| available_parallelism().ok());
        let mut doors = Vec::new();
        for number in 0..n_shards.map_or(1, NonZeroUsize::get) {
            // Nothing here has a deadline: a stream's frames are judged, late or not, or its
            // state would miss them. So the timekeeper has nothing to do.
            let (batcher, _) = Batcher::pair(limits.clone());
            let runner = Runner::new(batcher.attach(), Shard::default());
            run_on_thread(format!("voice-{number}"), runner, move |ended| {
                if let Err(cause) = ended {
                    tracing::error!(number, %cause, "a shard of voice detection is gone for good");
                }
            })?;
            doors.push(Arc::new(Door { batcher, n_streams: AtomicUsize::new(0) }));
        }
        Ok(Self { doors: doors.into() })
    }

    /// Opens a stream, on the shard that has fewest. Nothing was heard of it yet.
    #[must_use]
    pub fn open(&self, rate: Rate) -> VoiceStream {
        let load = |door: &&Arc<Door>| door.n_streams.load(Ordering::Relaxed);
        // There is at least one shard.
        let door = Arc::clone(self.doors.iter().min_by_key(load).unwrap_or(&self.doors[0]));
        door.n_streams.fetch_add(1, Ordering::Relaxed);
        VoiceStream { lane: door.batcher.open_lane(State::default()), rate, door }
    }

    /// Takes no more frames; those accepted are judged.
    pub fn close(&self) {
        self.doors.iter().for_each(|door| door.batcher.close());
    }

    /// What each shard did so far.
    #[must_use]
    pub fn stats(&self) -> Vec<Stats> {
        self.doors.iter().map(|door| door.batcher.stats()).collect()
    }
}

/// One stream. What waits of it is withdrawn when whoever waits for it is dropped.
#[derive(Debug)]
pub struct VoiceStream {
    lane: Lane<Frames, Probabilities, State>,
    rate: Rate,
    door: Arc<Door>,
}

impl VoiceStream {
    /// Its sample rate.
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// How likely each of these whole frames is speech. They follow those of the call before.
    /// Waits for room as long as it takes, so that pressure reaches whoever sends.
    ///
    /// A stream whose frames have no probabilities has missed them; so has one whose future was
    /// dropped.
    ///
    /// # Errors
    ///
    /// When there are no probabilities, and why.
    pub async fn detect(&mut self, frames: Vec<f32>) -> Result<Probabilities, VoiceError> {
        Ok(self.submit(frames).await?.await?)
    }

    /// As [`detect`](Self::detect), without waiting for the answer, so that a stream may be ahead
    /// of it. Answers come in the order of submission.
    ///
    /// # Errors
    ///
    /// When the frames were not taken in, and why.
    pub async fn submit(&mut self, frames: Vec<f32>) -> Result<Ticket<Probabilities>, VoiceError> {
        let frame = self.rate.frame();
        let n_frames = frames.len() / frame;
        if !frames.len().is_multiple_of(frame) || !(1..=MAX_UNSCORED).contains(&n_frames) {
            return Err(VoiceError::Frames { samples: frames.len(), frame });
        }
        let tag = tag(self.rate, &frames);
        Ok(self.lane.submit(Frames { rate: self.rate, samples: frames }, &tag).await?)
    }
}

/// What a shard's batcher is told of these whole frames.
fn tag(rate: Rate, frames: &[f32]) -> Tag {
    Tag {
        key: Key::of(&rate),
        cost: (frames.len() / rate.frame()) as u64,
        bytes: size_of_val(frames),
        ..Tag::default()
    }
}

impl Drop for VoiceStream {
    fn drop(&mut self) {
        self.door.n_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use paceline_batch::Policy;

    use super::*;

    #[test]
    fn a_call_and_what_waits_for_one_are_bounded_in_every_way() {
        let limits = VoiceSettings::default().limits().unwrap();
        assert!(matches!(limits.policy(), Policy::Fixed { .. }));
        assert_eq!(limits.max_wait(), Duration::ZERO, "nothing waits for company");
        assert_eq!((limits.queue_items(), limits.queue_bytes()), (8192, 64 << 20));
        // So many streams, and fewer where each of them has many frames.
        let most = |frames| limits.max_rows(frames);
        assert_eq!([1, 8, 9, 32, 256, 257].map(most), [32, 32, 28, 8, 1, 0]);

        let few = VoiceSettings {
            max_streams: NonZeroUsize::new(3),
            queue_items: NonZeroUsize::new(5),
            ..VoiceSettings::default()
        };
        let limits = few.limits().unwrap();
        assert_eq!((limits.max_items(), limits.queue_items()), (3, 5));
    }

    #[test]
    fn frames_cost_as_many_as_they_are_and_hold_their_samples_memory() {
        for (rate, n_frames) in [(Rate::Hz8000, 1), (Rate::Hz16000, 1), (Rate::Hz16000, 32)] {
            let frames = vec![0.0; n_frames * rate.frame()];

            let tag = tag(rate, &frames);

            assert_eq!((tag.cost, tag.bytes), (n_frames as u64, 4 * frames.len()));
            assert_eq!(tag.key, Key::of(&rate));
        }
    }
}
