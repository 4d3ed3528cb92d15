//! Frames that cannot be used.

use std::time::Duration;

use paceline_backend::{
    Backend, BackendError, Call, Outputs,
    simulated::{self, Simulated},
};
use paceline_types::{DType, Signature};
use redis::aio::MultiplexedConnection;

use crate::rig::{self, Producer, Running, Server};

async fn add(connection: &mut MultiplexedConnection, key: &str, fields: &[(&str, &[u8])]) {
    let mut add = redis::cmd("XADD");
    add.arg(key).arg("*");
    for (name, value) in fields {
        add.arg(name).arg(value);
    }
    let _: String = add.query_async(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_frame_goes_to_the_dead_letters_and_the_others_do_not_notice() {
    let server = Server::start(&[]).await;
    let config = paceline_ingest::Config { max_frame_bytes: 1000, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(10, 5).await;
    let key = producer.key("cam-0");
    let mut connection = server.connect().await;
    add(&mut connection, &key, &[("nonsense", b"\xff\x00")]).await;
    add(&mut connection, &key, &[("c", b"cam-0")]).await;
    add(&mut connection, &key, &[("c", b"cam-0"), ("d", b"x"), ("f", b"gif")]).await;
    add(&mut connection, &key, &[("c", b"cam-0"), ("d", b"x"), ("f", b"jpeg")]).await;
    add(&mut connection, &key, &[("c", b"cam-0"), ("d", b"xyz"), ("s", b"1,2")]).await;
    add(&mut connection, &key, &[("c", b"cam-0"), ("d", b"xyzw"), ("y", b"FP32")]).await;
    add(&mut connection, &key, &[("c", b"cam-0"), ("d", &[0; 1001])]).await;
    add(&mut connection, &key, &[("c", b"of another shard"), ("d", b"x")]).await;
    let many: Vec<(&str, &[u8])> = (0..2000).map(|_| ("x", &b"y"[..])).collect();
    add(&mut connection, &key, &many).await;
    producer.add(10, 5).await;

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.dead, totals.committed, totals.unaccounted()), (9, 100, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    let letters = running.cameras.dead_letters(100).await.unwrap();
    let reasons: Vec<&str> = letters.iter().map(|letter| &*letter.reason).collect();
    let expected = [
        "`c`, the camera, is missing",
        "field `d`, the payload",
        "raw, jpeg or png",
        "takes no pictures",
        "takes 2 bytes, but 3 were given",
        "`INPUT` is UINT8, but FP32 was given",
        "1001 bytes; at most 1000",
        "does not belong into this stream",
        "`c`, the camera, is missing",
    ];
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for expected in expected {
        assert!(reasons.iter().any(|reason| reason.contains(expected)), "{expected}: {reasons:?}");
    }
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_keeps_failing_is_given_up_and_can_be_replayed() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(20, 5).await;
    // About one frame in thirty fails three times in a row.
    let settings = simulated::Settings { failure_rate: 0.3, seed: 1, ..Default::default() };
    let config = paceline_ingest::Config { max_tries: 3, ..config };
    let running = Running::start(config.clone(), rig::models(settings, 16));
    let totals = running.settled().await;
    running.stop().await;

    assert!(0 < totals.dead && totals.dead < 20, "{totals:?}");
    assert_eq!((totals.committed + totals.dead, totals.unaccounted()), (100, 0));
    rig::assert_in_order(&rig::results(&server, &config).await);

    let running = Running::start(config.clone(), rig::quick_models());
    for letter in running.cameras.dead_letters(100).await.unwrap() {
        assert_eq!(letter.tries, 3);
        assert!(running.cameras.replay(&letter).await.unwrap().is_some());
        assert_eq!(running.cameras.replay(&letter).await.unwrap(), None, "only once");
    }
    let after = running.settled().await;
    assert_eq!((after.committed, after.replayed, after.unaccounted()), (100, totals.dead, 0));
    assert!(running.cameras.dead_letters(100).await.unwrap().is_empty());
    running.stop().await;
}

/// Crashes in a call where a frame in it begins with 255, so that nobody looks which one it was.
struct Picky(Simulated);

impl Backend for Picky {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        let outputs = self.0.run(call)?;
        let frames = call.inputs[0].data();
        if frames.chunks(frames.len() / call.rows).any(|frame| frame[0] == 255) {
            return Err(BackendError::Crashed("poison".to_owned()));
        }
        Ok(outputs)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_fails_every_call_takes_no_other_with_it() {
    let server = Server::start(&[]).await;
    let config = paceline_ingest::Config { shards: 1, readers: 1, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    let key = producer.key("cam-0");
    // The first is asked alone, and then all others together.
    producer.add_some(0..10).await;
    add(&mut server.connect().await, &key, &[("c", b"poison"), ("d", &[255; 32])]).await;
    producer.add_some(10..20).await;
    let build = |_| {
        let delay = Duration::from_millis(5);
        let settings = simulated::Settings { dtype: DType::U8, delay, ..Default::default() };
        let model = Simulated::build(settings, 0).unwrap();
        Ok(Box::new(Picky(model)) as Box<dyn Backend>)
    };
    let running = Running::start(config.clone(), rig::models_of(build, 64, None));

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.dead, totals.unaccounted()), (20, 1, 0));
    let letters = running.cameras.dead_letters(10).await.unwrap();
    assert_eq!(letters[0].camera.as_deref(), Some("poison"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn panics_of_the_model_cost_no_frame() {
    let server = Server::start(&[]).await;
    let config = paceline_ingest::Config { max_tries: 50, ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    producer.add(20, 5).await;
    let settings = simulated::Settings { panic_rate: 0.1, seed: 11, ..Default::default() };
    let running = Running::start(config.clone(), rig::models(settings, 8));

    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.dead, totals.unaccounted()), (100, 0, 0));
    rig::assert_all_once_in_order(&server, &config, &producer).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_under_which_nodes_keep_dying_is_given_up() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(1, 3).await;
    let key = producer.key("cam-0");
    let mut connection = server.connect().await;
    let mut redis = async |command: &[&str]| -> redis::Value {
        let mut cmd = redis::cmd(command[0]);
        cmd.arg(&command[1..]).query_async(&mut connection).await.unwrap()
    };
    redis(&["XGROUP", "CREATE", &key, "paceline", "0"]).await;
    // The first frame was taken five times, each time by somebody who died.
    redis(&["XREADGROUP", "GROUP", "paceline", "dead", "COUNT", "1", "STREAMS", &key, ">"]).await;
    for _ in 0..4 {
        redis(&["XREADGROUP", "GROUP", "paceline", "dead", "STREAMS", &key, "0"]).await;
    }

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.dead, totals.unaccounted()), (2, 1, 0));
    let letters = running.cameras.dead_letters(10).await.unwrap();
    assert_eq!(letters[0].reason, "delivered 5 times without a result");
    assert_eq!(running.cameras.purge(&letters).await.unwrap(), 1);
    assert_eq!(running.cameras.purge(&letters).await.unwrap(), 0, "it is gone");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_wait_for_a_model_that_is_away() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = Producer::new(&server, &config).await;
    producer.add(10, 3).await;
    let model = rig::quick_models().find("sim", None).unwrap();
    let models = std::sync::Arc::<paceline_pipeline::Models>::default();
    let running = Running::start(config.clone(), std::sync::Arc::clone(&models));
    rig::until("it says so", async || !running.cameras.health().has_model).await;

    tokio::time::sleep(Duration::from_millis(100)).await;
    models.replace("sim", vec![model]);

    let totals = running.settled().await;
    assert_eq!((totals.committed, totals.dead, totals.unaccounted()), (30, 0, 0));
    assert!(running.cameras.health().has_model);
    running.stop().await;
}
