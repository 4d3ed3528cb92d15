//! Cameras: every frame that Redis has confirmed must have one result, in the camera's order.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    num::NonZeroU16,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use paceline_ingest::{Label, ShardId, Shards};
use parking_lot::Mutex;
use redis::{AsyncConnectionConfig, RedisResult, aio::MultiplexedConnection};
use tokio::time::{Instant, sleep, timeout};

use super::{PATIENCE, Stage};
use crate::ledger::Outcome;

const CAMERAS: u64 = 20;
pub(crate) const SHARDS: NonZeroU16 = NonZeroU16::new(64).expect("not zero");
/// Between rounds in which every camera takes a picture.
const PACE: Duration = Duration::from_millis(50);
/// How long a Redis that is being harmed may take.
const ANSWER: Duration = Duration::from_secs(2);
/// How long before a failover a result may have been read that Redis had not copied yet.
const UNCOPIED: Duration = Duration::from_secs(2);
/// For how long results are remembered.
const MEMORY: Duration = Duration::from_secs(30);
/// How long a copy may take, in milliseconds; longer, and a frame counts as not copied.
const COPY: u64 = 100;
/// Results that are read at once.
const READ: usize = 1000;

/// An entry of a stream: its id and its fields, names and values in turn.
type Entry = (String, Vec<Vec<u8>>);
/// Streams with their entries.
type Reply = Vec<(String, Vec<Entry>)>;

/// What was sent and what came back.
#[derive(Debug, Default)]
pub(crate) struct Film {
    next: AtomicU64,
    frames: Mutex<Frames>,
}

#[derive(Debug, Default)]
struct Frames {
    /// Confirmed by Redis and without a result yet.
    open: BTreeMap<u64, Sent>,
    /// Sent, and nobody knows whether they arrived.
    doubtful: BTreeSet<u64>,
    /// The newest frame of each camera that has a result.
    newest: BTreeMap<String, u64>,
    /// Frames that had their result a short while ago.
    answered: BTreeMap<u64, Answered>,
    /// Frames that had their result, and that Redis has again without one: it must come again.
    again: BTreeSet<u64>,
    /// When Redis last lost what it had not copied.
    lost_at: Option<Instant>,
    n_results: u64,
    n_repeats: u64,
    n_trimmed: u64,
    n_refused: u64,
}

#[derive(Debug)]
struct Sent {
    at: Instant,
    /// A second Redis has it too.
    is_copied: bool,
}

/// What Redis has: the numbers of frames without a result, by camera, and of those with one.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    frames: BTreeMap<u64, String>,
    results: BTreeSet<u64>,
}

#[derive(Debug)]
struct Answered {
    /// When the result was read.
    at: Instant,
    /// The frame's entry id, as the result says.
    frame: String,
}

impl Film {
    /// Confirmed frames without a result, and those whose result must come again.
    pub(crate) fn n_open(&self) -> usize {
        let frames = self.frames.lock();
        frames.open.len() + frames.again.len()
    }

    pub(crate) fn n_results(&self) -> u64 {
        self.frames.lock().n_results
    }

    pub(crate) fn n_repeats(&self) -> u64 {
        self.frames.lock().n_repeats
    }

    pub(crate) fn n_trimmed(&self) -> u64 {
        self.frames.lock().n_trimmed
    }

    /// Frames that Redis did not take.
    pub(crate) fn n_refused(&self) -> u64 {
        self.frames.lock().n_refused
    }

    /// Redis did not confirm a frame. Where it said why, it has none of it, and there must be no
    /// result, ever; else it may have arrived all the same.
    fn unconfirmed(&self, number: u64, error: &redis::RedisError) {
        let mut frames = self.frames.lock();
        if error.code().is_some() {
            frames.open.remove(&number);
            frames.n_refused += 1;
        } else if frames.open.remove(&number).is_some() {
            frames.doubtful.insert(number);
        }
    }

    /// Redis has lost what it had not copied: frames may be gone, and results, which then come
    /// again.
    pub(crate) fn lose_uncopied(&self) {
        let mut frames = self.frames.lock();
        let lost = frames.open.extract_if(.., |_, sent| !sent.is_copied).map(|(number, _)| number);
        let lost: Vec<u64> = lost.collect();
        frames.doubtful.extend(lost);
        frames.newest.clear();
        frames.lost_at = Some(Instant::now());
    }

    /// Redis has lost everything: frames without a result may never have one.
    pub(crate) fn lose_all(&self) {
        let mut frames = self.frames.lock();
        let lost = std::mem::take(&mut frames.open);
        frames.doubtful.extend(lost.into_keys());
    }

    /// Redis went back in time, and nobody has spoken to it since. Frames that it does not have must
    /// have no result, ever; those that it has without their result must have it again, and that many
    /// there are.
    pub(crate) fn rewind(&self, stored: &Stored) -> usize {
        let mut frames = self.frames.lock();
        let Frames { open, doubtful, newest, again, .. } = &mut *frames;
        let has =
            |number: &u64| stored.frames.contains_key(number) || stored.results.contains(number);
        open.retain(|number, _| has(number));
        doubtful.retain(has);
        again.retain(has);
        for (number, camera) in &stored.frames {
            let is_awaited = open.contains_key(number) || doubtful.contains(number);
            if !is_awaited && again.insert(*number) {
                // Those that come again come in order, too, from the first of them on.
                let newest = newest.entry(camera.clone()).or_default();
                *newest = (*newest).min(number - 1);
            }
        }
        again.len()
    }

    /// Somebody has trimmed these away before they were settled: there must be no result, ever.
    pub(crate) fn trimmed(&self, numbers: &[u64]) {
        let mut frames = self.frames.lock();
        for number in numbers {
            frames.open.remove(number);
            frames.doubtful.remove(number);
        }
        frames.n_trimmed += u64::try_from(numbers.len()).unwrap_or(0);
    }

    /// What one result means.
    fn result(&self, key: &str, data: &[u8]) -> Result<Instant, String> {
        let now = Instant::now();
        let (frame, Label { number, camera, .. }) =
            Label::of_result(key).map_err(|_| format!("a result says that it is of `{key}`"))?;
        let number = number.unwrap_or_default();
        let mut frames = self.frames.lock();
        let newest = frames.newest.insert(camera.clone(), number);
        frames.n_results += 1;
        if data != number.to_le_bytes() {
            return Err(format!("frame {number} of {camera} came back with other bytes"));
        }
        if newest.is_some_and(|newest| number <= newest) {
            return Err(format!("{camera}: {number} came after {newest:?}"));
        }
        let answered = Answered { at: now, frame: frame.to_owned() };
        let is_again = frames.again.remove(&number);
        let known = frames.answered.insert(number, answered);
        while frames.answered.first_entry().is_some_and(|first| MEMORY < now - first.get().at) {
            frames.answered.pop_first();
        }
        if is_again {
            if known.is_none_or(|known| known.frame != frame) {
                return Err(format!("frame {number} of {camera} came again under another id"));
            }
            frames.n_repeats += 1;
            return Ok(now);
        }
        match (frames.open.remove(&number), frames.lost_at.zip(known)) {
            (Some(sent), _) => Ok(sent.at),
            (None, _) if frames.doubtful.remove(&number) => Ok(now),
            // It may come again, and is known by its id then.
            (None, Some((lost_at, known)))
                if known.at <= lost_at && lost_at - known.at < UNCOPIED && known.frame == frame =>
            {
                frames.n_repeats += 1;
                Ok(now)
            }
            _ => Err(format!("frame {number} of {camera} was never sent, or came twice")),
        }
    }
}

/// A connection of its own, on which nothing may take longer than this; a killed Redis takes it
/// along.
pub(crate) async fn connect(
    at: SocketAddr,
    patience: Duration,
) -> RedisResult<MultiplexedConnection> {
    let client = redis::Client::open(format!("redis://{at}"))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(patience))
        .set_response_timeout(Some(patience));
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Takes pictures until told to stop.
pub(crate) async fn film(stage: &Stage, film: &Film) {
    let shards = Shards::new("paceline".to_owned(), SHARDS);
    let Some(pair) = &stage.server.redis else { return };
    let mut connection = None;
    while !stage.is_over() {
        sleep(PACE).await;
        if connection.is_none() {
            connection = connect(pair.at, ANSWER).await.ok();
        }
        let Some(redis) = &mut connection else { continue };
        let first = film.next.load(Ordering::Relaxed) + 1;
        for camera in 0..CAMERAS {
            let camera = format!("cam-{camera}");
            let number = film.next.fetch_add(1, Ordering::Relaxed) + 1;
            film.frames.lock().open.insert(number, Sent { at: Instant::now(), is_copied: false });
            let added = redis::cmd("XADD")
                .arg(shards.frames(shards.of(&camera)))
                .arg("*")
                .arg(&[("c", camera.as_bytes()), ("q", number.to_string().as_bytes())])
                .arg(&[("s", b"1,8".as_slice()), ("d", number.to_le_bytes().as_slice())])
                .query_async::<String>(redis)
                .await;
            if let Err(error) = added {
                film.unconfirmed(number, &error);
                connection = None;
                break;
            }
        }
        let Some(redis) = &mut connection else { continue };
        let copied = redis::cmd("WAIT").arg(1).arg(COPY).query_async::<u64>(redis).await;
        match copied {
            Ok(1..) => {
                let mut frames = film.frames.lock();
                frames.open.range_mut(first..).for_each(|(_, sent)| sent.is_copied = true);
            }
            Ok(_) => {}
            Err(_) => connection = None,
        }
    }
}

/// Shards that have a camera.
fn used(shards: &Shards) -> impl Iterator<Item = ShardId> {
    let used: BTreeSet<ShardId> =
        (0..CAMERAS).map(|camera| shards.of(&format!("cam-{camera}"))).collect();
    used.into_iter()
}

/// The streams that frames are added to.
pub(crate) fn streams(shards: &Shards) -> Vec<String> {
    used(shards).map(|shard| shards.frames(shard)).collect()
}

/// What a Redis has of all cameras.
pub(crate) async fn stored(at: SocketAddr) -> RedisResult<Stored> {
    let shards = Shards::new("paceline".to_owned(), SHARDS);
    let mut redis = connect(at, PATIENCE).await?;
    let mut stored = Stored::default();
    for shard in used(&shards) {
        for (_, fields) in all(&mut redis, &shards.frames(shard)).await? {
            let text = |name: &str| String::from_utf8(field(&fields, name)?.clone()).ok();
            let number = text("q").and_then(|number| number.parse().ok());
            // What somebody else added has no number, or no camera.
            stored.frames.extend(number.zip(text("c")));
        }
        for (_, fields) in all(&mut redis, &shards.results(shard)).await? {
            let key = field(&fields, "k").and_then(|key| std::str::from_utf8(key).ok());
            let label = key.and_then(|key| Label::of_result(key).ok());
            stored.results.extend(label.and_then(|(_, label)| label.number));
        }
    }
    Ok(stored)
}

/// All entries of a stream.
async fn all(redis: &mut MultiplexedConnection, stream: &str) -> RedisResult<Vec<Entry>> {
    redis::cmd("XRANGE").arg(stream).arg("-").arg("+").query_async(redis).await
}

fn field<'a>(fields: &'a [Vec<u8>], name: &str) -> Option<&'a Vec<u8>> {
    fields.chunks_exact(2).find(|pair| pair[0] == name.as_bytes()).map(|pair| &pair[1])
}

/// Reads results until told to stop and everything has come, or for as long as is reasonable.
pub(crate) async fn watch(stage: &Stage, film: &Film) {
    let Some(pair) = &stage.server.redis else { return };
    let shards = Shards::new("paceline".to_owned(), SHARDS);
    let keys: Vec<String> = used(&shards).map(|shard| shards.results(shard)).collect();
    let mut ids = vec!["0".to_owned(); keys.len()];
    let mut over = None;
    loop {
        if stage.is_over() {
            let since = *over.get_or_insert_with(Instant::now);
            if film.n_open() == 0 || since.elapsed() > PATIENCE {
                break;
            }
        }
        let Ok(mut redis) = connect(pair.at, ANSWER).await else {
            sleep(PACE).await;
            continue;
        };
        while read(stage, film, &mut redis, &keys, &mut ids).await.is_ok() {
            if stage.is_over() {
                break;
            }
        }
    }
    let lost = {
        let frames = film.frames.lock();
        frames.open.keys().chain(&frames.again).take(10).copied().collect::<Vec<_>>()
    };
    for (n, number) in lost.iter().enumerate() {
        if n == 0 {
            stage.ledger.violation(format!("cameras: no result for {} frames", film.n_open()));
        }
        stage.ledger.violation(format!("cameras: frame {number} has no result"));
    }
}

async fn read(
    stage: &Stage,
    film: &Film,
    redis: &mut MultiplexedConnection,
    keys: &[String],
    ids: &mut [String],
) -> RedisResult<()> {
    let mut command = redis::cmd("XREAD");
    command.arg("COUNT").arg(READ).arg("STREAMS").arg(keys).arg(&*ids);
    let asked = timeout(ANSWER, command.query_async::<Option<Reply>>(redis)).await;
    let reply = asked.map_err(|_| redis::RedisError::from(std::io::Error::other("too slow")))??;
    let Some(reply) = reply else {
        sleep(PACE).await;
        return Ok(());
    };
    for (key, entries) in reply {
        let Some(place) = keys.iter().position(|known| *known == key) else { continue };
        for (id, fields) in entries {
            let field = |is_key: bool| {
                let pair = fields.chunks_exact(2).find(|pair| (pair[0] == b"k") == is_key);
                pair.map(|pair| pair[1].clone()).unwrap_or_default()
            };
            let (key, data) = (field(true), field(false));
            let now = Instant::now();
            match film.result(&String::from_utf8_lossy(&key), &data) {
                Ok(sent) => stage.ledger.settle("cameras", sent, now, &Outcome::Right),
                Err(said) => stage.ledger.settle("cameras", now, now, &Outcome::Wrong(said)),
            }
            ids[place] = id;
        }
        // What was read is not needed again, here.
        redis::cmd("XTRIM")
            .arg(&key)
            .arg("MINID")
            .arg(&ids[place])
            .query_async::<()>(redis)
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film(numbers: std::ops::Range<u64>) -> Film {
        let film = Film::default();
        for number in numbers {
            let sent = Sent { at: Instant::now(), is_copied: false };
            film.frames.lock().open.insert(number, sent);
        }
        film
    }

    fn result(film: &Film, number: u64) -> Result<Instant, String> {
        film.result(&format!("1-0 {number} 5 cam-0"), &number.to_le_bytes())
    }

    #[test]
    fn a_frame_that_was_trimmed_away_needs_no_result_and_must_have_none() {
        let film = film(1..4);
        film.trimmed(&[1, 3]);

        assert_eq!((film.n_open(), film.n_trimmed()), (1, 2));
        assert!(result(&film, 2).is_ok());
        assert!(result(&film, 3).is_err());
        assert_eq!(film.n_open(), 0);
    }

    #[test]
    fn a_frame_that_redis_refused_must_have_no_result_and_one_that_got_lost_may() {
        let film = film(1..3);
        let refused = redis::parse_redis_value(b"-MISCONF no space left\r\n").unwrap();
        film.unconfirmed(1, &refused.extract_error().unwrap_err());
        film.unconfirmed(2, &std::io::Error::other("the connection broke").into());

        assert_eq!((film.n_open(), film.n_refused()), (0, 1));
        assert!(result(&film, 1).is_err());
        assert!(result(&film, 2).is_ok());
    }

    #[test]
    fn a_frame_that_redis_lost_needs_no_result_and_may_have_one() {
        let film = film(1..4);
        film.lose_all();

        assert_eq!(film.n_open(), 0);
        assert!(result(&film, 2).is_ok());
        assert!(result(&film, 2).is_err(), "but not two");
    }

    #[test]
    fn of_a_redis_that_went_back_in_time_exactly_what_it_has_is_awaited() {
        let film = film(1..5);
        assert!(result(&film, 1).is_ok());
        assert!(result(&film, 2).is_ok());
        // The second one's result was not written down, nor were the last frame and the first.
        let stored = Stored {
            frames: BTreeMap::from([(2, "cam-0".to_owned())]),
            results: BTreeSet::from([3]),
        };
        let n_again = film.rewind(&stored);

        assert_eq!((n_again, film.n_open()), (1, 2));
        assert!(result(&film, 2).is_ok());
        assert!(result(&film, 3).is_ok());
        assert_eq!((film.n_open(), film.n_repeats()), (0, 1));
        for number in [1, 2, 4] {
            assert!(result(&film, number).is_err(), "{number} is not to come");
        }
    }

    #[test]
    fn what_comes_again_is_in_order_and_has_its_id() {
        let film = film(1..4);
        assert!((1..4).all(|number| result(&film, number).is_ok()));
        let frames = (1..4).map(|number| (number, "cam-0".to_owned()));
        let stored = Stored { frames: frames.collect(), results: BTreeSet::new() };
        film.rewind(&stored);

        assert!(film.result("2-0 1 5 cam-0", &1_u64.to_le_bytes()).is_err(), "another id");
        assert!(result(&film, 3).is_ok());
        assert!(result(&film, 2).is_err(), "after its successor");
    }
}
