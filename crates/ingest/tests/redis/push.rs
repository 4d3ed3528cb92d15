//! Frames that are pushed, with no Redis at all.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use paceline_ingest::{
    Answer, Cameras, Config, Data, Form, Frame, Keep, Payload, PushError, Reason, Rule, Source,
};
use tokio::task::JoinSet;

use crate::rig::{self, Running};

fn config() -> Config {
    Config { source: Source::Push, in_model: 8, ..rig::config("redis://nowhere.invalid") }
}

fn frame(camera: &str, number: u64) -> Frame {
    let data = Bytes::copy_from_slice(&number.to_le_bytes());
    let form = Form::Raw { dtype: None, shape: None };
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let taken_ms = u64::try_from(since.as_millis()).unwrap();
    let payload = Payload { form, data: Data::Inline(data) };
    Frame { camera: camera.to_owned(), seq: Some(number), taken_ms, payload }
}

/// Pushes a frame and says its number and what became of it.
async fn push(
    cameras: &Cameras,
    camera: String,
    number: u64,
) -> (String, u64, Result<u64, PushError>) {
    let answer = cameras.push(frame(&camera, number)).await;
    let number_in = |answer: Answer| match answer {
        Answer::Tensors { data, .. } => u64::from_le_bytes(data[..8].try_into().unwrap()),
        Answer::Json(json) => panic!("{json:?}"),
    };
    (camera, number, answer.map(number_in))
}

#[tokio::test(flavor = "multi_thread")]
async fn under_threefold_load_policies_hold_and_everybody_is_told() {
    let rule = |cameras: &str, keep| Rule { cameras: cameras.to_owned(), keep, max_age: None };
    let config = Config { policies: vec![rule("new-*", Keep::Latest)], push_frames: 5, ..config() };
    // At most 500 frames a second.
    let running = Running::start(config, rig::slow_models(8, 4));
    let mut pushes = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    for number in 0..50 {
        tick.tick().await;
        for camera in 0..30 {
            let kind = if camera % 2 == 0 { "all" } else { "new" };
            let (cameras, camera) = (running.cameras.clone(), format!("{kind}-{camera}"));
            pushes.spawn(async move { push(&cameras, camera, number).await });
        }
    }
    let mut answered: HashMap<String, u64> = HashMap::new();
    let (mut superseded, mut full) = (0, 0);
    while let Some(pushed) = pushes.join_next().await {
        let (camera, number, fate) = pushed.unwrap();
        match fate {
            Ok(found) => {
                assert_eq!(found, number, "the result of another frame");
                *answered.entry(camera).or_default() += 1;
            }
            Err(PushError::Dropped(Reason::Superseded)) => {
                assert!(camera.starts_with("new"));
                superseded += 1;
            }
            Err(PushError::Full(_)) => {
                assert!(camera.starts_with("all"));
                full += 1;
            }
            Err(error) => panic!("{camera}: {error}"),
        }
    }

    assert_eq!(answered.len(), 30, "no camera starves");
    assert_eq!(answered.values().sum::<u64>() + superseded + full, 1500);
    assert!(superseded > 100 && full > 100, "{superseded} {full}");
    let counts = running.stop().await.counts();
    assert!(counts.balances() && counts.in_flight == 0, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pushed_is_answered_before_it_stops_and_nothing_after() {
    let running = Running::start(config(), rig::slow_models(50, 4));
    let cameras = Arc::new(running.cameras.clone());
    let mut pushes = JoinSet::new();
    for number in 0..10 {
        let cameras = Arc::clone(&cameras);
        pushes.spawn(async move { push(&cameras, format!("cam-{number}"), number).await.2 });
    }
    rig::until("all are held", async || cameras.counts().taken == 10).await;

    let stopped = running.stop().await;

    for fate in pushes.join_all().await {
        assert!(fate.is_ok(), "{fate:?}");
    }
    assert_eq!(push(&cameras, "late".to_owned(), 0).await.2, Err(PushError::Closing));
    assert_eq!((stopped.counts().committed, stopped.held()), (10, (0, 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_is_refused_with_the_reason() {
    let config = Config { max_frame_bytes: 100, credit_bytes: 100, ..config() };
    let running = Running::start(config, rig::quick_models());
    let cameras = &running.cameras;
    let sized = |bytes: usize| {
        let mut frame = frame("cam", 0);
        frame.payload.data = Data::Inline(vec![0; bytes].into());
        frame
    };

    assert!(matches!(cameras.push(sized(101)).await, Err(PushError::TooLarge { actual: 101, .. })));
    let mut picture = sized(10);
    picture.payload.form = Form::Picture;
    let error = cameras.push(picture).await.unwrap_err().to_string();
    assert!(error.contains("takes no pictures"), "{error}");
    cameras.roster().pause("cam").unwrap();
    assert_eq!(cameras.push(sized(10)).await, Err(PushError::Dropped(Reason::Paused)));
    assert!(running.stop().await.counts().balances());
}
