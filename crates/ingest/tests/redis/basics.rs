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
