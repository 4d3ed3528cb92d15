//! Does memory stay flat? Every door is asked for as long as it takes, without any harm, and the
//! server is weighed each second.

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::{
    bar::Bar,
    cell::{Cell, Load},
    ledger::Balance,
    parts::{Part, Parts},
};

const WEIGH: Duration = Duration::from_secs(1);
/// How long a client rests after each operation: an hour of this leaves the machine to others.
const REST: Duration = Duration::from_millis(50);
/// Parts of the second half, of which each is judged by its mean: what a server holds at one moment
/// is what is being asked of it at that moment, and a leak is what is left on average.
const SPANS: usize = 6;
/// How far above their mean memory may go in any of them.
const SLACK_KIB: u64 = 8 << 10;
const SLACK_PERCENT: u64 = 2;
/// How many more descriptors may be open at a time in the second half than in the first: streams
/// come and go.
const SLACK_DESCRIPTORS: usize = 8;
/// Points of the curve in the report.
const POINTS: usize = 60;
/// Nobody is harmed here, so nobody is cut or killed for being slow on a busy machine.
const PATIENT: [&str; 5] = [
    "server.header_timeout=1m",
    "server.stall_timeout=1m",
    "server.idle_timeout=1m",
    "server.http2_ping_timeout=1m",
    "speech.ping_interval=1m",
];
const PATIENT_WORKERS: &str = "models.fragile.python.call_timeout=1m";
/// What makes the control grow: every call of a model keeps so many bytes for ever.
const LEAK: &str = "models.echo.simulated.leak=4096";

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) parts: Parts,
    pub(crate) time: Duration,
    pub(crate) leak: bool,
    pub(crate) seed: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    pub(crate) without: Vec<Part>,
    pub(crate) leaks_on_purpose: bool,
    pub(crate) n_operations: u64,
    /// The means of parts of the second half: the lowest, their mean, and the highest.
    pub(crate) rss_kib_min: u64,
    pub(crate) rss_kib_mean: u64,
    pub(crate) rss_kib_max: u64,
    /// The most at any moment of the second half.
    pub(crate) rss_kib_peak: u64,
    /// How far above its mean it may go.
    pub(crate) allowed_kib: u64,
    pub(crate) is_flat: bool,
    /// Over the whole time, evenly.
    pub(crate) rss_kib: Vec<u64>,
    /// Most that were open at a time, in either half.
    pub(crate) descriptors: [usize; 2],
    #[serde(flatten)]
    pub(crate) balance: Balance,
}

pub(crate) async fn run(plan: Plan, bar: &mut Bar) -> anyhow::Result<Report> {
    let mut settings = PATIENT.to_vec();
    settings.extend(plan.parts.has(Part::Python).then_some(PATIENT_WORKERS));
    settings.extend(plan.leak.then_some(LEAK));
    let load = Load { rest: REST, n_pipelined: 1 };
    let cell = Cell::start(&plan.parts, load, plan.seed, &settings).await?;
    let (began, mut weights, mut descriptors) = (Instant::now(), Vec::new(), Vec::new());
    while began.elapsed() < plan.time && !bar.is_interrupted() {
        sleep(WEIGH).await;
        let (kib, n_open) = cell.scene.server.weight()?;
        weights.push(kib);
        descriptors.push(n_open);
        bar.show(format_args!(
            "{:>6}s of {}  {:>7} KiB, {:>9} operations, {} violations",
            began.elapsed().as_secs(),
            plan.time.as_secs(),
            kib,
            cell.ledger.n_operations(),
            cell.ledger.n_violations(),
        ));
    }
    let seconds = began.elapsed().as_secs();
    let Judged { min, mean, max, peak, allowed } = judge(&weights);
    let (first, second) = descriptors.split_at(descriptors.len() / 2);
    let balance = cell.finish().await?;
    Ok(Report {
        seconds,
        seed: plan.seed,
        without: plan.parts.without,
        leaks_on_purpose: plan.leak,
        n_operations: balance.n_operations(),
        rss_kib_min: min,
        rss_kib_mean: mean,
        rss_kib_max: max,
        rss_kib_peak: peak,
        allowed_kib: allowed,
        is_flat: max - mean <= allowed,
        rss_kib: weights.iter().step_by(weights.len().div_ceil(POINTS).max(1)).copied().collect(),
        descriptors: [first, second].map(|half| half.iter().max().copied().unwrap_or(0)),
        balance,
    })
}

#[derive(Debug)]
struct Judged {
    min: u64,
    mean: u64,
    max: u64,
    peak: u64,
    allowed: u64,
}

/// Looks at the second half: by then everything that is made once has been made.
fn judge(weights: &[u64]) -> Judged {
    let half = &weights[weights.len() / 2..];
    let mean_of = |span: &[u64]| span.iter().sum::<u64>() / (span.len() as u64).max(1);
    let spans: Vec<u64> = half.chunks(half.len().div_ceil(SPANS).max(1)).map(mean_of).collect();
    let mean = mean_of(half);
    Judged {
        min: spans.iter().min().copied().unwrap_or(0),
        mean,
        max: spans.iter().max().copied().unwrap_or(0).max(mean),
        peak: half.iter().max().copied().unwrap_or(0),
        allowed: SLACK_KIB.max(mean * SLACK_PERCENT / 100),
    }
}

impl Report {
    pub(crate) fn holds(&self) -> bool {
        self.is_flat && !self.has_descriptors_left() && self.balance.n_violations == 0
    }

    fn has_descriptors_left(&self) -> bool {
        let [first, second] = self.descriptors;
        first + SLACK_DESCRIPTORS < second
    }

    pub(crate) fn table(&self) -> String {
        let mut lines = vec![
            format!("{} operations in {} s (seed {})", self.n_operations, self.seconds, self.seed),
            format!(
                "second half, in {SPANS} parts: {} to {} KiB, {} on average; {} above that, {} \
                 allowed; {} at the highest moment",
                self.rss_kib_min,
                self.rss_kib_max,
                self.rss_kib_mean,
                self.rss_kib_max - self.rss_kib_mean,
                self.allowed_kib,
                self.rss_kib_peak
            ),
            format!(
                "descriptors: {} at most in the first half, {} in the second",
                self.descriptors[0], self.descriptors[1]
            ),
        ];
        if !self.without.is_empty() {
            lines.push(format!("left out: {:?}", self.without));
        }
        lines.extend(self.balance.violations.iter().map(|said| format!("VIOLATION {said}")));
        lines.push(match (self.is_flat, self.leaks_on_purpose) {
            (true, false) => "memory is flat".to_owned(),
            (true, true) => {
                "memory is flat though the server leaks: this check is blind".to_owned()
            }
            (false, false) => "memory is NOT flat".to_owned(),
            (false, true) => "memory is NOT flat, as it must be where the server leaks".to_owned(),
        });
        if self.has_descriptors_left() {
            lines.push("descriptors are left over".to_owned());
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::judge;

    fn is_flat(weights: &[u64]) -> bool {
        let judged = judge(weights);
        judged.max - judged.mean <= judged.allowed
    }

    #[test]
    fn what_is_made_once_is_no_leak_and_what_goes_on_growing_is() {
        let warmed: Vec<u64> = (0..100).map(|n| 50_000 + 2000 * n.min(40)).collect();
        assert!(is_flat(&warmed));
        let leaks: Vec<u64> = (0..100).map(|n| 50_000 + 400 * n).collect();
        assert!(!is_flat(&leaks));
        let busy: Vec<u64> = (0..600).map(|n| 100_000 + 40_000 * (n % 3)).collect();
        assert!(is_flat(&busy), "what comes and goes is no leak");
        let large: Vec<u64> = (0..100).map(|n| 1_000_000 + 400 * n).collect();
        assert!(is_flat(&large), "two percent of a large server are more than 8 MiB");
    }
}
