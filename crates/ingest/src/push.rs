//! Frames that are pushed to us instead of read: the same policies, fairness and order, without Redis.
//!
//! Whoever pushes a frame waits for what becomes of it, so nothing has to be kept: the result, why it
//! was dropped, or why there is none. Frames wait in a bounded ring for each camera, and all of them
//! within the same credit as those that are read.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use paceline_types::ErrorCode;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{
    Answer, Frame,
    asking::{Outcome, through},
    common::{Common, now_ms},
    credit::Held,
    ledger::{Ending, Reason},
    line::{Line, Place, Waiting},
    shard::ShardId,
};

/// Frames on their way to the desk.
const ON_THEIR_WAY: usize = 1024;
/// Pushed frames belong to no shard.
const NO_SHARD: ShardId = ShardId(0);

/// Why a pushed frame has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// It was dropped on purpose.
    #[error("the frame was dropped: {}", .0.as_str())]
    Dropped(Reason),
    /// It is larger than is taken.
    #[error("the frame has {actual} bytes; at most {max} are taken")]
    TooLarge {
        /// Of the frame.
        actual: usize,
        /// As configured.
        max: usize,
    },
    /// Its camera's ring, or the credit of all, is used up.
    #[error("{0}; send less, or take the newest only with keep = \"latest\"")]
    Full(&'static str),
    /// It cannot be used.
    #[error("{0}")]
    Unfit(String),
    /// The model did not answer.
    #[error("{1}")]
    Failed(ErrorCode, String),
    /// Nothing is taken any more.
    #[error("the server is shutting down")]
    Closing,
}

impl PushError {
    /// What the outside is told.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Dropped(Reason::Unlisted) => ErrorCode::NotFound,
            Self::Dropped(Reason::Paused) | Self::Closing => ErrorCode::Unavailable,
            Self::Dropped(_) | Self::Full(_) => ErrorCode::Overloaded,
            Self::TooLarge { .. } | Self::Unfit(_) => ErrorCode::InvalidInput,
            Self::Failed(code, _) => *code,
        }
    }
}

type Fate = Result<Answer, PushError>;

/// A frame that was pushed, and who waits for it.
#[derive(Debug)]
struct Pushed {
    frame: Frame,
    _held: Held,
    told: oneshot::Sender<Fate>,
}

/// Where frames are handed in.
#[derive(Debug)]
pub(crate) struct Counter {
    hand_in: mpsc::Sender<Pushed>,
    /// Taken by the desk once it is run.
    desk: Mutex<Option<mpsc::Receiver<Pushed>>>,
}

impl Default for Counter {
    fn default() -> Self {
        let (hand_in, handed_in) = mpsc::channel(ON_THEIR_WAY);
        Self { hand_in, desk: Mutex::new(Some(handed_in)) }
    }
}

/// Hands a frame in and waits for what becomes of it.
pub(crate) async fn push(common: &Common, frame: Frame) -> Fate {
    let (actual, max) = (frame.payload.len(), common.config.max_frame_bytes);
    if max < actual {
        return Err(PushError::TooLarge { actual, max });
    }
    let held = common.credit.admit(actual).ok_or(PushError::Full("no more frames are held"))?;
    let (told, fate) = oneshot::channel();
    let pushed = Pushed { frame, _held: held, told };
    match common.counter.hand_in.try_send(pushed) {
        Ok(()) => fate.await.unwrap_or(Err(PushError::Closing)),
        Err(mpsc::error::TrySendError::Full(_)) => Err(PushError::Full("frames come too fast")),
        Err(mpsc::error::TrySendError::Closed(_)) => Err(PushError::Closing),
    }
}

type Asked = (Place, oneshot::Sender<Fate>, Fate);

/// Who takes frames in turn, asks the model and tells the results.
pub(crate) struct Desk {
    common: Arc<Common>,
    line: Line<Pushed, (oneshot::Sender<Fate>, Fate)>,
    asking: FuturesUnordered<std::pin::Pin<Box<dyn Future<Output = Asked> + Send>>>,
}

impl Desk {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        let line = Line::new(common.config.in_model_per_camera);
        Self { common, line, asking: FuturesUnordered::new() }
    }

    /// Runs until told to stop, and then until all that was handed in has its answer.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let Some(mut handed_in) = self.common.counter.desk.lock().await.take() else { return };
        let mut is_open = true;
        while is_open || !self.asking.is_empty() {
            tokio::select! {
                () = stop.cancelled(), if is_open && !handed_in.is_closed() => handed_in.close(),
                pushed = handed_in.recv(), if is_open => match pushed {
                    Some(pushed) => self.arrived(pushed),
                    None => is_open = false,
                },
                Some((place, told, fate)) = self.asking.next() => {
                    let mut released = Vec::new();
                    self.line.finish(&place, (told, fate), |ending| released.push(ending));
                    for (told, fate) in released {
                        self.tell(told, fate);
                    }
                }
            }
            self.begin();
        }
    }

    fn arrived(&mut self, pushed: Pushed) {
        let common = Arc::clone(&self.common);
        common.ledger.take(1);
        let camera = pushed.frame.camera.clone();
        if let Some(reason) = common.roster.refuses(&camera) {
            self.tell(pushed.told, Err(PushError::Dropped(reason)));
            return;
        }
        common.sightings.frame(&camera, now_ms());
        let policy = common.policies.of(&camera);
        if policy.is_stale(pushed.frame.taken_ms, now_ms()) {
            self.tell(pushed.told, Err(PushError::Dropped(Reason::Stale)));
            return;
        }
        let is_full = common.config.push_frames <= self.line.n_waiting(&camera);
        if is_full && policy.keep == crate::Keep::All {
            self.tell(pushed.told, Err(PushError::Full("the camera's ring is full")));
            return;
        }
        let (taken_ms, bytes) = (pushed.frame.taken_ms, pushed.frame.payload.len());
        let waiting = Waiting { taken_ms, bytes, body: pushed };
        let mut dropped = Vec::new();
        self.line.arrive(&camera, (NO_SHARD, policy), waiting, |pushed, reason| {
            dropped.push((pushed, reason));
        });
        self.drop_all(dropped);
    }

    fn begin(&mut self) {
        while self.asking.len() < self.common.config.in_model {
            let mut dropped = Vec::new();
            let next = self.line.next(now_ms(), |pushed, reason| dropped.push((pushed, reason)));
            self.drop_all(dropped);
            let Some((place, Pushed { frame, _held: held, told })) = next else { break };
            let common = Arc::clone(&self.common);
            self.asking.push(Box::pin(async move {
                let outcome = through(&common, &frame, paceline_batch::Key::ANY).await;
                drop(held);
                (place, told, fate(outcome))
            }));
        }
    }

    fn drop_all(&self, dropped: Vec<(Pushed, Reason)>) {
        for (pushed, reason) in dropped {
            self.tell(pushed.told, Err(PushError::Dropped(reason)));
        }
    }

    /// Counts how a frame ended and tells whoever waits, if anybody still does.
    fn tell(&self, told: oneshot::Sender<Fate>, fate: Fate) {
        let ending = match &fate {
            Ok(_) => Ending::Committed,
            Err(PushError::Dropped(reason)) => Ending::Dropped(*reason),
            Err(_) => Ending::Dead,
        };
        self.common.ledger.end(ending, 1);
        drop(told.send(fate));
    }
}

fn fate(outcome: Outcome) -> Fate {
    match outcome {
        Outcome::Answer(answer) => Ok(answer),
        Outcome::Unfit(crate::Unfit::Overwritten) => Err(PushError::Dropped(Reason::Overwritten)),
        Outcome::Unfit(crate::Unfit::Poison(why)) => Err(PushError::Unfit(why)),
        Outcome::Failed(error) => Err(PushError::Failed(error.code(), error.to_string())),
        Outcome::Panicked => Err(PushError::Unfit("preparing the frame panicked".to_owned())),
    }
}
