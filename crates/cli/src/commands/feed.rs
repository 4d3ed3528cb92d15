//! `paceline feed`: frames of simulated cameras into Redis, for any server that reads there.

use std::{num::NonZeroU16, path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use paceline_frames::{Address, Placement, Shards, TlsFiles, ring};
use paceline_load::cameras::{Fed, Feed, Judge, Kind, Payloads, Schedule};
use tokio::time::{Instant, sleep};

use crate::exit::{self, Failure};

/// How long results may stay away before they count as lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Feed frames of simulated cameras into Redis.
///
/// Cameras are called cam-0, cam-1 and so on; their frames are numbered, and raw frames carry a
/// checksum. With --check their results are read and judged: what is lost, doubled or out of order.
#[derive(Debug, Clone, Args)]
pub(crate) struct FeedArgs {
    /// Where Redis is, or the Sentinels that know: as `cameras.url` of the server
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    redis: String,
    #[command(flatten)]
    tls: TlsArgs,
    /// How long
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Read the results and judge them
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    pub(crate) frames: FrameArgs,
}

/// What a rediss:// address needs.
#[derive(Debug, Clone, Args)]
struct TlsArgs {
    /// The authorities whose certificates are believed, in PEM, for rediss://
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A certificate that Redis is shown, in PEM, where it asks for one
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

impl TlsArgs {
    fn files(&self) -> TlsFiles {
        let Self { ca_file, certificate, key } = self.clone();
        TlsFiles { ca_file, certificate, key }
    }
}

/// What the frames are and where they go.
#[derive(Debug, Clone, Args)]
pub(crate) struct FrameArgs {
    /// Cameras
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) cameras: u32,
    /// Frames a second of all cameras together
    #[arg(long, value_name = "FPS", default_value_t = 1000.0, value_parser = rate)]
    pub(crate) rate: f64,
    /// What a frame carries
    #[arg(long, value_enum, default_value_t)]
    pub(crate) payload: PayloadArg,
    /// Bytes of a raw frame
    #[arg(long, value_name = "BYTES", default_value_t = 200)]
    pub(crate) size: usize,
    /// Width and height of a picture that is made up
    #[arg(long, value_name = "PIXELS", default_value_t = 224)]
    pub(crate) side: u32,
    /// Send the files of this folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Frames that a camera sends at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) burst: u32,
    /// Whether cameras share shard streams or each has its own
    #[arg(long, value_enum, default_value_t)]
    pub(crate) layout: LayoutArg,
    /// The key of a camera's own stream
    #[arg(long, value_name = "KEY", default_value = "cam:<camera>")]
    pub(crate) camera_key: String,
    /// What the names of all other keys begin with
    #[arg(long, default_value = "paceline")]
    pub(crate) prefix: String,
    /// Virtual shards, as the server has it
    #[arg(long, default_value = "64")]
    pub(crate) shards: NonZeroU16,
    /// Where rings in shared memory are, for handles
    #[arg(long, value_name = "DIR", default_value = ring::FOLDER)]
    pub(crate) ring_folder: PathBuf,
}

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum PayloadArg {
    /// Bytes of a tensor
    #[default]
    Raw,
    /// JPEG pictures
    Jpeg,
    /// PNG pictures
    Png,
    /// Bytes of a tensor in shared memory; Redis carries a handle
    Handle,
}

impl PayloadArg {
    /// As it is written on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Raw => Kind::Raw,
            Self::Jpeg => Kind::Jpeg,
            Self::Png => Kind::Png,
            Self::Handle => Kind::Handle,
        }
    }
}

/// How frames lie in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LayoutArg {
    /// A stream for each shard
    #[default]
    Shard,
    /// A stream for each camera
    Camera,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| (0.01..=1e7).contains(rate));
    rate.ok_or_else(|| "a rate is a number of frames a second, from 0.01 to 10000000".to_owned())
}

impl FrameArgs {
    /// The shards and their keys.
    pub(crate) fn shards(&self) -> Shards {
        Shards::new(self.prefix.clone(), self.shards)
    }

    fn placement(&self) -> Placement {
        match self.layout {
            LayoutArg::Shard => Placement::Shards(self.shards()),
            LayoutArg::Camera => Placement::Cameras(self.shards(), self.camera_key.clone()),
        }
    }

    /// Whether a model that answers its input sends frames back as they were.
    pub(crate) fn echoes(&self) -> bool {
        self.files.is_none() && matches!(self.payload, PayloadArg::Raw | PayloadArg::Handle)
    }

    /// A feed that is connected and has sent nothing.
    pub(crate) async fn feed(&self, redis: &Address) -> anyhow::Result<Feed> {
        let kind = self.payload.kind();
        let payloads = match &self.files {
            Some(folder) => Payloads::files(kind, folder)?,
            None => Payloads::synthetic(kind, self.size, self.side)?,
        };
        let schedule = Schedule { cameras: self.cameras, rate: self.rate, burst: self.burst };
        let feed = Feed::connect(redis, self.placement(), payloads, schedule).await;
        let mut feed = feed.with_context(|| format!("no Redis at {redis}"))?;
        if self.payload == PayloadArg::Handle {
            feed.use_ring(&self.ring_folder)?;
        }
        Ok(feed)
    }
}

pub(crate) fn run(args: &FeedArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let text = runtime.context("no runtime")?.block_on(feed(args))?;
    exit::print(&text)
}

async fn feed(args: &FeedArgs) -> anyhow::Result<String> {
    let redis = Address::new(&args.redis, &args.tls.files())?;
    let mut cameras = args.frames.feed(&redis).await?;
    // A model that does not answer its input would make every result look wrong.
    let mut judge = if args.check {
        Some(Judge::connect(&redis, &args.frames.shards(), false).await?)
    } else {
        None
    };
    let time = Duration::from_secs(args.seconds);
    let fed = match &mut judge {
        None => cameras.run(time).await?.clone(),
        Some(judge) => {
            let (fed, looked) = tokio::join!(cameras.run(time), async {
                let end = Instant::now() + time;
                while Instant::now() < end {
                    judge.look().await?;
                    sleep(Duration::from_millis(500)).await;
                }
                anyhow::Ok(())
            });
            looked?;
            fed?.clone()
        }
    };
    let sent = format!("{} frames added, {} refused\n", fed.all(), fed.refused.0);
    match judge {
        None => Ok(sent),
        Some(judge) => Ok(sent + &verdict(judge, &fed).await?),
    }
}

async fn verdict(mut judge: Judge, fed: &Fed) -> anyhow::Result<String> {
    let ended = drain(&mut judge, fed).await?;
    let seen = judge.seen().await?;
    let latency = |share| seen.latency_ms.value_at_quantile(share);
    let text = format!(
        "{} results, {} dropped, {} dead letters, {} lost, {} doubled, {} out of order; p50 {} ms, \
         p99 {} ms\n",
        seen.results,
        seen.dropped(),
        seen.dead_lettered(),
        fed.all().saturating_sub(ended),
        seen.duplicated,
        seen.reordered,
        latency(0.5),
        latency(0.99),
    );
    let is_well = ended == fed.all() && seen.duplicated == 0 && seen.reordered == 0;
    anyhow::ensure!(is_well, "what came out is not what went in: {text}");
    Ok(text)
}

/// Reads results until every frame has ended or nothing comes any more; says how many ended.
pub(crate) async fn drain(judge: &mut Judge, fed: &Fed) -> anyhow::Result<u64> {
    let mut last = Instant::now();
    loop {
        let found = judge.look().await?;
        let seen = judge.seen().await?;
        let ended = seen.results + seen.dropped() + seen.dead_lettered();
        if fed.all() <= ended || PATIENCE < last.elapsed() {
            return Ok(ended);
        }
        if 0 < found {
            last = Instant::now();
        }
        sleep(Duration::from_millis(20)).await;
    }
}
