//! `scripts/chaos`: does a real server harm, by name, while every door is under load, and balances
//! the books: whatever was accepted ended once, with the right bytes, in the right order. Beside
//! that it measures what can only be seen from outside: memory over time, overload, idle sockets.
//!
//! Exit code 0 only where the books balance and every bound holds.

mod args;
mod bar;
mod cell;
mod clients;
mod clock;
mod connections;
mod disk;
mod faults;
mod ledger;
mod memory;
mod overload;
mod packets;
mod parts;
mod process;
mod redis_pair;
mod relay;
mod round;
mod server;
mod soak;
mod sockets;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use args::{Args, Command};
use bar::Bar;
use clap::Parser as _;
use serde::Serialize;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let (text, code) = match chaos(&args).await {
        Ok((text, true)) => (text, ExitCode::SUCCESS),
        Ok((text, false)) => (text, ExitCode::FAILURE),
        Err(error) => (format!("chaos: {error:#}\n"), ExitCode::from(2)),
    };
    // Whoever reads it may have read enough.
    drop(io::stdout().write_all(text.as_bytes()));
    code
}

/// What is to be printed, and whether everything is as it must be.
async fn chaos(args: &Args) -> anyhow::Result<(String, bool)> {
    if args.list {
        return Ok((faults::list(), true));
    }
    let mut bar = Bar::start();
    match &args.command {
        None => {
            let report = round::run(args.round()?, &mut bar).await?;
            bar.clear();
            said(args, &report, report.table(), report.holds())
        }
        Some(Command::Soak { minutes, leak }) => {
            let report = soak::run(args.soak(*minutes, *leak)?, &mut bar).await?;
            bar.clear();
            said(args, &report, report.table(), report.holds())
        }
        Some(Command::Overload { seconds }) => {
            let report = overload::run(args.overload(*seconds)?, &mut bar).await?;
            bar.clear();
            said(args, &report, report.table(), report.holds())
        }
        Some(Command::Sockets { n }) => {
            let report = sockets::run(args.sockets(*n)?, &mut bar).await?;
            bar.clear();
            said(args, &report, report.table(), report.holds())
        }
    }
}

fn said(
    args: &Args,
    report: &impl Serialize,
    table: String,
    holds: bool,
) -> anyhow::Result<(String, bool)> {
    let text = if args.json { serde_json::to_string_pretty(report)? + "\n" } else { table };
    Ok((text, holds))
}
