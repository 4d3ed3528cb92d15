//! Reads results and says what is lost, doubled, out of order or wrong, and how long each took.
//!
//! A result's own id says when it was written, by Redis's clock, which is this machine's; so nothing
//! has to wait for results to time them, and reading them now and then is enough.

use std::{collections::HashMap, time::Duration};

use hdrhistogram::Histogram;
use paceline_frames::{Address, Label, Shards, address::Wire};
use redis::{Cmd, RedisError, Value, aio::MultiplexedConnection};

use super::payload::is_own;

/// Longest that Redis may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most results of a shard that are read at once.
const PAGE: usize = 1000;
/// Most shards that are asked at once: while Redis answers, frames wait.
const SHARDS: usize = 16;
/// The longest that is told apart.
const LONGEST_MS: u64 = 600_000;

/// What came out so far.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Frames with a result.
    pub results: u64,
    /// Results of frames that had one already.
    pub duplicated: u64,
    /// Results that came after one of a later frame of the same camera.
    pub reordered: u64,
    /// Results that are not the answer to their frame, where the model answers its input.
    pub wrong: u64,
    /// Milliseconds from when a frame was due until its result was written.
    pub latency_ms: Histogram<u64>,
    /// Ends of frames as Redis counts them: `committed`, `dead`, `dropped_...`, `lost`.
    pub endings: HashMap<String, u64>,
}

/// Looks at the results of simulated cameras.
pub struct Judge {
    wire: Wire,
    shards: Vec<Shard>,
    cameras: HashMap<String, Camera>,
    /// Whether results of raw frames are their inputs.
    echoes: bool,
    /// Frames that were due before this are not timed.
    from_ms: u64,
    ledger_before: HashMap<String, u64>,
    seen: Seen,
}

struct Shard {
    results: String,
    ledger: String,
    last: String,
}

#[derive(Default)]
struct Camera {
    /// One bit for each number: a simulated camera gives no two frames the same, so there is no need
    /// to remember ids.
    seen: Vec<u64>,
    next: u64,
}

impl Camera {
    /// Whether this one came for the first time.
    fn mark(&mut self, number: u64) -> bool {
        let (word, bit) = (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let is_new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        is_new
    }
}

impl Judge {
    /// Begins with what is written from now on.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn connect(
        redis: &Address,
        shards: &Shards,
        echoes: bool,
    ) -> Result<Self, RedisError> {
        let mut wire = redis.connect(PATIENCE).await?;
        let mut own = Vec::new();
        for shard in shards.all() {
            let (results, ledger) = (shards.results(shard), shards.ledger(shard));
            let mut newest = redis::cmd("XREVRANGE");
            newest.arg(&results).arg("+").arg("-").arg("COUNT").arg(1);
            let newest = newest.query_async(&mut wire.connection).await?;
            let last = entries(newest).into_iter().next().map_or("0-0".to_owned(), |(id, _)| id);
            own.push(Shard { results, ledger, last });
        }
        let latency_ms = Histogram::new_with_bounds(1, LONGEST_MS, 3);
        let latency_ms =
            latency_ms.map_err(|_| RedisError::from(std::io::Error::other("bounds")))?;
        let seen = Seen {
            results: 0,
            duplicated: 0,
            reordered: 0,
            wrong: 0,
            latency_ms,
            endings: HashMap::new(),
        };
        let mut judge = Self {
            wire,
            shards: own,
            cameras: HashMap::new(),
            echoes,
            from_ms: 0,
            ledger_before: HashMap::new(),
            seen,
        };
        judge.ledger_before = judge.ledger().await?;
        Ok(judge)
    }

    /// Times only frames that are due from now on.
    pub fn time_from(&mut self, taken_ms: u64) {
        self.from_ms = taken_ms;
    }

    /// Reads all results that are there and not read yet; says how many there were.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn look(&mut self) -> Result<u64, RedisError> {
        let mut n = 0;
        let mut open: Vec<usize> = (0..self.shards.len()).collect();
        while !open.is_empty() {
            let mut more = Vec::new();
            for some in open.chunks(SHARDS) {
                let mut read = redis::cmd("XREAD");
                read.arg("COUNT").arg(PAGE).arg("STREAMS");
                for at in some {
                    read.arg(&self.shards[*at].results);
                }
                for at in some {
                    read.arg(&self.shards[*at].last);
                }
                for (key, found) in streams(ask(&mut self.wire.connection, read).await?) {
                    let Some(at) = some.iter().find(|at| self.shards[**at].results == key) else {
                        continue;
                    };
                    n += found.len() as u64;
                    if PAGE <= found.len() {
                        more.push(*at);
                    }
                    for (id, fields) in found {
                        self.judge(&id, &fields);
                        self.shards[*at].last = id;
                    }
                }
            }
            open = more;
        }
        Ok(n)
    }

    fn judge(&mut self, id: &str, fields: &HashMap<Vec<u8>, Vec<u8>>) {
        let text = |name: &[u8]| fields.get(name).and_then(|value| std::str::from_utf8(value).ok());
        let label = text(b"k").and_then(|key| Label::of_result(key).ok());
        let Some((_, Label { number: Some(number), taken_ms, camera })) = label else { return };
        let answer = fields.iter().find(|(name, _)| &***name != b"k").map(|(_, answer)| answer);
        if self.echoes && answer.is_none_or(|answer| !is_own(&camera, number, answer)) {
            self.seen.wrong += 1;
        }
        let written = id.split_once('-').and_then(|(millis, _)| millis.parse::<u64>().ok());
        let state = self.cameras.entry(camera).or_default();
        if !state.mark(number) {
            self.seen.duplicated += 1;
            return;
        }
        self.seen.results += 1;
        self.seen.reordered += u64::from(number < state.next);
        state.next = state.next.max(number + 1);
        if let Some(written) = written.filter(|_| self.from_ms <= taken_ms) {
            self.seen.latency_ms.saturating_record(written.saturating_sub(taken_ms).max(1));
        }
    }

    /// What came out, with the ends of frames as Redis counts them now.
    ///
    /// # Errors
    ///
    /// When Redis cannot be asked.
    pub async fn seen(&mut self) -> Result<&Seen, RedisError> {
        let mut ledger = self.ledger().await?;
        for (name, n) in &mut ledger {
            *n -= self.ledger_before.get(name).copied().unwrap_or(0).min(*n);
        }
        self.seen.endings = ledger;
        Ok(&self.seen)
    }

    async fn ledger(&mut self) -> Result<HashMap<String, u64>, RedisError> {
        let mut pipeline = redis::pipe();
        for shard in &self.shards {
            pipeline.cmd("HGETALL").arg(&shard.ledger);
        }
        let all: Vec<HashMap<String, u64>> =
            pipeline.query_async(&mut self.wire.connection).await?;
        let mut sum: HashMap<String, u64> = HashMap::new();
        for (name, n) in all.into_iter().flatten() {
            *sum.entry(name).or_default() += n;
        }
        Ok(sum)
    }
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Judge").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Seen {
    /// Frames of a ledger's counts that were dropped, whatever for.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let dropped = self.endings.iter().filter(|(name, _)| name.starts_with("dropped_"));
        dropped.map(|(_, n)| n).sum()
    }

    /// Frames that were put to the dead letters.
    #[must_use]
    pub fn dead_lettered(&self) -> u64 {
        self.endings.get("dead").copied().unwrap_or(0)
    }
}

async fn ask(connection: &mut MultiplexedConnection, command: Cmd) -> Result<Value, RedisError> {
    command.query_async(connection).await
}

type Entry = (String, HashMap<Vec<u8>, Vec<u8>>);

fn streams(value: Value) -> Vec<(String, Vec<Entry>)> {
    let Value::Array(streams) = value else { return Vec::new() };
    let stream = |value| {
        let (key, found): (String, Value) = redis::from_redis_value(value).ok()?;
        Some((key, entries(found)))
    };
    streams.into_iter().filter_map(stream).collect()
}

fn entries(value: Value) -> Vec<Entry> {
    let Value::Array(entries) = value else { return Vec::new() };
    entries.into_iter().filter_map(|entry| redis::from_redis_value(entry).ok()).collect()
}
