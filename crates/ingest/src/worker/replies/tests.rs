//! Replies that come when what they were asked for has changed. No Redis and no task: replies are made up.

use std::{future::pending, sync::Arc};

use tokio::sync::mpsc;

use super::*;
use crate::{
    Config,
    common::Common,
    shard::ShardId,
    worker::{NewStream, Order, Post},
};

const SHARD: ShardId = ShardId(0);
const ID: EntryId = EntryId { millis: 5, number: 0 };

/// A worker that owns a shard, the only one, and its stream.
fn worker() -> Worker {
    let config = Config { shards: 1, ..Config::default() };
    let address = config.address().unwrap();
    let post = Post::new(&config, 1, address.clone(), false);
    let common = Common::new(config, address, Arc::default());
    let (_, orders) = mpsc::channel(1);
    let (reports, _) = mpsc::channel(1);
    let mut worker = Worker::new(Arc::new(common), post, orders, reports);
    grant(&mut worker, "node:1:1");
    worker
}

fn grant(worker: &mut Worker, token: &str) {
    let key = worker.common.shards.frames(SHARD);
    let streams = vec![NewStream { key, camera: None }];
    worker.obey(Order::Grant { shard: SHARD, token: token.into(), streams });
}

/// The number that the worker has given the stream.
fn stream(worker: &Worker) -> u64 {
    *worker.streams.keys().next().unwrap()
}

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// A read of the stream that is answered with one frame.
fn deliver(worker: &mut Worker, asked: u64) {
    let fields = ["k", "7 5 door", "d", "x"].map(text).to_vec();
    let entry = Value::Array(vec![text(&ID.to_string()), Value::Array(fields)]);
    let key = text(&worker.common.shards.frames(SHARD));
    let reply = Value::Array(vec![Value::Array(vec![key, Value::Array(vec![entry])])]);
    worker.fresh(&[vec![asked]], 10, vec![reply], Instant::now());
}

/// The worker's only frame is settled while a read is under way.
fn settle_while_reading(worker: &mut Worker) {
    worker.reading = Some(Box::pin(pending()));
    worker.release(stream(worker), ID, Ending::Committed);
    worker.reading = None;
}

#[test]
fn a_frame_that_was_settled_while_it_was_read_again_is_not_taken_again() {
    let mut worker = worker();
    let number = stream(&worker);
    deliver(&mut worker, number);
    assert_eq!(worker.common.ledger.counts().in_flight, 1);

    settle_while_reading(&mut worker);
    deliver(&mut worker, number);

    let counts = worker.common.ledger.counts();
    assert_eq!((counts.taken, counts.committed, counts.in_flight), (1, 1, 0));
}

#[test]
fn a_frame_that_was_settled_while_it_was_looked_for_is_not_claimed() {
    let mut worker = worker();
    let number = stream(&worker);
    deliver(&mut worker, number);
    let span = Span::new(EntryId::default(), &worker.streams[&number].held);

    settle_while_reading(&mut worker);
    let row = vec![text(&ID.to_string()), text("node"), Value::Int(3), Value::Int(1)];
    let rows = Value::Array(vec![Value::Array(row)]);
    let reply = Value::Array(vec![rows, Value::Array(Vec::new()), Value::Int(0)]);
    worker.looked_up(number, &span, reply, Instant::now());

    assert!(matches!(worker.streams[&number].phase, Phase::Live));
}

#[test]
fn what_was_read_before_a_shard_was_taken_again_is_left_to_be_looked_for() {
    let mut worker = worker();
    let number = stream(&worker);

    worker.obey(Order::Forget(SHARD));
    grant(&mut worker, "node:1:2");
    deliver(&mut worker, number);

    assert_eq!(worker.common.ledger.counts().taken, 0);
    assert!(matches!(worker.streams[&stream(&worker)].phase, Phase::Recovery { .. }));
}
