//! Cameras as other doors steer them.

use std::sync::Arc;

use paceline_ingest::{Config, Layout, Source};
use paceline_pipeline::{CameraControl, PushedFrame, PushedResult};
use paceline_types::ErrorCode;

use crate::rig::{self, Producer, Running, Server};

fn pushed(camera: &str, is_picture: bool) -> PushedFrame {
    let (camera, data) = (camera.to_owned(), b"abc".as_slice().into());
    PushedFrame { camera, taken_ms: None, is_picture, data }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_pushed_has_its_result_or_why_it_has_none() {
    let config = Config { source: Source::Push, ..rig::config("redis://nowhere.invalid") };
    let running = Running::start(config, rig::quick_models());
    let control: &dyn CameraControl = &running.cameras;

    let result = control.push(pushed("cam", false)).await.unwrap();
    assert!(matches!(result, PushedResult::Tensors { data, .. } if *data == *b"abc"));
    let error = control.push(pushed("", false)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidInput);
    let error = control.push(pushed("cam", true)).await.unwrap_err();
    assert!(error.message.contains("takes no pictures"), "{error:?}");
    assert_eq!(error.code, ErrorCode::InvalidInput);
    let camera = control.find("cam").unwrap();
    assert_eq!(camera.frames, 2);
    assert!(control.dead_letters(10).await.unwrap().is_empty(), "nothing of it is kept");
    let snapshot = control.snapshot();
    assert!(snapshot.is_up && snapshot.has_model);
    assert_eq!((snapshot.frames_in, snapshot.committed, snapshot.dead_lettered), (2, 1, 1));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_listed_and_replayed_by_its_name() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    let key = producer.key("cam-0");
    let mut add = redis::cmd("XADD");
    add.arg(&key).arg("*").arg(&["c", "cam-0", "f", "jpeg", "d", "xyz"]);
    let id: String = add.query_async(&mut producer.connection).await.unwrap();
    let running = Running::start(config.clone(), rig::quick_models());
    running.settled().await;
    let control: &dyn CameraControl = &running.cameras;

    let letters = control.dead_letters(10).await.unwrap();
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.camera.as_deref(), &*letter.stream), (Some("cam-0"), &*key));
    assert_eq!((&*letter.frame, letter.tries, letter.bytes), (&*id, 1, 1 + 5 + 1 + 4 + 1 + 3));
    assert!(letter.reason.contains("takes no pictures"), "{letter:?}");
    let name = &letter.id;
    assert_eq!(control.replay("nonsense").await.unwrap_err().code, ErrorCode::InvalidInput);
    assert!(!control.replay("s999:1-0").await.unwrap(), "there is no such shard");
    assert!(control.replay(name).await.unwrap());
    assert!(!control.replay(name).await.unwrap(), "it is gone");
    let totals = running.settled().await;
    assert_eq!((totals.dead, totals.replayed, totals.unaccounted()), (2, 1, 0));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_say_what_was_done_and_how_it_is() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(5, 4).await;
    let running = Running::start(config.clone(), rig::quick_models());
    running.settled().await;
    let control: &dyn CameraControl = &running.cameras;

    rig::until("all shards are its own", async || control.snapshot().shards == 16).await;
    let snapshot = control.snapshot();
    assert_eq!((snapshot.frames_in, snapshot.committed, snapshot.in_flight), (20, 20, 0));
    assert_eq!(snapshot.nodes, ["node-1"]);
    assert_eq!(snapshot.latency.n(), 20);
    assert!(0 < snapshot.commit_time.n() && snapshot.commit_time.n() <= 20);
    assert!(snapshot.is_up && snapshot.has_model && !snapshot.is_circuit_open);
    // It has no append-only file.
    assert_eq!((snapshot.warnings.len(), snapshot.resets, snapshot.problem), (1, 0, None));
    let camera = control.find("cam-0").unwrap();
    assert_eq!((camera.frames, camera.results), (4, 4));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_no_credit_for_is_counted_as_unread() {
    for layout in [Layout::Shard, Layout::Camera] {
        let server = Server::start(&[]).await;
        let config = Config {
            layout,
            cameras: vec!["cam-0".to_owned()],
            credit_frames: 8,
            shards: 1,
            readers: 1,
            ..rig::config(&server.url())
        };
        Producer::new(&server, &config).await.add(1, 20).await;
        // Without a model nothing is settled.
        let running = Running::start(config, Arc::default());

        rig::until("some are read and the others counted", async || {
            let snapshot = running.cameras.snapshot();
            let (read, unread) = (snapshot.in_flight, snapshot.unread);
            0 < read && read < 20 && read + unread == 20
        })
        .await;
        running.crash().await;
    }
}
