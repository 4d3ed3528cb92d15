//! Runs what the command line asks for, says how far it is, and prints what it found.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use paceline_load::{
    Load, Progress, ReadCounts, Report, Row, Search, Step, Stop, Target, Watch, figure, plot, run,
};

use super::{live::Live, load_args::LoadArgs};

/// What is loaded.
pub(crate) struct Bench {
    pub(crate) target: Target,
    /// In words.
    pub(crate) about: String,
    /// Asks the server what it counted.
    pub(crate) counts: Option<ReadCounts>,
}

/// Makes all runs and gives the text to print.
pub(crate) async fn drive(bench: Bench, args: &LoadArgs) -> anyhow::Result<String> {
    let Bench { target, about, mut counts } = bench;
    let stop = stop_by_signal()?;
    let mut rows = Vec::new();
    let mut found_per_s = None;
    if args.find_max {
        let mut search = Search::new(args.first_rate());
        while let (Some(rate), false) = (search.next(), stop.is_stopped()) {
            let row = one(&target, &args.at_rate(rate), &stop, counts.as_mut()).await?;
            search.learn(args.holds(row.in_slo));
            rows.push(row);
        }
        found_per_s = search.found();
    } else {
        for step in args.steps()? {
            if stop.is_stopped() {
                break;
            }
            rows.push(one(&target, &step, &stop, counts.as_mut()).await?);
        }
    }
    let report = Report {
        target: format!("{about}; {}", args.describe()),
        slo_ms: args.slo.map(|slo| slo.as_secs_f64() * 1e3),
        found_per_s,
        rows,
    };
    if let Some(path) = &args.plot {
        write_plot(path, &plot::draw_report(&report))?;
    }
    if args.json {
        return Ok(serde_json::to_string_pretty(&report)? + "\n");
    }
    Ok(report.table())
}

async fn one(
    target: &Target,
    plan: &Step,
    stop: &Stop,
    counts: Option<&mut ReadCounts>,
) -> anyhow::Result<Row> {
    let name = match &plan.load {
        Load::Closed { concurrency } => format!("{concurrency} clients"),
        Load::Open { arrivals, .. } => format!("{}/s", figure(arrivals.per_second(plan.lasts))),
    };
    let mut line = LiveLine::new(name, plan.warm_up + plan.lasts);
    let mut on_progress = |progress| line.show(progress);
    let watch = Watch { on_progress: &mut on_progress, counts };
    let measured = run(target, plan, stop, watch).await?;
    drop(line);
    Ok(Row::new(plan, &measured))
}

pub(crate) fn write_plot(path: &Path, svg: &str) -> anyhow::Result<()> {
    std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
}

/// Stops at the first SIGINT or SIGTERM, so that what was found so far is still printed; the
/// second ends the process.
pub(crate) fn stop_by_signal() -> anyhow::Result<Stop> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt()).context("no signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("no signals")?;
    let stop = Stop::default();
    let said = stop.clone();
    let listen = async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if said.is_stopped() {
                #[expect(clippy::exit, reason = "a second signal means now")]
                std::process::exit(130);
            }
            said.stop();
        }
    };
    #[expect(clippy::disallowed_methods, reason = "it lives as long as the command")]
    drop(tokio::spawn(listen));
    Ok(stop)
}

/// How far a run is.
struct LiveLine {
    name: String,
    lasts: Duration,
    before: Option<Progress>,
    live: Live,
}

impl LiveLine {
    fn new(name: String, lasts: Duration) -> Self {
        Self { name, lasts, before: None, live: Live::new() }
    }

    fn show(&mut self, progress: Progress) {
        let rate = self.before.map_or(0.0, |before| rate(before, progress));
        self.before = Some(progress);
        let (at, of) = (progress.elapsed.as_secs_f64(), self.lasts.as_secs_f64());
        self.live.show(&format!(
            "{}: {at:.0} of {of:.0} s, {} answers/s, {} errors",
            self.name,
            figure(rate),
            progress.n_failed
        ));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate is approximate")]
fn rate(before: Progress, now: Progress) -> f64 {
    let seconds = now.elapsed.saturating_sub(before.elapsed).as_secs_f64().max(1e-3);
    (now.n_answered - before.n_answered) as f64 / seconds
}
