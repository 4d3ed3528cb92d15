//! What the door does when nothing goes wrong.

use std::time::Duration;

use paceline_backend::{
    Backend, BackendError, Call, Outputs,
    simulated::{self, Simulated},
};
use paceline_ingest::{Config, Layout};
use paceline_types::{DType, Signature};

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
    config.discover = Duration::from_millis(200);
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

/// Takes four seconds for a call with a frame that begins with 7.
struct Slow(Simulated);

impl Backend for Slow {
    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        if call.inputs[0].data()[0] == 7 {
            std::thread::sleep(Duration::from_secs(4));
        }
        self.0.run(call)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_that_stops_finishes_what_it_read_and_gives_its_shards_back() {
    let server = Server::start(&[]).await;
    // It ends before the model does, unless it is renewed.
    let config = Config { lease: Duration::from_secs(3), ..rig::config(&server.url()) };
    let mut producer = Producer::new(&server, &config).await;
    let mut add = redis::cmd("XADD");
    add.arg(producer.key("cam-0")).arg("*").arg(&["c", "cam-0", "d"]).arg([7_u8; 32].as_slice());
    let _: String = add.query_async(&mut producer.connection).await.unwrap();
    let build = |_| {
        let settings = simulated::Settings { dtype: DType::U8, ..Default::default() };
        Ok(Box::new(Slow(Simulated::build(settings, 0).unwrap())) as Box<dyn Backend>)
    };
    let running = Running::start(config.clone(), rig::models_of(build, 64, None));
    rig::until("it is read", async || running.cameras.counts().in_flight == 1).await;

    let counts = running.stop().await.counts();

    assert_eq!((counts.committed, counts.returned, counts.in_flight), (1, 0, 0));
    let shards = config.shards();
    let leases: Vec<String> = shards.all().map(|shard| shards.lease(shard)).collect();
    let mut exist = redis::cmd("EXISTS");
    exist.arg(leases).arg(shards.nodes());
    let left: u64 = exist.query_async(&mut producer.connection).await.unwrap();
    assert_eq!(left, 0, "nobody waits for them");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_waits_for_frames_is_not_late() {
    let server = Server::start(&[]).await;
    let timeout = Duration::from_millis(300);
    let config = Config { timeout, shards: 1, readers: 1, ..rig::config(&server.url()) };
    let running = Running::start(config, rig::quick_models());
    let mut connection = server.connect().await;
    let mut n_reads = async || -> u64 {
        let mut info = redis::cmd("INFO");
        let stats: String = info.arg("commandstats").query_async(&mut connection).await.unwrap();
        let reads = stats.lines().find_map(|line| line.strip_prefix("cmdstat_xreadgroup:calls="));
        reads.map_or(0, |reads| reads.split(',').next().unwrap().parse().unwrap())
    };

    // After a few it waits a quarter of a second each time.
    rig::until("it waits again and again", async || 14 <= n_reads().await).await;

    assert_eq!(running.cameras.health().n_faults, 0);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_whose_frames_never_finish_stops_all_the_same() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    Producer::new(&server, &config).await.add(1, 1).await;
    // There is no model.
    let running = Running::start(config, std::sync::Arc::default());
    rig::until("it is read", async || running.cameras.counts().in_flight == 1).await;

    let counts = running.stop().await.counts();

    assert_eq!((counts.returned, counts.in_flight), (1, 0), "it is left to the next");
}
