//! One reading task: reads the streams of its shards, asks the model, commits. The only code here
//! that waits; who goes next, what is dropped and when to read are decided in pure files.
//!
//! It has two connections of its own, one to read and one to commit, so that a blocked read never
//! holds up a result. All it holds is bounded by the shared credit.

mod asking;
mod committing;
#[cfg(test)]
mod live;
mod reading;
mod replies;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    future::Future,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use paceline_frames::Address;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use self::{
    asking::{Asked, Piece},
    committing::Committed,
    reading::{Phase, Read},
};
use crate::{
    Config,
    backoff::Breaker,
    commit::Settled,
    common::Common,
    entry::EntryId,
    ledger::Ending,
    line::Line,
    link::Link,
    pace::{Pace, Step},
    shard::ShardId,
};

/// What the coordinator tells a worker.
#[derive(Debug)]
pub(crate) enum Order {
    /// A shard is ours, proved by this token.
    Grant { shard: ShardId, token: Arc<str>, streams: Vec<NewStream> },
    /// A shard is to be given back: read no more, finish what was read, report.
    Drain(ShardId),
    /// A shard is lost: forget all of it.
    Forget(ShardId),
    /// A stream of a shard appeared.
    Add(ShardId, NewStream),
    /// A camera's stream is not read any more.
    Remove(ShardId, String),
}

/// A stream to read.
#[derive(Debug, Clone)]
pub(crate) struct NewStream {
    pub(crate) key: String,
    /// The camera whose own it is.
    pub(crate) camera: Option<String>,
}

/// What a worker tells the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// All that was read of a shard is committed.
    Drained(ShardId),
    /// Somebody else owns a shard; it was forgotten.
    Fenced(ShardId, Arc<str>),
    /// The server is not what it was; the layout of the Cluster may have changed.
    Moved,
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

struct Owned {
    token: Arc<str>,
    n_held: u64,
    is_draining: bool,
    /// Results that were written since they were trimmed.
    n_untrimmed: usize,
}

struct Stream {
    key: String,
    /// The key of the count of its frames that were settled.
    settled: String,
    camera: Option<String>,
    shard: ShardId,
    phase: Phase,
    /// Entries that were read and are not committed yet.
    held: HashSet<EntryId>,
    /// It is not read any more, and forgotten once nothing of it is held.
    is_leaving: bool,
    /// A connection broke since it was looked over: Redis may have gone back in time, and have frames
    /// again that were settled.
    is_doubtful: bool,
}

/// Whether streams are doubtful.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubts {
    None,
    Open,
    /// They came up while a read was under way, whose reply says nothing of them.
    OpenWhileReading,
}

/// How often it is said that frames were lost: a producer that trims its streams does so all the time.
const LOSSES: Duration = Duration::from_secs(10);

/// Frames that somebody took away before they were settled, and nobody was told of.
#[derive(Debug, Default)]
struct Losses {
    n_untold: u64,
    told: Option<Instant>,
}

impl Losses {
    fn note(&mut self, stream: &str, n_lost: u64, now: Instant) {
        self.n_untold += n_lost;
        if self.told.is_none_or(|told| LOSSES <= now - told) {
            self.told = Some(now);
            // Not where it is said: that is not evaluated where nobody listens.
            let n_lost = std::mem::take(&mut self.n_untold);
            tracing::error!(
                stream,
                n_lost,
                "frames were trimmed away before they were settled, of this stream and perhaps of \
                 others; do not trim streams that are kept"
            );
        }
    }
}

/// Where a worker reads, and how.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) server: Address,
    /// In a Cluster one command reads one shard, and nothing blocks.
    pub(crate) is_cluster: bool,
    /// Its share of the frames that may be in the model.
    pub(crate) in_model: usize,
    /// What one reply may bring. All readers together reserve at most half of the credit, so that
    /// one that is blocked keeps nobody from reading.
    pub(crate) reply_bytes: usize,
    /// The same in frames.
    pub(crate) reply_frames: usize,
}

impl Post {
    /// One of `n_workers` posts.
    pub(crate) fn new(
        config: &Config,
        n_workers: usize,
        server: Address,
        is_cluster: bool,
    ) -> Self {
        let share = |all: usize| (all / (2 * n_workers)).max(1);
        Self {
            server,
            is_cluster,
            in_model: (config.in_model / n_workers).max(1),
            reply_bytes: config.reply_bytes.min(share(config.credit_bytes)),
            reply_frames: share(config.credit_frames),
        }
    }
}

pub(crate) struct Worker {
    common: Arc<Common>,
    post: Post,
    orders: mpsc::Receiver<Order>,
    reports: mpsc::Sender<Report>,
    to_report: VecDeque<Report>,
    shards: BTreeMap<ShardId, Owned>,
    streams: BTreeMap<u64, Stream>,
    by_key: HashMap<Vec<u8>, u64>,
    /// Keys of streams whose group was there: where it is not any more, Redis lost data. Kept when a
    /// shard is forgotten, because a lease that Redis lost may be missed before the groups are.
    grouped: HashSet<String>,
    next_stream: u64,
    line: Line<Piece, Settled>,
    asking: FuturesUnordered<Boxed<Asked>>,
    model_breaker: Breaker,
    ask_at: Instant,
    // Reading.
    read_link: Option<Link>,
    reading: Option<Boxed<Read>>,
    /// Streams that the read under way may bring entries of.
    reading_of: HashSet<ShardId>,
    read_at: Instant,
    last_read: Instant,
    read_breaker: Breaker,
    pace: Pace,
    step: Step,
    turn: usize,
    recovers_next: bool,
    must_verify: bool,
    doubts: Doubts,
    sweep_at: Instant,
    /// Entries that were settled while a read is under way: the reply may still name them.
    settled_meanwhile: HashSet<(u64, EntryId)>,
    losses: Losses,
    // Committing.
    commit_link: Option<Link>,
    /// The fence of all shards when they were last seen to be ours. In a Cluster each has its own.
    fence: Option<Arc<str>>,
    committing: Option<Boxed<Committed>>,
    ready: VecDeque<Settled>,
    ready_since: Option<Instant>,
    commit_at: Instant,
    commit_breaker: Breaker,
}

impl Worker {
    pub(crate) fn new(
        common: Arc<Common>,
        post: Post,
        orders: mpsc::Receiver<Order>,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let now = Instant::now();
        let (linger, per_camera) = (common.config.linger, common.config.in_model_per_camera);
        Self {
            common,
            post,
            orders,
            reports,
            to_report: VecDeque::new(),
            shards: BTreeMap::new(),
            streams: BTreeMap::new(),
            by_key: HashMap::new(),
            grouped: HashSet::new(),
            next_stream: 0,
            line: Line::new(per_camera),
            asking: FuturesUnordered::new(),
            model_breaker: Breaker::default(),
            ask_at: now,
            read_link: None,
            reading: None,
            reading_of: HashSet::new(),
            read_at: now,
            last_read: now,
            read_breaker: Breaker::default(),
            pace: Pace::new(linger),
            step: Step::Wait(linger),
            turn: 0,
            recovers_next: true,
            must_verify: false,
            doubts: Doubts::None,
            sweep_at: now,
            settled_meanwhile: HashSet::new(),
            losses: Losses::default(),
            commit_link: None,
            fence: None,
            committing: None,
            ready: VecDeque::new(),
            ready_since: None,
            commit_at: now,
            commit_breaker: Breaker::default(),
        }
    }

    /// Works until the orders end. What is held then stays in its streams; a coordinator that means to
    /// stop drains first.
    pub(crate) async fn run(mut self) {
        loop {
            self.begin();
            self.start_commit();
            self.start_read();
            self.send_reports();
            let wake = self.next_wake();
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => self.obey(order),
                    None => break,
                },
                Some(asked) = self.asking.next() => {
                    self.answered(asked);
                    self.answered_meanwhile();
                }
                read = poll(&mut self.reading) => self.has_read(read),
                committed = poll(&mut self.committing) => self.has_committed(committed),
                () = sleep_until(wake) => {}
            }
        }
        let n_held = self.shards.values().map(|owned| owned.n_held).sum();
        self.common.ledger.end(Ending::Returned, n_held);
    }

    /// Takes in all answers that are there already, so that one commit carries them.
    fn answered_meanwhile(&mut self) {
        use futures_util::FutureExt as _;
        while let Some(Some(asked)) = self.asking.next().now_or_never() {
            self.answered(asked);
        }
    }

    /// Hands on what is to be reported, as far as there is room: waiting for it could wait for
    /// somebody who waits for us.
    fn send_reports(&mut self) {
        while let Some(report) = self.to_report.front() {
            if self.reports.try_send(report.clone()).is_err() {
                break;
            }
            self.to_report.pop_front();
        }
    }

    fn next_wake(&self) -> Instant {
        let now = Instant::now();
        let mut wake = now + self.common.config.lease;
        if self.reading.is_none() {
            wake = wake.min(self.read_at);
        }
        if self.committing.is_none()
            && let Some(since) = self.ready_since
        {
            wake = wake.min((since + self.common.config.commit_wait).max(self.commit_at));
        }
        if !self.to_report.is_empty() {
            wake = wake.min(now + self.common.config.linger);
        }
        if now < self.ask_at {
            wake = wake.min(self.ask_at);
        }
        wake
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Grant { shard, token, streams } => {
                self.forget(shard);
                self.shards
                    .insert(shard, Owned { token, n_held: 0, is_draining: false, n_untrimmed: 0 });
                for stream in streams {
                    self.add(shard, stream);
                }
                // Whoever took the lease changed the fence.
                self.fence = None;
                // Redis answered whoever took the lease, so there is nothing left to wait for.
                let now = Instant::now();
                self.read_at = self.read_at.min(now);
                self.commit_at = self.commit_at.min(now);
            }
            Order::Drain(shard) => {
                if let Some(owned) = self.shards.get_mut(&shard) {
                    owned.is_draining = true;
                }
                self.check_drained(shard);
            }
            Order::Forget(shard) => self.forget(shard),
            Order::Add(shard, stream) => {
                if self.shards.contains_key(&shard) {
                    self.add(shard, stream);
                }
            }
            Order::Remove(shard, key) => {
                let Some(&number) = self.by_key.get(key.as_bytes()) else { return };
                if let Some(stream) = self.streams.get_mut(&number)
                    && stream.shard == shard
                {
                    stream.is_leaving = true;
                    self.check_left(number);
                }
            }
        }
    }

    fn add(&mut self, shard: ShardId, NewStream { key, camera }: NewStream) {
        if let Some(number) = self.by_key.get(key.as_bytes()) {
            if let Some(stream) = self.streams.get_mut(number) {
                stream.is_leaving = false;
            }
            return;
        }
        let number = self.next_stream;
        self.next_stream += 1;
        self.by_key.insert(key.clone().into_bytes(), number);
        let settled = self.common.shards.settled(shard, camera.as_deref());
        let stream = Stream {
            key,
            settled,
            camera,
            shard,
            phase: Phase::recovery(),
            held: HashSet::new(),
            is_leaving: false,
            is_doubtful: false,
        };
        self.streams.insert(number, stream);
    }

    /// Forgets everything of a shard; what was read of it stays there for its next owner.
    fn forget(&mut self, shard: ShardId) {
        let Some(owned) = self.shards.remove(&shard) else { return };
        self.common.ledger.end(Ending::Returned, owned.n_held);
        self.line.abandon(shard);
        self.ready.retain(|settled| settled.shard != shard);
        let gone: Vec<u64> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.shard == shard)
            .map(|(number, _)| *number)
            .collect();
        for number in gone {
            self.remove_stream(number);
        }
    }

    /// Begins a shard anew with what Redis has of it: what is held of it is given up, and comes again in
    /// its order, after what is older.
    fn start_over(&mut self, shard: ShardId) {
        let Some(owned) = self.shards.get(&shard) else { return };
        let token = Arc::clone(&owned.token);
        let is_read = |stream: &&Stream| stream.shard == shard && !stream.is_leaving;
        let streams = self.streams.values().filter(is_read);
        let streams = streams
            .map(|stream| NewStream { key: stream.key.clone(), camera: stream.camera.clone() })
            .collect();
        self.obey(Order::Grant { shard, token, streams });
    }

    fn remove_stream(&mut self, number: u64) {
        if let Some(stream) = self.streams.remove(&number) {
            self.by_key.remove(stream.key.as_bytes());
        }
    }

    fn check_left(&mut self, number: u64) {
        let has_left = |stream: &Stream| stream.is_leaving && stream.held.is_empty();
        let stream = self.streams.get(&number).filter(|stream| has_left(stream));
        if let Some(stream) = stream.filter(|_| self.reading.is_none()) {
            self.grouped.remove(&stream.key);
            self.remove_stream(number);
        }
    }

    /// Reports a shard that is to be given back once nothing of it is held or on its way.
    fn check_drained(&mut self, shard: ShardId) {
        let is_done = self.shards.get(&shard).is_some_and(|owned| {
            owned.is_draining && owned.n_held == 0 && !self.reading_of.contains(&shard)
        });
        if is_done {
            self.forget(shard);
            self.to_report.push_back(Report::Drained(shard));
        }
    }

    /// One frame of a stream ended.
    fn release(&mut self, number: u64, id: EntryId, ending: Ending) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if !stream.held.remove(&id) {
            return;
        }
        let shard = stream.shard;
        if self.reading.is_some() {
            self.settled_meanwhile.insert((number, id));
        }
        self.common.ledger.end(ending, 1);
        if let Some(owned) = self.shards.get_mut(&shard) {
            owned.n_held -= 1;
        }
        self.check_left(number);
        self.check_drained(shard);
    }

    fn report(&mut self, report: Report) {
        if !self.to_report.contains(&report) {
            self.to_report.push_back(report);
        }
    }
}

/// Waits for what is under way, for ever where nothing is, and clears it.
async fn poll<T>(under_way: &mut Option<Boxed<T>>) -> T {
    let Some(future) = under_way else { return std::future::pending().await };
    let output = future.await;
    *under_way = None;
    output
}
