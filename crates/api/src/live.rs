//! What the server is doing, for those who watch: one snapshot, then what changed since, twice a
//! second.
//!
//! `sample` and `batches` read the numbers, `bins` and `frame` say what changed between two readings, `faults`
//! which of that is bad news, `feed` who has seen how much of it. All but the first two are pure. One
//! reading serves everybody who watches, whoever of them is the first to want it; where nobody
//! watches nothing is read, and no task runs.

mod batches;
mod bins;
mod cameras;
mod faults;
mod feed;
mod frame;
mod sample;

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{
    body::Body,
    extract::State,
    http::header::{CACHE_CONTROL, CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use paceline_types::ErrorCode;
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

use self::{
    batches::{Landed, in_line},
    feed::{Cursor, Feed},
    sample::Sample,
};
use crate::{ApiError, App};
pub use cameras::{CameraCounts, CameraSight};

/// How often those who watch are told.
const PERIOD: Duration = Duration::from_millis(500);
/// Most who watch at once.
const MAX_VIEWERS: usize = 64;

/// What all who watch share.
pub struct Live {
    shown: Mutex<Shown>,
    viewers: Arc<Semaphore>,
    cameras: OnceLock<Box<dyn Fn() -> CameraSight + Send + Sync>>,
}

/// What is shown, and until when it is new enough.
struct Shown {
    feed: Feed,
    due: Instant,
}

impl Default for Live {
    fn default() -> Self {
        let shown = Shown { feed: Feed::new(now_ms()), due: Instant::now() };
        Self {
            shown: Mutex::new(shown),
            viewers: Arc::new(Semaphore::new(MAX_VIEWERS)),
            cameras: OnceLock::new(),
        }
    }
}

impl Live {
    /// Shows the cameras too: `look` says how they are. Only the first who says so is asked.
    pub fn show_cameras(&self, look: impl Fn() -> CameraSight + Send + Sync + 'static) {
        // Cameras are wired once.
        drop(self.cameras.set(Box::new(look)));
    }

    /// What a viewer has not seen yet, and when to look again.
    fn news(&self, app: &App, cursor: &mut Cursor) -> (Vec<Bytes>, Instant) {
        let mut shown = self.shown.lock();
        let now = Instant::now();
        if shown.due <= now {
            let cameras = self.cameras.get().map(|look| look());
            let sample = Sample::take(app, now_ms(), cameras, shown.feed.last());
            shown.feed.push(sample);
            shown.due = now + PERIOD;
        }
        (shown.feed.news(cursor, || recent(app, shown.feed.last())), shown.due)
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// `GET /v1/live`: server-sent events until the client leaves or the server stops.
pub(crate) async fn watch(State(app): State<App>) -> Result<Response, ApiError> {
    let place = Arc::clone(&app.live.viewers).try_acquire_owned().map_err(|_| {
        let message = format!("{MAX_VIEWERS} watch already; try again later");
        ApiError::new(ErrorCode::Overloaded, message)
    })?;
    let viewer = Viewer { app, cursor: Cursor::NEW, due: Instant::now(), _place: place };
    let frames = stream::unfold(Some(viewer), |viewer| async { viewer?.next().await });
    let frames =
        frames.flat_map(|frames| stream::iter(frames.into_iter().map(Ok::<_, Infallible>)));
    let head = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((head, Body::from_stream(frames)).into_response())
}

/// Somebody who watches. It holds no more than where it is.
struct Viewer {
    app: App,
    cursor: Cursor,
    due: Instant,
    _place: OwnedSemaphorePermit,
}

impl Viewer {
    /// The next frames; the last of them where the server stops.
    async fn next(mut self) -> Option<(Vec<Bytes>, Option<Self>)> {
        let live = Arc::clone(&self.app.live);
        let stop = self.app.streams.stop.clone();
        // CANCEL SAFETY: neither holds anything.
        tokio::select! {
            biased;
            () = stop.cancelled() => return Some((vec![frame::event("bye", &())], None)),
            () = sleep_until(self.due) => {}
        }
        let (frames, due) = live.news(&self.app, &mut self.cursor);
        self.due = due;
        Some((frames, Some(self)))
    }
}

/// The batches that landed last, of the models of the last reading.
fn recent(app: &App, last: &Sample) -> Vec<Landed> {
    let models = app.models.all();
    in_line(models.iter().filter_map(|model| {
        let at = last.position(model.facts())?;
        Some(Landed::after(at, model, 0))
    }))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
