//! The same frames, read in other ways by a process of their own, so that it can be measured.

use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::Context as _;
use paceline_frames::{Address, Placement, TlsFiles};
use paceline_load::cameras::{Reader, RedisServer, read_as_seed};
use tokio::time::{Instant, sleep};

use super::{
    super::process::Usage,
    report::{Other, Report},
};
use crate::commands::feed::{FrameArgs, LayoutArg};

/// How long its groups and connections may take.
const BEGIN: Duration = Duration::from_secs(2);

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Frames for `time`, read by so many tasks.
pub(super) async fn measure(
    redis: &str,
    frames: &FrameArgs,
    tasks: u32,
    time: Duration,
) -> anyhow::Result<Other> {
    let frames = FrameArgs {
        layout: LayoutArg::Camera,
        camera_key: format!("baseline-{tasks}:<camera>"),
        ..frames.clone()
    };
    let child = Command::new(std::env::current_exe().context("this program is gone")?)
        .args(["bench", "cameras", "--redis", redis, "--camera-key", &frames.camera_key])
        .args(["--layout", "camera", "--cameras", &frames.cameras.to_string()])
        .args(["--read-as-seed", &tasks.to_string()])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let child = Process(child.context("the reader did not start")?);
    sleep(BEGIN).await;
    let mut feed = frames.feed(&Address::new(redis, &TlsFiles::default())?).await?;
    let warm = feed.run(Duration::from_secs(1)).await?.all();
    let before = (RedisServer::cpu_seconds(redis).await?, Usage::of(&child.0.id()));
    let began = Instant::now();
    let all = feed.run(time).await?.all();
    let took = began.elapsed().as_secs_f64();
    let after = (RedisServer::cpu_seconds(redis).await?, Usage::of(&child.0.id()));
    let n = Report::count(all - warm);
    Ok(Other {
        tasks,
        fps: n / took,
        redis_cpu_us_per_frame: (after.0 - before.0) * 1e6 / n,
        context_switches_per_frame: (after.1.switches - before.1.switches) / n,
    })
}

/// Reads until it is killed.
pub(super) async fn read(redis: &str, frames: &FrameArgs, tasks: u32) -> anyhow::Result<String> {
    let placement = Placement::Cameras(frames.shards(), frames.camera_key.clone());
    let cameras = frames.cameras;
    let reader = Reader { url: redis.to_owned(), placement, cameras, tasks };
    read_as_seed(reader, Arc::new(AtomicU64::new(0))).await?;
    Ok(String::new())
}
