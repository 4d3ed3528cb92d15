//! How a server is loaded, as written on the command line and as meant.

use std::{path::PathBuf, str::FromStr, time::Duration};

use anyhow::{Context as _, ensure};
use clap::Args;
use paceline_load::{Arrivals, Load, MAX_RATE, Step};

/// How the server is loaded.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadArgs {
    /// Closed loop: so many clients, each of whom sends again when it is answered; one run for
    /// each number
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 8, 32, 128], conflicts_with_all = ["rate", "find_max"])]
    pub(crate) concurrency: Vec<usize>,
    /// Open loop: so many requests are due each second, such as 500/s, whether or not the server
    /// keeps up; one run for each rate. Latency counts from when a request was due
    #[arg(long, value_name = "RATE,...", value_delimiter = ',')]
    rate: Vec<Rate>,
    /// When requests of an open loop are due: poisson, uniform, bursty (alternate seconds at 1.9
    /// and 0.1 times the rate), or a file with one time a line, in seconds since the start
    #[arg(long, value_name = "KIND|FILE", default_value = "poisson")]
    arrivals: ArrivalsArg,
    /// Open loop: most requests under way at once; more that are due wait, and are late
    #[arg(long, value_name = "N", default_value_t = 256)]
    in_flight: usize,
    /// The objective: an answer is good if it comes within this
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) slo: Option<Duration>,
    /// The share of requests that must be answered well within the objective for it to hold
    #[arg(long, value_name = "SHARE", default_value = "99%", value_parser = share)]
    slo_share: f64,
    /// Look for the highest rate at which the objective holds, beginning at --rate
    #[arg(long, requires = "slo")]
    pub(crate) find_max: bool,
    /// How long each run counts
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// How long each run goes before it counts
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    warm_up: Duration,
    /// Most requests of each run
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Longest that an answer is waited for
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Threads that send
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Seed of random due times; the same seed gives the same times
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw the result into this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// Bounds that keep a slip of the finger from becoming an attack.
const MAX_CALLERS: usize = 20_000;
const MAX_THREADS: usize = 256;
const MAX_DURATION: Duration = Duration::from_hours(24);

impl LoadArgs {
    /// Checks what clap cannot.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        for n in self.concurrency.iter().chain([&self.in_flight]) {
            ensure!(
                (1..=MAX_CALLERS).contains(n),
                "{n} requests at once; from 1 to {MAX_CALLERS} are possible"
            );
        }
        ensure!((1..=MAX_THREADS).contains(&self.threads), "--threads is from 1 to {MAX_THREADS}");
        for (name, time) in [("duration", self.duration), ("warm-up", self.warm_up)] {
            ensure!(time <= MAX_DURATION, "--{name} is at most a day");
        }
        ensure!(!self.duration.is_zero(), "--duration is more than nothing");
        Ok(())
    }

    /// The runs to make, in order; none where they depend on each other.
    pub(crate) fn steps(&self) -> anyhow::Result<Vec<Step>> {
        let open = |arrivals| self.step(Load::Open { arrivals, in_flight: self.in_flight });
        if let ArrivalsArg::File(path) = &self.arrivals {
            ensure!(self.rate.is_empty(), "a file of arrivals has its own rate; leave --rate out");
            let place = path.display();
            let text = std::fs::read_to_string(path).with_context(|| {
                format!("cannot read {place}; --arrivals takes poisson, uniform, bursty or a file")
            })?;
            let trace =
                Arrivals::read_trace(&text).with_context(|| format!("{place} is no trace"))?;
            return Ok(vec![open(trace)]);
        }
        if self.rate.is_empty() {
            let closed = |&concurrency: &usize| self.step(Load::Closed { concurrency });
            return Ok(self.concurrency.iter().map(closed).collect());
        }
        Ok(self.rate.iter().map(|rate| self.at_rate(rate.0)).collect())
    }

    /// An open loop at this rate.
    pub(crate) fn at_rate(&self, per_second: f64) -> Step {
        let arrivals = match self.arrivals {
            ArrivalsArg::Uniform => Arrivals::Uniform { per_second },
            ArrivalsArg::Bursty => Arrivals::Bursty { per_second },
            ArrivalsArg::Poisson | ArrivalsArg::File(_) => Arrivals::Poisson { per_second },
        };
        self.step(Load::Open { arrivals, in_flight: self.in_flight })
    }

    /// Where a search for the highest rate begins.
    pub(crate) fn first_rate(&self) -> f64 {
        self.rate.first().map_or(100.0, |rate| rate.0)
    }

    /// Whether so large a share within the objective is enough.
    pub(crate) fn holds(&self, share_in_slo: f64) -> bool {
        self.slo_share <= share_in_slo
    }

    /// How the runs are timed, in words.
    pub(crate) fn describe(&self) -> String {
        let (each, warm_up) =
            (humantime::format_duration(self.duration), humantime::format_duration(self.warm_up));
        format!("{each} each after {warm_up} of warm-up")
    }

    fn step(&self, load: Load) -> Step {
        Step {
            load,
            warm_up: self.warm_up,
            lasts: self.duration,
            max_requests: self.requests,
            timeout: self.timeout,
            threads: self.threads,
            slo: self.slo,
            seed: self.seed,
        }
    }
}

/// Requests a second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate: Option<f64> = text.strip_suffix("/s").unwrap_or(text).trim().parse().ok();
        rate.filter(|rate| 0.0 < *rate && *rate <= MAX_RATE)
            .map(Self)
            .ok_or_else(|| format!("write requests a second, such as 500/s, up to {MAX_RATE}"))
    }
}

#[derive(Debug, Clone, PartialEq)]
enum ArrivalsArg {
    Poisson,
    Uniform,
    Bursty,
    File(PathBuf),
}

impl FromStr for ArrivalsArg {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "poisson" => Self::Poisson,
            "uniform" => Self::Uniform,
            "bursty" => Self::Bursty,
            path => Self::File(path.into()),
        })
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "write a share such as 99% or 0.99".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn read(line: &str) -> LoadArgs {
        Line::try_parse_from(["bench"].into_iter().chain(line.split_whitespace())).unwrap().load
    }

    #[test]
    fn a_closed_loop_is_the_default_and_a_rate_opens_it() {
        let loads = |line: &str| -> Vec<Load> {
            read(line).steps().unwrap().into_iter().map(|step| step.load).collect()
        };

        assert_eq!(loads("").len(), 4);
        assert_eq!(loads("--concurrency 3"), [Load::Closed { concurrency: 3 }]);
        let open = |arrivals| Load::Open { arrivals, in_flight: 9 };
        assert_eq!(
            loads("--rate 500/s,20 --in-flight 9 --arrivals bursty"),
            [500.0, 20.0].map(|per_second| open(Arrivals::Bursty { per_second }))
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--rate 0",
            "--rate fast",
            "--rate 1e9",
            "--slo-share 120%",
            "--find-max",
            "--concurrency 1 --rate 5",
            "--duration soon",
        ] {
            let words = ["bench"].into_iter().chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
        for line in ["--concurrency 0", "--threads 0", "--duration 0s", "--duration 2days"] {
            assert!(read(line).check().is_err(), "{line}");
        }
        let error = read("--arrivals no-such-file").steps().unwrap_err();
        assert!(error.to_string().contains("poisson"), "{error}");
    }

    #[test]
    fn the_objective_holds_at_its_share() {
        let args = read("--slo 50ms --slo-share 99.5%");

        assert!(args.holds(0.995) && !args.holds(0.994));
    }
}
