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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Data, Form, Payload, Unfit};

    fn common(config: Config) -> Arc<Common> {
        let address = config.address().unwrap();
        Arc::new(Common::new(config, address, Arc::default()))
    }

    fn frame(camera: &str, bytes: usize) -> Frame {
        let (form, data) = (Form::Raw { dtype: None, shape: None }, vec![0; bytes].into());
        let payload = Payload { form, data: Data::Inline(data) };
        Frame { camera: camera.to_owned(), seq: None, taken_ms: now_ms(), payload }
    }

    /// Puts a frame before a desk that does not run.
    fn hand_in(desk: &mut Desk, frame: Frame) -> oneshot::Receiver<Fate> {
        let (told, fate) = oneshot::channel();
        let held = desk.common.credit.charge(frame.payload.len());
        desk.arrived(Pushed { frame, _held: held, told });
        fate
    }

    #[test]
    fn everybody_is_told_by_a_code_whose_fault_it_is() {
        let failed = PushError::Failed(ErrorCode::ModelFailed, "no".to_owned());
        for (error, code) in [
            (PushError::Dropped(Reason::Unlisted), ErrorCode::NotFound),
            (PushError::Dropped(Reason::Paused), ErrorCode::Unavailable),
            (PushError::Dropped(Reason::Stale), ErrorCode::Overloaded),
            (PushError::Dropped(Reason::Superseded), ErrorCode::Overloaded),
            (PushError::Full("full"), ErrorCode::Overloaded),
            (PushError::TooLarge { actual: 2, max: 1 }, ErrorCode::InvalidInput),
            (PushError::Unfit("why".to_owned()), ErrorCode::InvalidInput),
            (PushError::Closing, ErrorCode::Unavailable),
            (failed, ErrorCode::ModelFailed),
        ] {
            assert_eq!(error.code(), code, "{error}");
        }
    }

    #[test]
    fn whoever_waits_is_told_what_became_of_the_frame() {
        let dropped = Err(PushError::Dropped(Reason::Overwritten));
        assert_eq!(fate(Outcome::Unfit(Unfit::Overwritten)), dropped);
        let unfit = |why: &str| Err(PushError::Unfit(why.to_owned()));
        assert_eq!(fate(Outcome::Unfit(Unfit::Poison("why".to_owned()))), unfit("why"));
        assert_eq!(fate(Outcome::Panicked), unfit("preparing the frame panicked"));
        let error = paceline_pipeline::InferError::UnknownModel("m".to_owned());
        let failed = PushError::Failed(ErrorCode::NotFound, error.to_string());
        assert_eq!(fate(Outcome::Failed(error)), Err(failed));
    }

    #[tokio::test]
    async fn a_frame_is_taken_up_to_the_largest_and_as_long_as_there_is_credit() {
        let common =
            common(Config { max_frame_bytes: 100, credit_bytes: 150, ..Config::default() });
        let too_large = PushError::TooLarge { actual: 101, max: 100 };
        assert_eq!(push(&common, frame("a", 101)).await, Err(too_large));

        let waits = tokio::spawn({
            let common = Arc::clone(&common);
            async move { push(&common, frame("a", 100)).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(common.credit.used(), (100, 1));
        let full = PushError::Full("no more frames are held");
        assert_eq!(push(&common, frame("b", 51)).await, Err(full));

        // The desk comes, and there is no model.
        let stop = CancellationToken::new();
        stop.cancel();
        Desk::new(Arc::clone(&common)).run(stop).await;
        assert!(matches!(waits.await.unwrap(), Err(PushError::Failed(ErrorCode::NotFound, _))));
        assert_eq!(push(&common, frame("a", 1)).await, Err(PushError::Closing));
        assert_eq!(common.credit.used(), (0, 0));
    }

    #[test]
    fn no_more_are_begun_than_may_be_in_the_model() {
        let mut desk = Desk::new(common(Config { in_model: 2, ..Config::default() }));
        let _fates: Vec<_> = (0..3).map(|_| hand_in(&mut desk, frame("a", 1))).collect();
        desk.begin();

        assert_eq!(desk.asking.len(), 2);
    }

    #[test]
    fn a_camera_whose_ring_is_full_is_told_so_unless_it_takes_the_newest() {
        let rule = |cameras: &str, keep, max_age| crate::Rule {
            cameras: cameras.to_owned(),
            keep,
            max_age,
        };
        let policies = vec![
            rule("new", crate::Keep::Latest, None),
            rule("quick", crate::Keep::All, Some(std::time::Duration::from_secs(5))),
        ];
        let common = common(Config { push_frames: 2, policies, ..Config::default() });
        let mut desk = Desk::new(Arc::clone(&common));

        let mut fates: Vec<_> = (0..3).map(|_| hand_in(&mut desk, frame("all", 1))).collect();
        let full = Err(PushError::Full("the camera's ring is full"));
        assert_eq!(fates[2].try_recv(), Ok(full));
        assert!(fates[1].try_recv().is_err(), "it waits");

        let mut fates: Vec<_> = (0..3).map(|_| hand_in(&mut desk, frame("new", 1))).collect();
        let superseded = Err(PushError::Dropped(Reason::Superseded));
        assert_eq!(
            (fates[0].try_recv(), fates[1].try_recv()),
            (Ok(superseded.clone()), Ok(superseded))
        );
        assert!(fates[2].try_recv().is_err(), "it waits");

        let old = Frame { taken_ms: now_ms() - 10_000, ..frame("quick", 1) };
        let stale = Err(PushError::Dropped(Reason::Stale));
        assert_eq!(hand_in(&mut desk, old).try_recv(), Ok(stale));
        assert_eq!(common.sightings.of("quick").map(|sight| sight.frames), Some(1));
        let counts = common.ledger.counts();
        assert_eq!(
            (counts.taken, counts.dead, counts.all_dropped(), counts.in_flight),
            (7, 1, 3, 3)
        );
    }
}
