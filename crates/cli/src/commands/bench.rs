//! `paceline bench`: measure, and print a table.

mod cameras;
mod drive;
mod files;
mod grpc;
mod http;
mod live;
mod load_args;
mod own_server;
mod policy;
mod process;
mod stream;
mod stress;
mod tts;

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::exit::{self, Failure};

/// Measure, and print a table.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Load a server over HTTP, any server that speaks the Open Inference Protocol included
    Http(Box<http::HttpArgs>),
    /// Load a server over gRPC
    Grpc(Box<grpc::GrpcArgs>),
    /// Feed frames of simulated cameras through Redis and a server, and judge the results
    Cameras(Box<cameras::CamerasArgs>),
    /// Compare batching policies in a simulation that takes seconds and repeats exactly
    Policy(policy::PolicyArgs),
    /// See how many listeners one vocoder serves without a gap, in a simulation that takes seconds
    Tts(tts::TtsArgs),
    /// Play many real-time streams of speech and silence, and see whether the server keeps up
    Stream(stream::StreamArgs),
    /// Transcribe files, and see how fast that is
    Files(files::FilesArgs),
}

pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    let text = match &args.what {
        What::Http(args) => wait(http::run(args))?,
        What::Grpc(args) => wait(grpc::run(args))?,
        What::Cameras(args) => cameras::run(args)?,
        What::Stream(args) => stream::run(args)?,
        What::Files(args) => stream::runtime()?.block_on(files::run(args))?,
        What::Policy(args) => policy::run(args)?,
        What::Tts(args) => tts::run(args)?,
    };
    exit::print(&text)
}

/// Threads that send are the load's own; this one only looks on.
fn wait<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
    runtime.block_on(future)
}
