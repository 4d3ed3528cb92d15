//! What ten times more than a model can do costs: how soon it is refused, what is done meanwhile,
//! and how soon everything is as before.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use rand::RngExt as _;
use serde::Serialize;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::{bar::Bar, clients::http, ledger::Outcome, parts::Parts, server::Server};

const MODEL: &str = "busy";
/// Clients that together keep the model busy: two batches of eight.
const SATURATING: u32 = 16;
/// What is offered, of what can be done.
const TIMES: f64 = 10.0;
/// What is offered once the load has ended.
const AFTER: f64 = 0.5;
/// An answer that takes longer is not as before: a few calls of the model.
const CALM: Duration = Duration::from_millis(250);

/// Longest that is told apart, in microseconds: a minute.
const LONGEST_US: u64 = 60_000_000;

const REFUSAL_MS: f64 = 10.0;
const GOODPUT: f64 = 0.9;
const RECOVERY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) parts: Parts,
    /// How long each of the three phases is.
    pub(crate) phase: Duration,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Answers a second where as much is asked as can be done.
    pub(crate) peak: f64,
    pub(crate) offered: f64,
    /// Answers a second while ten times more is asked.
    pub(crate) goodput: f64,
    pub(crate) goodput_of_peak: f64,
    pub(crate) n_refused: u64,
    pub(crate) refused_ms_p50: f64,
    pub(crate) refused_ms_p99: f64,
    pub(crate) refused_ms_max: f64,
    pub(crate) answered_ms_p99_at_peak: f64,
    pub(crate) answered_ms_p99: f64,
    /// From the end of the load until the last answer that was refused or slow.
    pub(crate) recovery_ms: u64,
    pub(crate) broken: Vec<String>,
}

pub(crate) async fn run(plan: Plan, bar: &mut Bar) -> anyhow::Result<Report> {
    let server = Arc::new(Server::start(&plan.parts, &[]).await?);
    bar.show(format_args!("as much as can be done, for {:?}", plan.phase));
    saturate(&server, plan.phase / 4).await?;
    let peak = saturate(&server, plan.phase).await?;
    let best = peak.rate(plan.phase);
    bar.show(format_args!("ten times {best:.0} a second, for {:?}", plan.phase));
    let crowd = offer(&server, best * TIMES, plan.phase).await?;
    bar.show(format_args!("half of it, for {:?}", plan.phase));
    let after = offer(&server, best * AFTER, plan.phase).await?;
    let mut report = Report {
        peak: best,
        offered: best * TIMES,
        goodput: crowd.rate(plan.phase),
        goodput_of_peak: crowd.rate(plan.phase) / best,
        n_refused: crowd.refused.len(),
        refused_ms_p50: millis(&crowd.refused, 0.5),
        refused_ms_p99: millis(&crowd.refused, 0.99),
        refused_ms_max: millis(&crowd.refused, 1.0),
        answered_ms_p99_at_peak: millis(&peak.right, 0.99),
        answered_ms_p99: millis(&crowd.right, 0.99),
        recovery_ms: u64::try_from(after.uneasy.as_millis())?,
        broken: Vec::new(),
    };
    let wrong = [&peak, &crowd, &after].into_iter().flat_map(|tally| tally.wrong.iter().cloned());
    report.broken = report.judge().into_iter().chain(wrong.take(10)).collect();
    Ok(report)
}

/// What became of a phase's requests.
#[derive(Debug)]
struct Tally {
    /// In microseconds.
    right: Histogram<u64>,
    refused: Histogram<u64>,
    wrong: Vec<String>,
    /// When the last answer came that was refused or slow, since the phase began.
    uneasy: Duration,
}

impl Tally {
    fn new() -> anyhow::Result<Self> {
        let histogram = || Histogram::new_with_max(LONGEST_US, 3);
        let (right, refused) = (histogram()?, histogram()?);
        Ok(Self { right, refused, wrong: Vec::new(), uneasy: Duration::ZERO })
    }

    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    fn rate(&self, time: Duration) -> f64 {
        self.right.len() as f64 / time.as_secs_f64()
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of minutes")]
fn millis(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1000.0
}

/// Asks once, and writes down what came of it.
async fn ask(server: Arc<Server>, tally: Arc<Mutex<Tally>>, phase: Instant) {
    let numbers: [i64; 2] = [rand::rng().random(), rand::rng().random()];
    let began = Instant::now();
    let outcome = http::plain(server.http, MODEL, &numbers).await;
    let took = began.elapsed();
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let mut tally = tally.lock();
    match outcome {
        Ok(Outcome::Right) => tally.right.saturating_record(micros),
        Ok(Outcome::Refused(_)) => tally.refused.saturating_record(micros),
        ref other => tally.wrong.push(format!("{other:?}")),
    }
    if CALM < took || !matches!(outcome, Ok(Outcome::Right)) {
        tally.uneasy = phase.elapsed();
    }
}

/// Clients that ask again as soon as they are answered.
async fn saturate(server: &Arc<Server>, time: Duration) -> anyhow::Result<Tally> {
    let (phase, tally) = (Instant::now(), Arc::new(Mutex::new(Tally::new()?)));
    let clients: JoinSet<()> = (0..SATURATING)
        .map(|_| {
            let (server, tally) = (Arc::clone(server), Arc::clone(&tally));
            async move {
                while phase.elapsed() < time {
                    ask(Arc::clone(&server), Arc::clone(&tally), phase).await;
                }
            }
        })
        .collect();
    clients.join_all().await;
    taken(tally)
}

/// So many requests a second, whatever becomes of those before.
async fn offer(server: &Arc<Server>, rate: f64, time: Duration) -> anyhow::Result<Tally> {
    let (phase, tally) = (Instant::now(), Arc::new(Mutex::new(Tally::new()?)));
    let pause = Duration::from_secs_f64(1.0 / rate);
    let (mut clients, mut due) = (JoinSet::new(), phase);
    while due < phase + time {
        sleep_until(due).await;
        clients.spawn(ask(Arc::clone(server), Arc::clone(&tally), phase));
        while clients.try_join_next().is_some() {}
        due += pause;
    }
    clients.join_all().await;
    taken(tally)
}

fn taken(tally: Arc<Mutex<Tally>>) -> anyhow::Result<Tally> {
    Ok(Arc::into_inner(tally).context("somebody still asks")?.into_inner())
}

impl Report {
    /// What is not as it must be.
    fn judge(&self) -> Vec<String> {
        let Self { goodput_of_peak, refused_ms_p99, recovery_ms, .. } = self;
        [
            (GOODPUT <= *goodput_of_peak, format!("goodput is {goodput_of_peak:.2} of the peak")),
            (self.n_refused != 0, "nobody was refused".to_owned()),
            (*refused_ms_p99 <= REFUSAL_MS, format!("a refusal takes {refused_ms_p99:.1} ms")),
            (
                u128::from(*recovery_ms) <= RECOVERY.as_millis(),
                format!("it took {recovery_ms} ms to recover"),
            ),
        ]
        .into_iter()
        .filter_map(|(holds, said)| (!holds).then_some(said))
        .collect()
    }

    pub(crate) fn holds(&self) -> bool {
        self.broken.is_empty()
    }

    pub(crate) fn table(&self) -> String {
        let mut lines = vec![
            format!("{:>9.1} answers a second where as much is asked as can be done", self.peak),
            format!(
                "{:>9.1} where {:.0} a second are asked: {:.0} % of that",
                self.goodput,
                self.offered,
                self.goodput_of_peak * 100.0
            ),
            format!(
                "{:>9} refused: p50 {:.1} ms, p99 {:.1} ms, slowest {:.1} ms",
                self.n_refused, self.refused_ms_p50, self.refused_ms_p99, self.refused_ms_max
            ),
            format!(
                "{:>9.0} ms is the p99 of what is answered; {:.0} ms before",
                self.answered_ms_p99, self.answered_ms_p99_at_peak
            ),
            format!("{:>9} ms after the load everything is as before", self.recovery_ms),
        ];
        lines.extend(self.broken.iter().map(|said| format!("BROKEN {said}")));
        lines.join("\n") + "\n"
    }
}
