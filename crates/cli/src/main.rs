//! The binary `paceline`: parse, run, exit code.

mod allocator;
mod args;
mod client;
mod commands;
mod exit;
mod telemetry;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command};

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command.unwrap_or_default() {
        Command::Serve(serve) => commands::serve::run(&serve),
        Command::Check(check) => commands::check::run(&check),
        Command::Models(models) => commands::models::run(&models),
        Command::Bench(bench) => commands::bench::run(&bench),
        Command::Stream(stream) => commands::stream::run(&stream),
        Command::Transcribe(transcribe) => commands::transcribe::run(&transcribe),
        Command::Top(top) => commands::top::run(&top),
        Command::Speak(speak) => commands::speak::run(&speak),
        Command::Feed(feed) => commands::feed::run(&feed),
        Command::Dead(dead) => commands::dead::run(&dead),
        Command::TryModel => {
            paceline_server::trial::attempt();
            Ok(())
        }
    };
    exit::code(done)
}
