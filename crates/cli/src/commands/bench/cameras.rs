//! `paceline bench cameras`: frames of many cameras through Redis and a server, end to end.
//!
//! Redis, the server, the simulated cameras and the judge share this machine. A frame's latency is
//! from when it was due until its result stood in Redis, by one clock. Afterwards the same frames are
//! read as an older system did, and by one task for each camera, for comparison.

mod baseline;
mod report;

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Args;
use paceline_frames::{Address, TlsFiles};
use paceline_load::{
    Search,
    cameras::{Judge, RedisServer},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use self::report::{Found, Report, table};
use super::{own_server::OwnServer, process::Usage};
use crate::{
    args::ConfigArgs,
    commands::feed::{FrameArgs, LayoutArg, PayloadArg, drain},
};

/// What is fed before anything is measured.
const WARM_UP: Duration = Duration::from_secs(2);
/// How often results are read: seldom, since Redis's time for it counts.
const LOOK: Duration = Duration::from_secs(1);
/// Seconds for which a shard keeps results, and the fewest that it keeps: some have more cameras than
/// others.
const KEEP: (f64, f64) = (8.0, 2000.0);
/// What a rate must keep to count as held.
const P99_MS: f64 = 50.0;
/// Results of larger frames are as small as a detector's; those of smaller ones are their frames, so
/// that each can be checked.
const LARGEST_ECHO: usize = 1024;

/// Feed frames of simulated cameras through Redis and a server, and judge the results.
///
/// Without --redis a redis-server of its own is started, without --url a server of its own, with a
/// simulated model that takes 2 ms and 0.02 ms for each frame, 64 at most.
#[derive(Debug, Clone, Args)]
pub(crate) struct CamerasArgs {
    /// How long it is measured
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// A running Redis or Valkey
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// A running server that reads from that Redis
    #[arg(long, value_name = "URL", requires = "redis")]
    url: Option<String>,
    /// Look for the highest rate that is held, with p99 under 50 ms and nothing lost
    #[arg(long, conflicts_with_all = ["redis", "url"])]
    find_max: bool,
    /// Measure with each of these numbers of cameras, one after the other, instead of --cameras
    #[arg(long, value_name = "N,N...", value_delimiter = ',', conflicts_with = "find_max",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    each_cameras: Vec<u32>,
    /// Measure with each of these payloads, one after the other, instead of --payload
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "find_max")]
    each_payload: Vec<PayloadArg>,
    /// Do not measure the other ways of reading
    #[arg(long)]
    no_baseline: bool,
    /// The redis-server to start
    #[arg(
        long,
        value_name = "PROGRAM",
        env = "PACELINE_REDIS_SERVER",
        default_value = "redis-server"
    )]
    redis_server: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Only read as an older system did, with so many tasks, and take frames away
    #[arg(long, hide = true, value_name = "TASKS", requires = "redis")]
    read_as_seed: Option<u32>,
    #[command(flatten)]
    frames: FrameArgs,
    #[command(flatten, next_help_heading = "The server that is started without --url")]
    config: ConfigArgs,
}

pub(super) fn run(args: &CamerasArgs) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("no runtime")?.block_on(async {
        if let (Some(tasks), Some(redis)) = (args.read_as_seed, &args.redis) {
            return baseline::read(redis, &args.frames, tasks).await;
        }
        if args.find_max {
            let found = find_max(args).await?;
            return if args.json { in_json(&found) } else { Ok(found.text()) };
        }
        let mut reports = Vec::new();
        for frames in each(args) {
            reports.push(measure(args, &frames).await?);
        }
        match &*reports {
            _ if !args.json => Ok(table(&reports)),
            [only] => in_json(only),
            several => in_json(&several),
        }
    })
}

fn in_json(found: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(found)? + "\n")
}

/// The frames of each run.
fn each(args: &CamerasArgs) -> Vec<FrameArgs> {
    let (cameras, payloads) = ([args.frames.cameras], [args.frames.payload]);
    let cameras = if args.each_cameras.is_empty() { &cameras } else { &*args.each_cameras };
    let payloads = if args.each_payload.is_empty() { &payloads } else { &*args.each_payload };
    let mut each = Vec::new();
    for &payload in payloads {
        each.extend(cameras.iter().map(|&cameras| FrameArgs {
            cameras,
            payload,
            ..args.frames.clone()
        }));
    }
    each
}

/// Whether results are their frames.
fn echoes(frames: &FrameArgs) -> bool {
    frames.echoes() && frames.size <= LARGEST_ECHO
}

/// One run, with servers of its own where none are given.
async fn measure(args: &CamerasArgs, frames: &FrameArgs) -> anyhow::Result<Report> {
    let missing = || format!("{} does not start", args.redis_server.display());
    let own_redis = if args.redis.is_some() {
        None
    } else {
        Some(RedisServer::start(&args.redis_server).await.with_context(missing)?)
    };
    let redis = own_redis.as_ref().map(|own| &own.url).or(args.redis.as_ref());
    let redis = redis.context("no Redis")?.clone();
    let server = match &args.url {
        Some(_) => None,
        None => Some(OwnServer::start(&args.config, Some(&configuration(frames, &redis))).await?),
    };
    let mut report = judged(frames, &redis, args.seconds, server.as_ref()).await?;
    drop(server);
    if own_redis.is_some() && !args.no_baseline && !args.find_max {
        let time = Duration::from_secs(args.seconds.min(10));
        report.seed_style = Some(baseline::measure(&redis, frames, 32, time).await?);
        report.one_task_per_camera =
            Some(baseline::measure(&redis, frames, frames.cameras, time).await?);
    }
    Ok(report)
}

async fn judged(
    frames: &FrameArgs,
    redis: &str,
    seconds: u64,
    server: Option<&OwnServer>,
) -> anyhow::Result<Report> {
    let address = Address::new(redis, &TlsFiles::default())?;
    let mut cameras = frames.feed(&address).await?;
    let mut judge = Judge::connect(&address, &frames.shards(), echoes(frames)).await?;
    let usage = || server.map(|server| Usage::of(&server.pid()));
    let warm = cameras.run(WARM_UP).await?.all();
    judge.time_from(paceline_load::cameras::now_ms());
    let before = (RedisServer::cpu_seconds(redis).await?, usage());
    let began = Instant::now();
    // The cameras have a task of their own, so that whoever reads results delays no frame.
    let mut feeding = JoinSet::new();
    feeding.spawn(async move {
        let fed = cameras.run(Duration::from_secs(seconds)).await;
        // Their ring must outlast what waits in it.
        fed.cloned().map(|fed| (fed, cameras))
    });
    let (fed, _cameras) = loop {
        tokio::select! {
            Some(fed) = feeding.join_next() => break fed.context("the cameras ended badly")??,
            () = sleep(LOOK) => {
                judge.look().await?;
            }
        }
    };
    let ended = drain(&mut judge, &fed).await?;
    let took = began.elapsed().as_secs_f64();
    let after = (RedisServer::cpu_seconds(redis).await?, usage());
    let seen = judge.seen().await?;
    let measured = Report::count(fed.all() - warm);
    let server = before.1.zip(after.1);
    let per_frame = |used: f64| used / measured;
    let latency = |share| Report::count(seen.latency_ms.value_at_quantile(share));
    Ok(Report {
        cameras: frames.cameras,
        payload: frames.payload.name(),
        rate: frames.rate,
        frames_in: fed.all(),
        committed: seen.results,
        dropped: seen.dropped(),
        dead_lettered: seen.dead_lettered(),
        lost: fed.all().saturating_sub(ended),
        duplicated: seen.duplicated,
        reordered: seen.reordered,
        wrong: seen.wrong,
        refused: fed.refused.0,
        fps: measured / took,
        p50_ms: latency(0.5),
        p99_ms: latency(0.99),
        max_ms: latency(1.0),
        sent_late_ms: fed.latest.as_secs_f64() * 1e3,
        redis_cpu_us_per_frame: per_frame((after.0 - before.0) * 1e6),
        server_cpu_us_per_frame: server.map(|(a, b)| per_frame((b.cpu_s - a.cpu_s) * 1e6)),
        rss_begin_mb: before.1.map(|usage| usage.rss_mb),
        rss_mb: after.1.map(|usage| usage.rss_mb),
        context_switches_per_frame: server.map(|(a, b)| per_frame(b.switches - a.switches)),
        seed_style: None,
        one_task_per_camera: None,
    })
}

/// The highest rate that is held.
async fn find_max(args: &CamerasArgs) -> anyhow::Result<Found> {
    let mut search = Search::new(args.frames.rate);
    let mut runs: Vec<Report> = Vec::new();
    while let Some(rate) = search.next() {
        let report = measure(args, &FrameArgs { rate, ..args.frames.clone() }).await?;
        search.learn(report.is_held(P99_MS));
        runs.push(report);
    }
    runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    Ok(Found { highest_rate: search.found(), runs })
}

/// A server that reads these frames.
fn configuration(frames: &FrameArgs, redis: &str) -> String {
    let layout = match frames.layout {
        LayoutArg::Shard => "shard",
        LayoutArg::Camera => "camera",
    };
    let picture = match frames.payload {
        PayloadArg::Jpeg | PayloadArg::Png => {
            "picture = { width = 64, height = 64, layout = \"flat\", elements = \"UINT8\" }\n"
        }
        PayloadArg::Raw | PayloadArg::Handle => "",
    };
    let answer = if echoes(frames) { "identity" } else { "count" };
    let (prefix, key, shards) = (&frames.prefix, &frames.camera_key, frames.shards);
    let keep = (KEEP.0 * frames.rate / f64::from(shards.get())).max(KEEP.1).ceil();
    let ring = match frames.payload {
        PayloadArg::Handle => {
            format!("ring_folder = {:?}\n", frames.ring_folder.display().to_string())
        }
        _ => String::new(),
    };
    format!(
        "[server]\nmodel_repository = \"none\"\n\
         [cameras]\nurl = {redis:?}\nmodel = \"frames\"\nlayout = \"{layout}\"\nprefix = {prefix:?}\n\
         camera_key = {key:?}\nshards = {shards}\nkeep_results = {keep}\n\
         discover = \"1s\"\n{ring}\
         [models.frames]\nbackend = \"simulated\"\n{picture}\
         [models.frames.batch]\nmax_items = 64\n\
         [models.frames.simulated]\ndtype = \"UINT8\"\nanswer = \"{answer}\"\ncurve = [[1, 2.02], [64, 3.28]]\n"
    )
}
