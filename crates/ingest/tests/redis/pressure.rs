//! More frames than can be inferred, and long backlogs.

use std::time::Duration;

use paceline_ingest::{Config, Keep, Reason, Rule};
use tokio::time::Instant;

use crate::rig::{self, Producer, Running, Server};

/// At most 500 frames a second.
fn narrow_models() -> std::sync::Arc<paceline_pipeline::Models> {
    rig::slow_models(8, 4)
}

/// Adds 1500 frames a second for a second, of 30 cameras.
async fn overload(producer: &mut Producer) {
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..50 {
        tick.tick().await;
        producer.add(30, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_threefold_load_what_is_kept_is_kept_and_the_latest_stays_fresh() {
    let server = Server::start(&[]).await;
    let rule = |cameras: &str, keep, max_age| Rule { cameras: cameras.to_owned(), keep, max_age };
    let mut config = rig::config(&server.url());
    config.policies = vec![
        rule("cam-1?", Keep::Latest, None),
        rule("cam-2?", Keep::All, Some(Duration::from_millis(150))),
    ];
    config.in_model = 8;
    let mut producer = Producer::new(&server, &config).await;
    let running = Running::start(config.clone(), narrow_models());
    overload(&mut producer).await;

    let totals = running.settled().await;

    assert_eq!(totals.unaccounted(), 0, "{totals:?}");
    let found = rig::results(&server, &config).await;
    rig::assert_in_order(&found);
    let counts = running.cameras.counts();
    let dropped =
        |reason: Reason| counts.dropped[Reason::ALL.iter().position(|one| *one == reason).unwrap()];
    assert!(dropped(Reason::Superseded) > 50 && dropped(Reason::Stale) > 20, "{counts:?}");
    for camera in 0..10 {
        let kept = &found[&format!("cam-{camera}")];
        assert_eq!(*kept, (0..50).collect::<Vec<u64>>(), "cam-{camera} is kept whole");
        // Whoever keeps the latest always has the last one.
        assert_eq!(found[&format!("cam-1{camera}")].last(), Some(&49));
    }
    let cameras = running.stop().await;
    assert!(cameras.counts().balances(), "{:?}", cameras.counts());
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded_whatever_redis_holds() {
    let server = Server::start(&[]).await;
    let config = Config {
        credit_bytes: 400_000,
        reply_bytes: 100_000,
        readers: 2,
        ..rig::config(&server.url())
    };
    let mut producer = Producer::new(&server, &config).await;
    producer.bytes = 10_000;
    producer.add(30, 40).await;
    let running = Running::start(config.clone(), narrow_models());

    let mut most = 0;
    let began = Instant::now();
    while running.cameras.counts().committed < 1200 {
        most = most.max(running.cameras.held().0);
        assert!(began.elapsed() < rig::PATIENCE);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }

    // The first reply of each reader is asked for before it is known what frames weigh.
    assert!(most < 400_000 + 2 * 1_000_000, "{most} bytes were held at once");
    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.unaccounted()), (1200, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_loud_camera_does_not_silence_the_others() {
    let server = Server::start(&[]).await;
    let config = Config { shards: 1, readers: 1, in_model: 8, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    // 1000 frames of one camera lie before one frame each of nine others.
    producer.add(1, 1000).await;
    producer.add(10, 1).await;
    let running = Running::start(config.clone(), narrow_models());

    rig::until("the others have results", async || {
        rig::results(&server, &config).await.len() == 10
    })
    .await;

    let loud = rig::results(&server, &config).await["cam-0"].len();
    assert!(loud < 500, "{loud} of the loud camera came first");
    running.settled().await;
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_pending_frames_are_reclaimed_in_order() {
    let server = Server::start(&[]).await;
    let config = Config { credit_frames: 20_000, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1000, 100).await;
    let shards = config.shards();
    let mut connection = server.connect().await;
    for shard in shards.all() {
        let key = shards.frames(shard);
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(&key).arg("paceline").arg("0").arg("MKSTREAM");
        let _: () = create.query_async(&mut connection).await.unwrap();
        let mut take = redis::cmd("XREADGROUP");
        take.arg(&["GROUP", "paceline", "dead", "COUNT", "100000", "STREAMS", &key, ">"]);
        let _: redis::Value = take.query_async(&mut connection).await.unwrap();
    }
    producer.add(1000, 1).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.unaccounted()), (101_000, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    assert!(running.stop().await.counts().balances());
}
