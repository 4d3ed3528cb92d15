//! What it costs. Ignored by default: `cargo test --release -p paceline-ingest --test redis -- \
//! --ignored --nocapture measure`, on a machine that does nothing else.

use std::time::Duration;

use paceline_backend::simulated;
use paceline_ingest::Layout;
use tokio::time::Instant;

use crate::rig::{self, Producer, Running, Server};

/// 1000 cameras, 10,000 frames a second of 200 bytes, a model of 2 ms and 0.02 ms per frame.
async fn cost(layout: Layout, shards: u16) {
    let server = Server::start(&[]).await;
    let mut config = rig::config(&server.url());
    config.shards = shards;
    config.layout = layout;
    config.lease = Duration::from_secs(5);
    config.keep_results = 1000;
    if layout == Layout::Camera {
        config.cameras = (0..1000).map(|camera| format!("cam-{camera}")).collect();
    }
    let curve = simulated::Settings { curve: vec![(1, 2.02), (64, 3.28)], ..Default::default() };
    let running = Running::start(config.clone(), rig::models(curve, 64));
    let mut producer = Producer::new(&server, &config).await;
    producer.bytes = 200;
    producer.add(1000, 1).await;
    running.settled().await;
    let seconds = 8;
    let (cpu, began, own) = (server.cpu_us().await, Instant::now(), own_cpu_us());
    // 100 cameras every 10 ms.
    let mut tick = tokio::time::interval(Duration::from_millis(10));
    for round in 0..seconds * 100 {
        tick.tick().await;
        producer.add_some((round % 10) * 100..(round % 10) * 100 + 100).await;
    }
    let totals = running.settled().await;
    let frames = producer.added() - 1000;
    let took = began.elapsed().as_secs_f64();
    let per_frame = |us: u64| us as f64 / frames as f64;
    println!(
        "{layout:?}, {shards} shards: {frames} frames in {took:.1} s, {:.1} us of Redis per frame, {:.1} us of this \
         process (producer, model and door) per frame",
        per_frame(server.cpu_us().await - cpu),
        per_frame(own_cpu_us() - own),
    );
    assert_eq!((totals.committed, totals.unaccounted()), (producer.added(), 0));
    let mut connection = server.connect().await;
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    for line in stats.lines().filter(|line| !line.contains("config") && line.contains("usec=")) {
        println!("  {line}");
    }
    running.stop().await;
}

fn own_cpu_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // In ticks of 10 ms.
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10_000
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn measure_shard_streams() {
    cost(Layout::Shard, 256).await;
    cost(Layout::Shard, 32).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn measure_camera_streams() {
    cost(Layout::Camera, 256).await;
}
