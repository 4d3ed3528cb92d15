//! `scripts/chaos`: does a real server harm, by name, while every door is under load, and balances
//! the books: whatever was accepted ended once, with the right bytes, in the right order.
//!
//! Exit code 0 only where the books balance.

mod clients;
mod faults;
mod ledger;
mod round;
mod server;

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Parser;
use faults::{ALL, Fault};
use ledger::Ledger;
use round::{Plan, Progress, Report};
use tokio::time::Instant;

/// Does a real server harm while every door is under load, and balances the books.
#[derive(Debug, Parser)]
#[command(name = "scripts/chaos")]
struct Args {
    /// Faults, by name; all of them where none is named
    faults: Vec<String>,
    /// How long to go on; every fault happens at least once
    #[arg(long, value_name = "M", default_value_t = 0.0)]
    minutes: f64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Print the faults and end
    #[arg(long)]
    list: bool,
    /// The same seed gives the same order of faults and the same requests
    #[arg(long)]
    seed: Option<u64>,
    /// The server; the one that was built beside this program where this is left out
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// A Python that has `numpy`
    #[arg(long, value_name = "FILE", default_value = ".cache/python/bin/python")]
    python: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let done = chaos(&args).await;
    let (text, code) = match done {
        Ok((text, true)) => (text, ExitCode::SUCCESS),
        Ok((text, false)) => (text, ExitCode::FAILURE),
        Err(error) => (format!("chaos: {error:#}\n"), ExitCode::from(2)),
    };
    // Whoever reads it may have read enough.
    drop(io::stdout().write_all(text.as_bytes()));
    code
}

async fn chaos(args: &Args) -> anyhow::Result<(String, bool)> {
    if args.list {
        let list = ALL.iter().fold(String::new(), |mut list, fault| {
            writeln!(list, "{:18}{}", fault.name, fault.about).ok();
            list
        });
        return Ok((list, true));
    }
    let own = std::env::current_exe().context("this program is gone")?;
    let plan = Plan {
        binary: args.server.clone().unwrap_or_else(|| own.with_file_name("paceline")),
        python: std::path::absolute(&args.python)?,
        faults: chosen(&args.faults)?,
        time: Duration::try_from_secs_f64(args.minutes * 60.0).context("--minutes")?,
        seed: args.seed.unwrap_or_else(rand::random),
    };
    if !plan.python.exists() {
        bail!("there is no {}; run scripts/install-python", plan.python.display());
    }
    let mut bar = Bar::start();
    let report = round::run(plan, &mut bar).await?;
    bar.clear();
    let is_balanced = report.balance.n_violations == 0;
    let text =
        if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { table(&report) };
    Ok((text, is_balanced))
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Fault>> {
    if names.is_empty() {
        return Ok(ALL.to_vec());
    }
    let find = |name: &String| {
        let found = ALL.iter().find(|fault| fault.name == name).copied();
        found.with_context(|| format!("there is no fault `{name}`; --list names them"))
    };
    names.iter().map(find).collect()
}

/// A line on the terminal that says how far it is.
#[derive(Debug)]
struct Bar {
    is_shown: bool,
    interrupted: Arc<AtomicBool>,
    _listener: tokio::task::JoinSet<()>,
}

impl Bar {
    fn start() -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&interrupted);
        let listener = tokio::task::JoinSet::from_iter([async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                told.store(true, Ordering::Relaxed);
            }
        }]);
        Self { is_shown: io::stderr().is_terminal(), interrupted, _listener: listener }
    }

    fn clear(&self) {
        if self.is_shown {
            drop(write!(io::stderr(), "\r\x1b[K"));
        }
    }
}

impl Progress for Bar {
    fn fault(&mut self, fault: &Fault, n_faults: u64, began: Instant, ledger: &Ledger) {
        let balance = ledger.balance();
        let n: u64 = balance.doors.values().map(ledger::Counts::total).sum();
        let (lead, end) = if self.is_shown { ("\r\x1b[K", "") } else { ("", "\n") };
        drop(write!(
            io::stderr(),
            "{lead}{:>5}s  fault {n_faults:<5} {:18} {n:>9} operations, {} violations{end}",
            began.elapsed().as_secs(),
            fault.name,
            balance.n_violations,
        ));
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |said: std::fmt::Arguments<'_>| {
        writeln!(text, "{said}").ok();
    };
    line(format_args!(
        "{:12}{:>10}{:>9}{:>9}{:>9}{:>7}{:>7}",
        "door", "right", "refused", "failed", "cut", "wrong", "none"
    ));
    for (door, counts) in &report.balance.doors {
        line(format_args!(
            "{door:12}{:>10}{:>9}{:>9}{:>9}{:>7}{:>7}",
            counts.right, counts.refused, counts.failed, counts.cut, counts.wrong, counts.silent
        ));
    }
    line(format_args!("\n{:18}{:>7}{:>24}", "fault", "times", "slowest recovery (ms)"));
    for (fault, record) in &report.faults {
        line(format_args!("{fault:18}{:>7}{:>24}", record.times, record.slowest_recovery_ms));
    }
    line(format_args!(
        "\n{} faults of {} kinds, {} operations in {} s (seed {}); memory {} MB at first, {} MB at last",
        report.n_faults,
        report.faults.len(),
        report.n_operations,
        report.seconds,
        report.seed,
        report.rss_mb_first,
        report.rss_mb_last,
    ));
    for violation in &report.balance.violations {
        line(format_args!("VIOLATION {violation}"));
    }
    match report.balance.n_violations {
        0 => line(format_args!("the books balance: nothing lost, nothing wrong")),
        n => line(format_args!("the books do NOT balance: {n} violations")),
    }
    text
}
