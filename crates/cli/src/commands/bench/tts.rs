//! `paceline bench tts`: many listeners of one vocoder, in virtual time.
//!
//! What decides is the product's own: [`Listener`](paceline_pipeline::synthesis::Listener) says what
//! is needed next and by when, the scheduler says what goes together. Only the clock and the vocoder
//! are simulated: 1, 8, 32 and 64 chunks take 50, 70, 150 and 280 ms. The policy that this is held
//! against runs on the same listeners in the same run.

mod policies;
mod simulate;

use std::{fmt::Write as _, fs, path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Args;
use paceline_load::plot::{CurvePanel, draw_curves};
use serde::Serialize;

use self::{
    policies::{Name, Settings},
    simulate::{Scene, call_time, simulate},
};

/// How many listeners one vocoder serves without a gap, and how soon they hear it.
#[derive(Debug, Args)]
pub(crate) struct TtsArgs {
    /// How many listen at once, one row for each
    #[arg(long, value_delimiter = ',', default_value = "1,5,10,20,50,100")]
    listeners: Vec<usize>,
    /// Only this policy; `seed` seals batches over all voices and runs them voice by voice, `fixed`
    /// is the same rule in our batcher, `fcfs` is ours without knowing who runs dry when
    #[arg(long, value_enum)]
    policy: Option<Name>,
    /// How many voices are asked for; voices do not share calls
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    voices: u8,
    /// Virtual seconds of each run
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(20..=3600))]
    seconds: u64,
    /// Seed of the random texts and pauses; the same seed gives the same table
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Most chunks in a call
    #[arg(long, default_value_t = 32)]
    max_items: usize,
    /// Longest wait for company, in milliseconds; 50 for the fixed rules
    #[arg(long, default_value_t = 100)]
    max_wait: u64,
    /// How far ahead of the ear sound is made, in milliseconds
    #[arg(long, default_value_t = 1200)]
    ahead: u64,
    /// By how much those who are wanted at once may go before those who are wanted later, in
    /// milliseconds
    #[arg(long, default_value_t = 200)]
    patience: u64,
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Draw the table into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) listeners: usize,
    pub(crate) policy: Name,
    pub(crate) ttfc_p50_ms: f64,
    pub(crate) ttfc_p95_ms: f64,
    /// Share of those who listened that heard no gap.
    pub(crate) gap_free_share: f64,
    pub(crate) mean_batch: f64,
    /// Share of the time that the vocoder was busy.
    pub(crate) busy_share: f64,
}

/// The most that a policy serves: 99 of 100 listeners hear no gap.
#[derive(Debug, Clone, Serialize)]
struct Most {
    policy: Name,
    listeners: usize,
    ttfc_p95_ms: f64,
    /// Against the seed's policy, at no later a first chunk.
    ratio: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    time: &'static str,
    voices: u8,
    rows: Vec<Row>,
    most: Vec<Most>,
    /// What no policy can exceed: the best use of the vocoder that the curve allows.
    bound: usize,
}

/// How many of a hundred must hear no gap.
const GAP_FREE: f64 = 0.99;

impl TtsArgs {
    fn scene(&self, listeners: usize) -> Scene {
        Scene {
            listeners,
            voices: usize::from(self.voices),
            lasts: Duration::from_secs(self.seconds),
            seed: self.seed,
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            max_items: self.max_items.max(1),
            max_wait: Duration::from_millis(self.max_wait),
            ahead: Duration::from_millis(self.ahead),
            patience: Duration::from_millis(self.patience.max(1)),
        }
    }

    fn row(&self, policy: Name, listeners: usize) -> Row {
        simulate(policy, &self.settings(), &self.scene(listeners))
    }

    /// The most listeners that a policy serves without gaps, and with the first chunk no later than
    /// `ttfc`.
    fn most(&self, policy: Name, ttfc: f64) -> (usize, f64) {
        let holds = |listeners| {
            let row = self.row(policy, listeners);
            (GAP_FREE <= row.gap_free_share && row.ttfc_p95_ms <= ttfc).then_some(row.ttfc_p95_ms)
        };
        let (mut low, mut low_ttfc, mut high) = (0, 0.0, 4);
        while let Some(ttfc) = holds(high) {
            (low, low_ttfc, high) = (high, ttfc, high * 2);
        }
        while low + 1 < high {
            let middle = usize::midpoint(low, high);
            match holds(middle) {
                Some(ttfc) => (low, low_ttfc) = (middle, ttfc),
                None => high = middle,
            }
        }
        (low, low_ttfc)
    }
}

pub(crate) fn run(args: &TtsArgs) -> anyhow::Result<String> {
    let policies: Vec<Name> = args.policy.map_or_else(|| Name::ALL.to_vec(), |one| vec![one]);
    let rows: Vec<Row> = args
        .listeners
        .iter()
        .flat_map(|&n| policies.iter().map(move |&policy| (policy, n)))
        .map(|(policy, n)| args.row(policy, n.max(1)))
        .collect();
    let (seed_most, seed_ttfc) = args.most(Name::Seed, f64::INFINITY);
    let most = policies
        .iter()
        .map(|&policy| {
            let (listeners, ttfc_p95_ms) = args.most(policy, seed_ttfc);
            #[expect(clippy::cast_precision_loss, reason = "hundreds of listeners")]
            let ratio = listeners as f64 / seed_most.max(1) as f64;
            Most { policy, listeners, ttfc_p95_ms, ratio }
        })
        .collect();
    let report = Report {
        time: "virtual",
        voices: args.voices,
        rows,
        most,
        bound: bound(args.settings().max_items),
    };
    if let Some(file) = &args.plot {
        fs::write(file, draw(&report))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.json {
        return Ok(serde_json::to_string_pretty(&report)? + "\n");
    }
    Ok(table(&report))
}

/// Listeners at most, if every call had the best size and the vocoder never stood still.
fn bound(max_items: usize) -> usize {
    let served = |items: usize| {
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let n = items as f64;
        n * simulate::CHUNK.as_secs_f64() / call_time(items).as_secs_f64()
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down")]
    let best = (1..=max_items).map(served).fold(0.0, f64::max) as usize;
    best
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "Chunks of 600 ms, {} voices, a vocoder of 50/70/150/280 ms at 1/8/32/64 chunks; virtual time.\n\n{:<11}{:<10}{:>13}{:>13}{:>11}{:>8}{:>7}\n",
        report.voices,
        "listeners",
        "policy",
        "first p50 ms",
        "first p95 ms",
        "gap-free",
        "batch",
        "busy",
    );
    for row in &report.rows {
        _ = writeln!(
            text,
            "{:<11}{:<10}{:>13.0}{:>13.0}{:>10.1}%{:>8.1}{:>6.0}%",
            row.listeners,
            row.policy.as_str(),
            row.ttfc_p50_ms,
            row.ttfc_p95_ms,
            row.gap_free_share * 100.0,
            row.mean_batch,
            row.busy_share * 100.0,
        );
    }
    _ = writeln!(
        text,
        "\nMost listeners of whom 99 % hear no gap, with the first chunk no later than the seed's policy has it:"
    );
    for most in &report.most {
        _ = writeln!(
            text,
            "{:<10}{:>5} listeners, first p95 {:>4.0} ms, {:.2}x",
            most.policy.as_str(),
            most.listeners,
            most.ttfc_p95_ms,
            most.ratio,
        );
    }
    _ = writeln!(
        text,
        "No policy can serve more than {} with this vocoder and calls of this size.",
        report.bound
    );
    text
}

fn draw(report: &Report) -> String {
    #[expect(clippy::cast_precision_loss, reason = "hundreds of listeners")]
    let lines = |value: fn(&Row) -> f64| {
        Name::ALL
            .iter()
            .map(|policy| {
                let rows = report.rows.iter().filter(|row| row.policy == *policy);
                let points = rows.map(|row| (row.listeners as f64, value(row))).collect();
                (policy.as_str().to_owned(), points)
            })
            .filter(|(_, points): &(String, Vec<_>)| !points.is_empty())
            .collect()
    };
    let panel = |title: &str, y: &str, lines| CurvePanel {
        title: title.to_owned(),
        x: "listeners".to_owned(),
        y: y.to_owned(),
        lines,
    };
    draw_curves(
        "Streaming synthesis: one vocoder, 600 ms chunks, virtual time",
        &[
            panel("Until the first chunk, p95", "milliseconds", lines(|row| row.ttfc_p95_ms)),
            panel("Who hears no gap", "percent", lines(|row| row.gap_free_share * 100.0)),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> TtsArgs {
        TtsArgs {
            listeners: vec![1, 20],
            policy: None,
            voices: 4,
            seconds: 30,
            seed: 1,
            max_items: 32,
            max_wait: 100,
            ahead: 1200,
            patience: 200,
            json: true,
            plot: None,
        }
    }

    #[test]
    fn a_lone_listener_waits_for_one_call_and_no_longer() {
        let row = args().row(Name::Adaptive, 1);
        assert!(row.ttfc_p95_ms <= 55.0 && 1.0 <= row.gap_free_share, "{row:?}");
        assert!(50.0 < args().row(Name::Seed, 1).ttfc_p50_ms);
    }

    #[test]
    fn knowing_who_runs_dry_keeps_more_listeners_free_of_gaps() {
        let (seed, ttfc) = args().most(Name::Seed, f64::INFINITY);
        let (adaptive, _) = args().most(Name::Adaptive, ttfc);
        assert!(seed * 3 <= adaptive * 2, "{adaptive} against {seed}");
    }

    #[test]
    fn a_seed_repeats_the_table_exactly() {
        let quick = TtsArgs { policy: Some(Name::Adaptive), ..args() };
        assert_eq!(run(&quick).unwrap(), run(&quick).unwrap());
    }
}
