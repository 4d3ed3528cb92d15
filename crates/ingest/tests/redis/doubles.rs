//! Frames that are given out twice, and results that are.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use paceline_ingest::{Config, Label, Layout};

use crate::rig::{self, Producer, Running, Server};

fn config(server: &Server, layout: Layout) -> Config {
    let cameras = (0..10).map(|camera| format!("cam-{camera}")).collect();
    Config { layout, cameras, ..rig::config(&server.url()) }
}

/// The keys of all results, none of them twice.
async fn result_keys(server: &Server, config: &Config) -> BTreeSet<String> {
    let shards = config.shards();
    let mut all = Vec::new();
    for shard in shards.all() {
        all.extend(rig::result_keys_of(server, &shards.results(shard)).await);
    }
    let keys: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(keys.len(), all.len(), "a frame has two results");
    keys
}

/// The entry ids of each stream's frames.
async fn frame_ids(server: &Server, producer: &Producer) -> BTreeMap<String, BTreeSet<String>> {
    let mut ids = BTreeMap::new();
    for camera in producer.next.keys() {
        let key = producer.key(camera);
        let mut range = redis::cmd("XRANGE");
        range.arg(&key).arg("-").arg("+");
        let entries: Vec<(String, redis::Value)> =
            range.query_async(&mut server.connect().await).await.unwrap();
        ids.insert(key, entries.into_iter().map(|(id, _)| id).collect());
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_delivered_again_has_one_result_under_its_id() {
    for layout in [Layout::Shard, Layout::Camera] {
        let server = Server::start(&[]).await;
        let config = config(&server, layout);
        let mut producer = Producer::new(&server, &config).await;
        producer.add(10, 4).await;
        let frames = frame_ids(&server, &producer).await;
        let running = Running::start(config.clone(), Arc::default());
        rig::until("all are read", async || running.cameras.counts().in_flight == 40).await;
        running.crash().await;

        let running = Running::start(config.clone(), rig::quick_models());
        running.settled().await;

        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for key in result_keys(&server, &config).await {
            let (frame, label) = Label::of_result(&key).unwrap();
            found.entry(producer.key(&label.camera)).or_default().insert(frame.to_owned());
        }
        assert_eq!(found, frames, "{layout:?}");
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_redis_lost_after_it_was_read_comes_again_under_its_key() {
    for layout in [Layout::Shard, Layout::Camera] {
        let mut server = Server::start(&[]).await;
        let config = config(&server, layout);
        let mut producer = Producer::new(&server, &config).await;
        producer.add(10, 4).await;
        // What a replica has that takes over: the frames, and none of their results.
        let _: () = redis::cmd("SAVE").query_async(&mut producer.connection).await.unwrap();
        let running = Running::start(config.clone(), rig::quick_models());
        running.settled().await;
        let read = result_keys(&server, &config).await;
        assert_eq!(read.len(), 40);

        server.kill();
        server.launch().await;
        // Frames of the same cameras and numbers, and yet others.
        Producer::new(&server, &config).await.add(10, 1).await;
        running.settled().await;

        let again = result_keys(&server, &config).await;
        assert!(again.is_superset(&read), "{layout:?}");
        assert_eq!(again.difference(&read).count(), 10, "{layout:?}");
        running.stop().await;
    }
}
