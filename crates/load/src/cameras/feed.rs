//! Sends frames when they are due.

use std::time::{Duration, SystemTime};

use paceline_frames::{AddError, Address, NewFrame, Placement, Producer};
use tokio::time::{Instant, sleep_until};

use super::{Payloads, Schedule, schedule::camera_name};

/// How often it is looked what is due: frames that become due in between are sent together.
const TICK: Duration = Duration::from_millis(5);
/// Most frames in one pipeline.
const MAX_PIPELINE: usize = 1000;

/// Why feeding ended early.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// Redis or shared memory.
    #[error(transparent)]
    Add(#[from] AddError),
    /// Redis took no frame.
    #[error("Redis refuses frames: {0}")]
    Refused(String),
}

/// What was sent.
#[derive(Debug, Clone, Default)]
pub struct Fed {
    /// Frames that Redis took, of each camera.
    pub added: Vec<u64>,
    /// Frames that Redis refused, and why the last was.
    pub refused: (u64, Option<String>),
    /// The most that a frame was sent after it was due.
    pub latest: Duration,
}

impl Fed {
    /// Frames that Redis took.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.added.iter().sum()
    }
}

/// Sends frames of simulated cameras.
#[derive(Debug)]
pub struct Feed {
    producer: Producer,
    payloads: Payloads,
    schedule: Schedule,
    names: Vec<String>,
    next: u64,
    fed: Fed,
}

impl Feed {
    /// Connects to Redis.
    ///
    /// # Errors
    ///
    /// When it cannot be reached.
    pub async fn connect(
        redis: &Address,
        placement: Placement,
        payloads: Payloads,
        schedule: Schedule,
    ) -> Result<Self, FeedError> {
        let producer = Producer::connect(redis, placement).await?;
        let names = (0..schedule.cameras).map(camera_name).collect();
        let fed = Fed { added: vec![0; schedule.cameras as usize], ..Fed::default() };
        Ok(Self { producer, payloads, schedule, names, next: 0, fed })
    }

    /// Frames go through shared memory from now on; the ring holds four seconds of them.
    ///
    /// # Errors
    ///
    /// When there is no room for it.
    pub fn use_ring(&mut self, folder: &std::path::Path) -> Result<(), FeedError> {
        let slots = self.schedule.count(Duration::from_secs(4)).clamp(64, 1 << 20);
        Ok(self.producer.use_ring(folder, self.payloads.largest() as u64, slots)?)
    }

    /// Sends what is due within the next `time`, each frame when it is. What was sent before counts
    /// on, so that phases follow one another without a gap in the numbers.
    ///
    /// # Errors
    ///
    /// When Redis or shared memory fails.
    pub async fn run(&mut self, time: Duration) -> Result<&Fed, FeedError> {
        let first = self.next;
        let end = first + self.schedule.count(time);
        let (start, wall) = (Instant::now(), now_ms());
        let offset = self.schedule.frame(first).0;
        let mut data = Vec::new();
        let mut tick = start;
        while self.next < end {
            sleep_until(tick).await;
            let now = start.elapsed();
            let mut sent = Vec::new();
            while self.next < end && sent.len() < MAX_PIPELINE {
                let (due, camera, number) = self.schedule.frame(self.next);
                let due = due.saturating_sub(offset);
                if now < due {
                    break;
                }
                let name = &self.names[camera as usize];
                let format = self.payloads.write(name, number, &mut data);
                // The time at which it was due, so that a late frame counts as one.
                let taken_ms = wall + u64::try_from(due.as_millis()).unwrap_or(0);
                let frame = NewFrame { camera: name, number, taken_ms, format, data: &data };
                self.producer.add(&frame)?;
                self.fed.latest = self.fed.latest.max(now.saturating_sub(due));
                sent.push(camera);
                self.next += 1;
            }
            let is_behind = MAX_PIPELINE <= sent.len();
            self.flush(sent).await?;
            if !is_behind {
                tick = (tick + TICK).max(Instant::now());
            }
        }
        Ok(&self.fed)
    }

    async fn flush(&mut self, sent: Vec<u32>) -> Result<(), FeedError> {
        let refused = self.producer.flush().await?;
        for (camera, refused) in sent.iter().zip(refused) {
            match refused {
                None => self.fed.added[*camera as usize] += 1,
                Some(why) => {
                    self.fed.refused.0 += 1;
                    self.fed.refused.1 = Some(why);
                }
            }
        }
        match &self.fed.refused.1 {
            Some(why) if self.fed.all() == 0 => Err(FeedError::Refused(why.clone())),
            _ => Ok(()),
        }
    }
}

/// Milliseconds since 1970, as producers write them.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
