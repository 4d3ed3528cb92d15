//! The command line.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum as _};

use crate::{
    cell::Load,
    faults::{ALL, Fault},
    overload,
    parts::{self, Part, Parts},
    round::{self, Goal},
    soak, sockets,
};

/// Pipelined connections to each server.
const N_PIPELINED: usize = 4;
/// Cores for one server with its clients and its Redis.
const CORES: usize = 2;

/// Does a real server harm while every door is under load, and balances the books.
#[derive(Debug, Parser)]
#[command(name = "scripts/chaos", args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Faults, by name; all of them where none is named
    faults: Vec<String>,
    /// Print the faults and end
    #[arg(long)]
    pub(crate) list: bool,
    /// How often each of them happens at least
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: u64,
    /// How many there are at least, of all kinds together
    #[arg(long = "faults", value_name = "N", default_value_t = 0)]
    n_faults: u64,
    /// How many requests, utterances and frames are answered at least
    #[arg(long, value_name = "N", default_value_t = 0)]
    requests: u64,
    /// How long to go on at least
    #[arg(long, value_name = "M", default_value_t = 0.0)]
    minutes: f64,
    /// When to end even where that was not enough, with exit code 1
    #[arg(long, value_name = "M", default_value_t = 1440.0)]
    at_most: f64,
    /// Servers side by side, each with its own clients, Redis and faults; one for every two cores
    /// where this is left out
    #[arg(long, value_name = "N")]
    cells: Option<NonZeroUsize>,
    /// How long each client rests after an operation, in milliseconds, where others need the machine
    #[arg(long, value_name = "MS", default_value_t = 0)]
    rest: u64,
    /// Print the report as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The same seed gives the same order of faults and the same requests
    #[arg(long, global = true)]
    seed: Option<u64>,
    /// The server; the one beside this program where this is left out
    #[arg(long, value_name = "FILE", global = true)]
    server: Option<PathBuf>,
    /// A Python that has `numpy`
    #[arg(long, value_name = "FILE", default_value = ".cache/python/bin/python", global = true)]
    python: PathBuf,
    /// A `redis-server`; the one beside this program, or the system's, where this is left out
    #[arg(long, value_name = "FILE", global = true)]
    redis: Option<PathBuf>,
    /// What this machine does not have; the report says what was left out
    #[arg(long, value_name = "PART", value_delimiter = ',', global = true)]
    without: Vec<Part>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Asks every door without harm, and looks whether memory stays flat
    Soak {
        /// For how long
        #[arg(long, value_name = "M", default_value_t = 60.0)]
        minutes: f64,
        /// Lets the server leak on purpose: the check must fail
        #[arg(long)]
        leak: bool,
    },
    /// Asks ten times more than a model can do, and looks what that costs
    Overload {
        /// How long each of three phases is: as much as can be done, ten times more, half of it
        #[arg(long, value_name = "S", default_value_t = 15)]
        seconds: u64,
    },
    /// Opens idle sockets, and weighs the server
    Sockets {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 10_000)]
        n: usize,
    },
}

impl Args {
    fn parts(&self) -> anyhow::Result<Parts> {
        Parts::find(self.server.clone(), &self.python, self.redis.clone(), &self.without)
    }

    /// Only the server: all that these measures need.
    fn bare(&self) -> anyhow::Result<Parts> {
        let all = Part::value_variants();
        Parts::find(self.server.clone(), &self.python, self.redis.clone(), all)
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(rand::random)
    }

    pub(crate) fn round(&self) -> anyhow::Result<round::Plan> {
        let parts = self.parts()?;
        let faults = chosen(&self.faults, &parts)?;
        let needs: Vec<Part> = faults.iter().flat_map(|fault| fault.needs).copied().collect();
        parts::suffice(&needs)?;
        let n_kinds = u64::try_from(faults.len())?;
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let goal = Goal {
            time: minutes(self.minutes)?,
            n_faults: self.n_faults.max(self.times.saturating_mul(n_kinds)),
            n_right: self.requests,
            at_most: minutes(self.at_most)?,
        };
        Ok(round::Plan {
            faults,
            goal,
            n_cells: self.cells.map_or((cores / CORES).max(1), NonZeroUsize::get),
            load: Load { rest: Duration::from_millis(self.rest), n_pipelined: N_PIPELINED },
            seed: self.seed(),
            parts,
        })
    }

    pub(crate) fn soak(&self, time: f64, leak: bool) -> anyhow::Result<soak::Plan> {
        Ok(soak::Plan { parts: self.parts()?, time: minutes(time)?, leak, seed: self.seed() })
    }

    pub(crate) fn overload(&self, seconds: u64) -> anyhow::Result<overload::Plan> {
        Ok(overload::Plan { parts: self.bare()?, phase: Duration::from_secs(seconds) })
    }

    pub(crate) fn sockets(&self, n: usize) -> anyhow::Result<sockets::Plan> {
        Ok(sockets::Plan { parts: self.bare()?, n })
    }
}

fn minutes(minutes: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(minutes * 60.0).context("minutes are a positive number")
}

/// Faults by name, or all that this machine can have.
fn chosen(names: &[String], parts: &Parts) -> anyhow::Result<Vec<Fault>> {
    let can = |fault: &Fault| fault.needs.iter().all(|&part| parts.has(part));
    if names.is_empty() {
        return Ok(ALL.iter().copied().filter(can).collect());
    }
    let find = |name: &String| {
        let found = ALL.iter().find(|fault| fault.name == name).copied();
        let found =
            found.with_context(|| format!("there is no fault `{name}`; --list names them"))?;
        anyhow::ensure!(can(&found), "`{name}` needs {:?}, of which some is left out", found.needs);
        Ok(found)
    };
    names.iter().map(find).collect()
}
