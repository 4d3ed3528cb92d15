//! `paceline bench`: measure, and print a table.

mod policy;
mod stream;

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
    /// Compare batching policies in a simulation that takes seconds and repeats exactly
    Policy(policy::PolicyArgs),
    /// Play many real-time streams of speech and silence, and see whether the server keeps up
    Stream(stream::StreamArgs),
}

pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    match &args.what {
        What::Policy(args) => exit::print(&policy::run(args)?),
        What::Stream(args) => exit::print(&stream::run(args)?),
    }
}
