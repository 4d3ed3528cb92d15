//! What the door does when nothing goes wrong.

use paceline_ingest::Layout;

use crate::rig::{self, Producer, Running, Server};

#[tokio::test(flavor = "multi_thread")]
async fn every_frame_has_one_result_in_order() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(50, 4).await;
    let running = Running::start(config.clone(), rig::quick_models());
    producer.add(50, 20).await;

    let totals = running.settled().await;

    assert_eq!(totals.committed, producer.added());
    assert_eq!(totals.unaccounted(), 0);
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    let cameras = running.stop().await;
    assert!(cameras.counts().balances(), "{:?}", cameras.counts());
    assert_eq!(cameras.held(), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_per_camera_are_found_and_read() {
    let server = Server::start(&[]).await;
    let mut config = rig::config(&server.url());
    config.layout = Layout::Camera;
    config.discover = std::time::Duration::from_millis(200);
    let mut producer = Producer::new(&server, &config).await;
    producer.add(30, 5).await;
    let running = Running::start(config.clone(), rig::quick_models());
    producer.add(60, 5).await;
    rig::until("all are found", async || running.cameras.roster().list().len() == 60).await;

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cameras_come_go_and_pause_while_it_runs() {
    let server = Server::start(&[]).await;
    let mut config = rig::config(&server.url());
    config.layout = Layout::Camera;
    config.cameras = vec!["cam-0".to_owned(), "cam-1".to_owned()];
    let mut producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), rig::quick_models());
    let roster = running.cameras.roster();
    roster.pause("cam-1").unwrap();
    producer.add(3, 5).await;
    let count =
        async |camera: &str| rig::results(&server, &config).await.get(camera).map_or(0, Vec::len);

    rig::until("the first is done", async || count("cam-0").await == 5).await;
    assert_eq!((count("cam-1").await, count("cam-2").await), (0, 0));
    roster.resume("cam-1").unwrap();
    roster.add("cam-2").unwrap();
    rig::until("all are done", async || count("cam-1").await == 5 && count("cam-2").await == 5)
        .await;
    let done = roster.reconcile(&["cam-2".to_owned(), "cam-3".to_owned()]).unwrap();
    assert_eq!((done.added.len(), done.removed.len(), done.unchanged), (1, 2, 1));
    producer.add(4, 5).await;
    rig::until("the listed are done", async || {
        count("cam-2").await == 10 && count("cam-3").await == 5
    })
    .await;

    assert_eq!((count("cam-0").await, count("cam-1").await), (5, 5), "the others wait");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_shard_streams_a_paused_camera_is_dropped_and_counted() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), rig::quick_models());
    running.cameras.roster().pause("cam-0").unwrap();
    running.cameras.roster().remove("cam-1").unwrap();
    producer.add(3, 5).await;

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.all_dropped(), totals.unaccounted()), (5, 10, 0));
    let found = rig::results(&server, &config).await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["cam-2"]);
    running.stop().await;
}
