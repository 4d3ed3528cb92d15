//! Pictures, and frames in memory that the producer shares.

use std::{collections::HashMap, io::Cursor};

use image::{ImageFormat, Rgb, RgbImage};
use paceline_backend::simulated;
use paceline_frames::{Format, NewFrame, Placement, Producer, Ring};
use paceline_ingest::{Config, Reason};
use paceline_pipeline::adapt::{Picture, PictureSettings};
use redis::Value;

use crate::rig::{self, Process, Running, Server};

fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let pixels = RgbImage::from_pixel(width, height, Rgb([200, 100, 0]));
    pixels.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// A model of pictures of 8 x 4 pixels.
fn models() -> std::sync::Arc<paceline_pipeline::Models> {
    let settings: PictureSettings =
        serde_json::from_str(r#"{"width": 8, "height": 4, "layout": "flat", "elements": "UINT8"}"#)
            .unwrap();
    let adapter = Picture::build(settings).unwrap();
    rig::models_with(simulated::Settings::default(), 16, Some(Box::new(adapter)))
}

async fn producer(server: &Server, config: &Config) -> Producer {
    let redis = rig::config(&server.url()).address().unwrap();
    Producer::connect(&redis, Placement::Shards(config.shards())).await.unwrap()
}

fn frame(camera: &str, number: u64, format: Format, data: &[u8]) -> NewFrame<'static> {
    let (camera, data) = (camera.to_owned().leak(), data.to_vec().leak());
    NewFrame { camera, number, taken_ms: 1, format, data }
}

async fn send(producer: &mut Producer, frames: &[NewFrame<'_>]) {
    for frame in frames {
        producer.add(frame).unwrap();
    }
    assert!(producer.flush().await.unwrap().iter().all(Option::is_none));
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_become_tensors_and_what_is_none_goes_to_the_dead_letters() {
    let server = Server::start(&[]).await;
    let config = rig::config(&server.url());
    let mut producer = producer(&server, &config).await;
    let mut huge = picture(8, 8, ImageFormat::Jpeg);
    let size = huge.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    huge[size + 5..size + 9].copy_from_slice(&[0x4e, 0x20, 0x4e, 0x20]);
    let whole = picture(40, 30, ImageFormat::Jpeg);
    send(
        &mut producer,
        &[
            frame("cam-0", 0, Format::Jpeg, &whole),
            frame("cam-0", 1, Format::Png, &picture(3, 3, ImageFormat::Png)),
            frame("cam-0", 2, Format::Jpeg, &huge),
            frame("cam-0", 3, Format::Jpeg, &whole[..100]),
            frame("cam-0", 4, Format::Png, b""),
            frame("cam-0", 5, Format::Jpeg, &picture(8, 4, ImageFormat::Jpeg)),
        ],
    )
    .await;

    let running = Running::start(config.clone(), models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.dead, totals.unaccounted()), (3, 3, 0));
    let shards = config.shards();
    let key = shards.results(shards.of("cam-0"));
    let mut connection = server.connect().await;
    let mut range = redis::cmd("XRANGE");
    range.arg(&key).arg("-").arg("+");
    let results: Vec<(String, HashMap<String, Value>)> =
        range.query_async(&mut connection).await.unwrap();
    for (_, mut fields) in results {
        fields.remove("k").unwrap();
        let (outputs, data) = fields.into_iter().next().unwrap();
        let data: Vec<u8> = redis::from_redis_value(data).unwrap();
        assert!(outputs.contains("[1,96]"), "{outputs}");
        // Red, green and blue, one after the other.
        let plane = |at: usize| i32::from(data[at * 32 + 5]);
        for (at, expected) in [(0, 200), (1, 100), (2, 0)] {
            assert!((plane(at) - expected).abs() < 6, "{data:?}");
        }
    }
    let reasons = running.cameras.dead_letters(10).await.unwrap();
    assert!(reasons.iter().any(|letter| letter.reason.contains("20000 x 20000")), "{reasons:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_in_shared_memory_have_results_or_are_dropped_as_overwritten() {
    let server = Server::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        ring_folder: folder.path().to_owned(),
        // Held frames weigh what they will weigh once they are copied.
        credit_bytes: 200_000,
        reply_bytes: 50_000,
        ..rig::config(&server.url())
    };
    let mut producer = producer(&server, &config).await;
    producer.use_ring(folder.path(), 1000, 60).unwrap();
    let payload =
        |number: u64| -> Vec<u8> { number.to_le_bytes().into_iter().cycle().take(1000).collect() };
    // The first forty are written over before anybody reads them.
    for number in 0..100 {
        send(&mut producer, &[frame("cam-0", number, Format::Raw, &payload(number))]).await;
    }
    let mut connection = server.connect().await;
    let shards = config.shards();
    let mut add = redis::cmd("XADD");
    add.arg(shards.frames(shards.of("cam-0"))).arg("*");
    add.arg(&["c", "cam-0", "h", "of-another-machine:0:1:8"]);
    let _: String = add.query_async(&mut connection).await.unwrap();

    let running = Running::start(config.clone(), rig::quick_models());
    let totals = running.settled().await;

    assert_eq!((totals.committed, totals.dead, totals.unaccounted()), (60, 1, 0));
    let at = Reason::ALL.iter().position(|reason| *reason == Reason::Overwritten).unwrap();
    assert_eq!(totals.dropped[at], 40);
    let found = rig::results(&server, &config).await;
    assert_eq!(found["cam-0"], (40..100).collect::<Vec<u64>>());
    let letters = running.cameras.dead_letters(10).await.unwrap();
    assert!(letters[0].reason.contains("not on this machine"), "{letters:?}");
    assert!(running.stop().await.counts().balances());
}

/// Not a test: a producer that the test below runs as a process of its own, until it is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "what another test starts"]
async fn producer_process() {
    let Some(config) = Process::settings() else { return };
    let placement = Placement::Shards(config.shards());
    let redis = config.address().unwrap();
    let mut producer = Producer::connect(&redis, placement).await.unwrap();
    producer.use_ring(&config.ring_folder, 4000, 50).unwrap();
    for number in 0.. {
        let payload: Vec<u8> = u64::to_le_bytes(number).into_iter().cycle().take(4000).collect();
        let frames: Vec<_> = (0..5)
            .map(|camera| frame(&format!("cam-{camera}"), number, Format::Raw, &payload))
            .collect();
        send(&mut producer, &frames).await;
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_dies_costs_no_frame_that_it_announced() {
    let server = Server::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let config = Config { ring_folder: folder.path().to_owned(), ..rig::config(&server.url()) };
    let running = Running::start(config.clone(), rig::quick_models());
    for round in 1..=3_u64 {
        let mut producer = Process::start("payloads::producer_process", &config);
        rig::until("frames come", async || running.cameras.counts().committed > 200 * round).await;
        producer.kill();
    }

    let totals = running.settled().await;

    assert_eq!((totals.dead, totals.lost, totals.unaccounted()), (0, 0, 0), "{totals:?}");
    // Each result is the answer to the frame it says, which `results` looks at.
    assert!(rig::results(&server, &config).await.values().map(Vec::len).sum::<usize>() > 600);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        3,
        "their rings stay for a while"
    );
    let mut another = Ring::create(folder.path(), "next", 10, 1).unwrap();
    another.write(b"x").unwrap();
    assert!(running.stop().await.counts().balances());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ring_that_nobody_writes_any_more_is_removed() {
    let server = Server::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    drop(Ring::create(folder.path(), "dead", 10, 1).unwrap());
    let path = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(2);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(hours_ago).unwrap();
    let config = Config { ring_folder: folder.path().to_owned(), ..rig::config(&server.url()) };
    let running = Running::start(config, rig::quick_models());

    rig::until("it is gone", async || !path.exists()).await;
    running.stop().await;
}
