//! `paceline bench http --stress`: N requests at once, one by one against batched.
//!
//! One by one is `batch=off`: every request has a model call to itself. Both go to the same
//! server in turn, with nothing changed in between.

use std::{fmt::Write as _, time::Duration};

use anyhow::ensure;
use paceline_load::{
    Host, Load, Step, Stop, Stress, StressModel, StressRow, Target, Watch, Wave, oip, plot,
    run as load,
};

use super::{
    drive::{stop_by_signal, write_plot},
    http::{HttpArgs, counts, is_batched, read_body, sample},
    own_server::OwnServer,
};

/// How many requests at once.
const SIZES: [usize; 7] = [1, 10, 25, 50, 100, 200, 500];
/// A wave is done again while all of its kind took less than this, ...
const ENOUGH: Duration = Duration::from_millis(500);
/// ... but not more often than this.
const MAX_WAVES: usize = 9;
/// What the classifier is asked about: the text of this file.
const TEXT: &str = include_str!("stress.rs");

/// A model that sleeps as long as a vocoder's batch takes: 1, 8, 32 and 64 items take 50, 70, 150
/// and 280 ms.
const CURVE: &str = r#"
[models.curve]
backend = "simulated"

[models.curve.simulated]
curve = [[1, 50], [8, 70], [32, 150], [64, 280]]

[models.curve.batch]
max_items = 32
max_wait = "5ms"
queue_items = 4096
"#;

pub(crate) async fn run(args: &HttpArgs) -> anyhow::Result<String> {
    let mut own = None;
    let url = if let Some(url) = &args.url {
        url.clone()
    } else {
        let text = args.config.config.is_none().then_some(CURVE);
        own.insert(OwnServer::start(&args.config, text).await?).url()
    };
    let host = Host::open(&url)?;
    ensure!(
        host.path() == "/",
        "--stress takes the server's URL without a path; --model names the model"
    );
    let wanted: Vec<&str> = match &args.model {
        Some(model) => vec![model],
        None => vec!["magika", "curve"],
    };
    let stop = stop_by_signal()?;
    let mut models = Vec::new();
    let mut remarks = String::new();
    for model in wanted {
        match body(args, &host, model).await {
            Ok(body) => models.push(stress(args, &host, model, &body, &stop).await?),
            Err(error) if args.model.is_none() => {
                _ = writeln!(
                    remarks,
                    "
Without {model}: {error}"
                );
            }
            Err(error) => return Err(error),
        }
    }
    drop(own);
    let stress = Stress { models };
    if let Some(path) = &args.load.plot {
        write_plot(path, &plot::draw_stress(&stress))?;
    }
    if args.load.json {
        return Ok(serde_json::to_string_pretty(&stress)? + "\n");
    }
    Ok(stress.table() + &remarks)
}

/// What a model is asked.
async fn body(args: &HttpArgs, host: &Host, model: &str) -> anyhow::Result<Vec<u8>> {
    let tensors = sample(host, model, 1).await?;
    match &args.body {
        Some(body) => read_body(body),
        None if model == "magika" => Ok(TEXT.as_bytes().to_vec()),
        None => Ok(oip::plain_body(&tensors, is_batched(host, model).await?)?),
    }
}

async fn stress(
    args: &HttpArgs,
    host: &Host,
    model: &str,
    body: &[u8],
    stop: &Stop,
) -> anyhow::Result<StressModel> {
    let path = format!("/v1/models/{model}/infer");
    let one_by_one = format!("{path}?batch=off");
    let target = |path: &str| Target::Http(host.target(path, &[], Some(body)));
    let stage = Stage { args, host, model, stop };
    let mut rows = Vec::new();
    for n in SIZES {
        if stop.is_stopped() {
            break;
        }
        let row = StressRow {
            n,
            one_by_one: stage.waves(&target(&one_by_one), n).await?,
            batched: stage.waves(&target(&path), n).await?,
        };
        // A row that was cut short says nothing.
        if !stop.is_stopped() {
            rows.push(row);
        }
    }
    Ok(StressModel { name: model.to_owned(), rows })
}

/// What every wave on a model has in common.
struct Stage<'a> {
    args: &'a HttpArgs,
    host: &'a Host,
    model: &'a str,
    stop: &'a Stop,
}

impl Stage<'_> {
    /// N requests at once, again and again.
    async fn waves(&self, target: &Target, n: usize) -> anyhow::Result<Wave> {
        let step = Step {
            load: Load::Closed { concurrency: n },
            warm_up: Duration::ZERO,
            lasts: Duration::from_hours(1),
            max_requests: Some(n as u64),
            timeout: self.args.load.timeout.max(Duration::from_mins(2)),
            threads: self.args.load.threads,
            slo: None,
            seed: 0,
        };
        let mut all = Vec::new();
        let (mut n_errors, mut said, mut batches) = (0, String::new(), Vec::new());
        while all.is_empty()
            || all.len() < MAX_WAVES
                && all.iter().map(|(wave, _)| *wave).sum::<Duration>() < ENOUGH
                && !self.stop.is_stopped()
        {
            let mut counts = counts(self.host, self.model);
            let watch = Watch { on_progress: &mut |_| {}, counts: Some(&mut counts) };
            let measured = load(target, &step, self.stop, watch).await?;
            let record = measured.record;
            all.push((record.last_done(), record.latency_at(0.5)));
            n_errors += record.faults().values().sum::<u64>();
            if said.is_empty() {
                record.said().clone_into(&mut said);
            }
            batches.extend(measured.batches.mean());
        }
        all.sort_unstable();
        let (wave, half) = all[all.len() / 2];
        #[expect(clippy::cast_precision_loss, reason = "waves are few")]
        let mean_batch =
            (!batches.is_empty()).then(|| batches.iter().sum::<f64>() / batches.len() as f64);
        Ok(Wave {
            all_ms: wave.as_secs_f64() * 1e3,
            p50_ms: half.as_secs_f64() * 1e3,
            waves: all.len(),
            mean_batch,
            n_errors,
            said,
        })
    }
}
