//! `paceline bench policy`: batching policies side by side in virtual time.
//!
//! A discrete-event simulation: arrivals and service times are drawn, the clock jumps from event
//! to event, and nothing sleeps. `adaptive` is the product's own scheduler, not a copy; the others
//! are what widely used servers do, reduced to their rule.

mod peers;
mod scenario;
mod simulate;

use std::{fmt::Write as _, time::Duration};

use clap::Args;
use serde::Serialize;

use self::{
    peers::{Adaptive, Aimd, Contender, FixedWindow, SealedWindows, ZeroWait},
    scenario::Scenario,
    simulate::simulate,
};

/// Compare batching policies in a simulation that takes seconds and repeats exactly.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// Print a JSON list of rows instead of a table.
    #[arg(long)]
    json: bool,
    /// Virtual seconds per scenario.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// Seed of the random arrivals; the same seed gives the same table.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this scenario.
    #[arg(long, value_parser = Scenario::names())]
    scenario: Option<String>,
}

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) policy: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) offered_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Share of all offered items that were answered within the objective.
    pub(crate) in_slo: f64,
    pub(crate) goodput_per_s: f64,
    /// Share of all devices' time that was spent on calls.
    pub(crate) busy_share: f64,
    pub(crate) mean_batch: f64,
}

pub(crate) fn run(args: &PolicyArgs) -> anyhow::Result<String> {
    let wanted =
        |scenario: &Scenario| args.scenario.as_deref().is_none_or(|name| name == scenario.name);
    let rows: Vec<Row> = Scenario::all()
        .iter()
        .filter(|scenario| wanted(scenario))
        .flat_map(|scenario| rows(scenario, args.seed, Duration::from_secs(args.seconds)))
        .collect();
    if args.json {
        return Ok(serde_json::to_string_pretty(&rows)? + "\n");
    }
    Ok(table(&rows))
}

/// Every policy on one scenario, on the same arrivals and the same noise.
pub(crate) fn rows(scenario: &Scenario, seed: u64, lasts: Duration) -> Vec<Row> {
    let contenders: [&mut dyn Contender; 5] = [
        &mut ZeroWait::new(scenario.max_items),
        &mut FixedWindow::new(scenario.max_items),
        &mut SealedWindows::new(scenario.max_items),
        &mut Aimd::new(scenario.max_items),
        &mut Adaptive::new(scenario),
    ];
    contenders.into_iter().map(|contender| simulate(contender, scenario, seed, lasts)).collect()
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "Service 5 + 0.5 b ms, at most 32 a call, objective 50 ms, one device, unless the scenario says otherwise.\n",
    );
    let mut scenario = "";
    for row in rows {
        if row.scenario != scenario {
            scenario = row.scenario;
            let about = Scenario::all().into_iter().find(|known| known.name == scenario);
            let about = about.map_or("", |known| known.about);
            _ = write!(
                text,
                "\n{scenario}: {about}\n  {:<15}{:>9}{:>9}{:>9}{:>11}{:>7}{:>7}\n",
                "policy", "p50 ms", "p99 ms", "in SLO", "goodput/s", "busy", "batch",
            );
        }
        _ = writeln!(
            text,
            "  {:<15}{:>9.1}{:>9.1}{:>8.1}%{:>11.0}{:>6.0}%{:>7.1}",
            row.policy,
            row.p50_ms,
            row.p99_ms,
            row.in_slo * 100.0,
            row.goodput_per_s,
            row.busy_share * 100.0,
            row.mean_batch,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adaptive(name: &str) -> Row {
        let scenario = Scenario::all().into_iter().find(|known| known.name == name);
        let rows = rows(&scenario.expect("a known scenario"), 1, Duration::from_secs(30));
        rows.into_iter().find(|row| row.policy == "adaptive").expect("one row per policy")
    }

    /// What the adaptive policy promises, on the very code that serves. Virtual time: these are
    /// properties of the policy, not of the machine.
    #[test]
    fn one_policy_holds_where_others_collapse() {
        const CAPACITY: f64 = 32.0 / 0.021;

        let light = adaptive("light");
        assert!(light.p50_ms < 6.0, "a lone user pays nothing: {light:?}");
        let bursty = adaptive("bursty");
        assert!(0.97 <= bursty.in_slo, "{bursty:?}");
        for (name, share) in
            [("over105", 0.95), ("over144", 0.95), ("over105_noise", 0.9), ("over144_noise", 0.9)]
        {
            let row = adaptive(name);
            assert!(share * CAPACITY <= row.goodput_per_s, "{row:?}");
        }
        let mixed = adaptive("mixed_lengths");
        assert!(mixed.p99_ms < 50.0 && 0.99 <= mixed.in_slo, "{mixed:?}");
        let four = adaptive("four_executors");
        assert!(four.busy_share <= 0.45 && four.p50_ms < 10.0, "{four:?}");
    }

    #[test]
    fn a_seed_repeats_the_table_exactly() {
        let args = PolicyArgs {
            json: true,
            seconds: 5,
            seed: 7,
            scenario: Some("over144_noise".to_owned()),
        };

        assert_eq!(run(&args).unwrap(), run(&args).unwrap());
    }
}
