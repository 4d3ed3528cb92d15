//! What became of frames of cameras.

use std::time::Duration;

use paceline_ingest::{Cameras, Reason, Totals};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::{page::Page, table as t};

/// How long what Redis said is good for: several scrapers do not ask it more often than one.
const FRESH: Duration = Duration::from_secs(5);
/// How long a scrape waits for Redis.
const PATIENCE: Duration = Duration::from_secs(1);

/// The cameras, and what Redis said of them last.
#[derive(Debug)]
pub(super) struct Frames {
    cameras: Cameras,
    totals: Mutex<Option<(Instant, Option<Totals>)>>,
}

impl Frames {
    pub(super) fn new(cameras: Cameras) -> Self {
        Self { cameras, totals: Mutex::new(None) }
    }

    pub(super) async fn write(&self, page: &mut Page) {
        let totals = self.totals().await;
        let counts = self.cameras.counts();
        page.family(&t::FRAMES_TAKEN).count(&[], counts.taken);
        let mut series = page.family(&t::FRAMES);
        series.count(&["committed"], counts.committed);
        series.count(&["dead"], counts.dead);
        series.count(&["lost"], counts.lost);
        series.count(&["duplicate"], counts.duplicate);
        series.count(&["returned"], counts.returned);
        let mut series = page.family(&t::FRAMES_DROPPED);
        for (reason, count) in Reason::ALL.iter().zip(counts.dropped) {
            series.count(&[reason.as_str()], count);
        }
        let (bytes, frames) = self.cameras.held();
        page.family(&t::FRAMES_HELD).size(&[], frames);
        page.family(&t::FRAMES_HELD_BYTES).size(&[], bytes);
        let health = self.cameras.health();
        page.family(&t::REDIS_UP).flag(&[], health.is_up);
        page.family(&t::REDIS_FAULTS).count(&[], health.n_faults);
        page.family(&t::SHARDS).size(&[], health.n_shards);
        // Without an answer there is no number; the last one would be a lie.
        if let Some(totals) = totals {
            page.family(&t::REDIS_LAG).count(&[], totals.unread);
            page.family(&t::REDIS_PENDING).count(&[], totals.pending());
        }
    }

    async fn totals(&self) -> Option<Totals> {
        let mut known = self.totals.lock().await;
        if let Some((asked, totals)) = &*known
            && asked.elapsed() < FRESH
        {
            return totals.clone();
        }
        let totals = timeout(PATIENCE, self.cameras.totals()).await.ok().and_then(Result::ok);
        *known = Some((Instant::now(), totals.clone()));
        totals
    }
}
