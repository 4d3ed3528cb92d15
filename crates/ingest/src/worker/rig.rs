//! What the tests of a worker are made of. No Redis and no task: replies are made up.

use std::{sync::Arc, time::Duration};

use redis::{Pipeline, Value};
use tokio::{sync::mpsc, time::Instant};

use super::{NewStream, Order, Phase, Post, Worker};
use crate::{
    Config,
    commit::{Settled, Standing, Verdict},
    common::Common,
    entry::EntryId,
    shard::ShardId,
};

pub(super) const SHARD: ShardId = ShardId(0);

/// A worker that owns a shard, the only one, and its stream.
pub(super) fn worker() -> Worker {
    worker_with(Config::default())
}

/// The same with settings that matter to a test.
pub(super) fn worker_with(config: Config) -> Worker {
    let mut worker = idle_worker(Config { shards: 1, ..config });
    grant(&mut worker, "node:1:1");
    worker
}

/// A worker that owns nothing.
pub(super) fn idle_worker(config: Config) -> Worker {
    let address = config.address().unwrap();
    let post = Post::new(&config, 1, address.clone(), false);
    let common = Common::new(config, address, Arc::default());
    let (_, orders) = mpsc::channel(1);
    let (reports, _) = mpsc::channel(1);
    Worker::new(Arc::new(common), post, orders, reports)
}

pub(super) fn grant(worker: &mut Worker, token: &str) {
    let key = worker.common.shards.frames(SHARD);
    let streams = vec![NewStream { key, camera: None }];
    worker.obey(Order::Grant { shard: SHARD, token: token.into(), streams });
    worker.fence = Some("fence".into());
}

/// Grants a shard with a stream for each of these cameras, all of which may be read for an hour.
pub(super) fn grant_cameras(worker: &mut Worker, shard: u16, cameras: &[&str]) {
    let shard = ShardId(shard);
    let stream = |camera: &&str| NewStream {
        key: format!("cam:{camera}"),
        camera: Some((*camera).to_owned()),
    };
    let streams = cameras.iter().map(stream).collect();
    let token = format!("node:1:{shard}");
    worker.obey(Order::Grant { shard, token: token.into(), streams });
    worker.fence = Some("fence".into());
    worker.common.leases.set(shard, Some(Instant::now() + Duration::from_hours(1)));
}

/// From now on new entries are read of all streams.
pub(super) fn go_live(worker: &mut Worker) {
    worker.sweep_at = Instant::now() + Duration::from_hours(1);
    for stream in worker.streams.values_mut() {
        stream.phase = Phase::Live;
    }
}

/// The number that the worker has given the only stream.
pub(super) fn stream(worker: &Worker) -> u64 {
    *worker.streams.keys().next().unwrap()
}

/// The number of a camera's stream.
pub(super) fn stream_of(worker: &Worker, camera: &str) -> u64 {
    worker.by_key[format!("cam:{camera}").as_bytes()]
}

pub(super) fn id(millis: u64) -> EntryId {
    EntryId { millis, number: 0 }
}

pub(super) fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// A refusal as Redis words it.
pub(super) fn error(code: &str) -> Value {
    redis::parse_redis_value(format!("-{code} what was wrong\r\n").as_bytes()).unwrap()
}

/// Notes a frame as read.
pub(super) fn hold(worker: &mut Worker, stream: u64, id: EntryId) {
    let held = worker.streams.get_mut(&stream).unwrap();
    assert!(held.held.insert(id));
    let shard = held.shard;
    worker.shards.get_mut(&shard).unwrap().n_held += 1;
    worker.common.ledger.take(1);
}

/// A frame that was read and only has to be committed.
pub(super) fn settled(
    worker: &mut Worker,
    stream: u64,
    id: EntryId,
    verdict: Verdict,
    standing: Standing,
) -> Settled {
    hold(worker, stream, id);
    let shard = worker.streams[&stream].shard;
    Settled { stream, shard, id, verdict, _held: worker.common.credit.charge(1), standing }
}

/// The words of each command.
pub(super) fn words(commands: &Pipeline) -> Vec<Vec<String>> {
    let word = |arg: redis::Arg<&[u8]>| match arg {
        redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => panic!("a cursor"),
    };
    commands.cmd_iter().map(|command| command.args_iter().map(word).collect()).collect()
}
