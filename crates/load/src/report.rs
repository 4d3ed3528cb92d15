//! What a bench says: rows for a program, a table for a person. Pure.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use serde::Serialize;

use crate::{Load, Measured, Step};

/// A generator this busy may be what was measured.
const BUSY: f64 = 0.95;
/// Requests sent this late are worth a remark.
const LATE_MS: f64 = 1.0;

/// One bench.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was loaded, and how, in words.
    pub target: String,
    /// The objective.
    pub slo_ms: Option<f64>,
    /// The highest rate that held it, where that was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_per_s: Option<f64>,
    /// One per load.
    pub rows: Vec<Row>,
}

/// What one load gave.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Clients of a closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Requests due each second of an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered_per_s: Option<f64>,
    /// Good answers a second.
    pub answers_per_s: f64,
    /// Good answers within the objective a second.
    pub goodput_per_s: f64,
    /// The share of requests that got one, from 0 to 1.
    pub in_slo: f64,
    /// Mean latency.
    pub mean_ms: f64,
    /// Half of the requests were answered within this.
    pub p50_ms: f64,
    /// 90 of 100.
    pub p90_ms: f64,
    /// 99 of 100.
    pub p99_ms: f64,
    /// 999 of 1000.
    pub p999_ms: f64,
    /// All.
    pub max_ms: f64,
    /// 99 of 100 requests were sent at most this long after they were due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_late_p99_ms: Option<f64>,
    /// Requests that counted.
    pub n_requests: u64,
    /// Those without a good answer, by kind.
    pub errors: BTreeMap<String, u64>,
    /// What the server said with the first of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub said: String,
    /// Mean rows a model call, where the server says.
    pub mean_batch: Option<f64>,
    /// The share of its threads' time that the generator used.
    pub generator_busy: Option<f64>,
    /// Latency in milliseconds, and the share of requests within it.
    pub cdf: Vec<(f64, f64)>,
    /// Seconds since the start, and mean rows a model call since the point before.
    pub batches: Vec<(f64, f64)>,
}

impl Row {
    /// What a step gave.
    #[must_use]
    pub fn new(step: &Step, measured: &Measured) -> Self {
        let record = &measured.record;
        let at = |share| millis(record.latency_at(share));
        let (concurrency, offered_per_s) = match &step.load {
            Load::Closed { concurrency } => (Some(*concurrency), None),
            Load::Open { arrivals, .. } => (None, Some(arrivals.per_second(step.lasts))),
        };
        let shares = (0..=100).map(|n| f64::from(n) / 100.0).chain([0.995, 0.999, 0.9999]);
        let mut cdf: Vec<(f64, f64)> = shares.map(|share| (at(share), share)).collect();
        cdf.sort_by(|a, b| a.1.total_cmp(&b.1));
        let points = measured.batches.points().iter();
        Self {
            concurrency,
            offered_per_s,
            answers_per_s: record.answers_per_second(),
            goodput_per_s: record.goodput_per_second(),
            in_slo: record.share_in_slo(),
            mean_ms: millis(record.mean_latency()),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
            sent_late_p99_ms: offered_per_s.map(|_| millis(record.lag_at(0.99))),
            n_requests: record.n_offered(),
            errors: record.faults().iter().map(|(kind, &n)| (kind.to_string(), n)).collect(),
            said: record.said().to_owned(),
            mean_batch: measured.batches.mean(),
            generator_busy: measured.generator_busy,
            cdf,
            batches: points.map(|(at, mean)| (at.as_secs_f64(), *mean)).collect(),
        }
    }

    /// The load in a few characters.
    #[must_use]
    pub fn load(&self) -> String {
        match (self.concurrency, self.offered_per_s) {
            (Some(concurrency), _) => concurrency.to_string(),
            (_, Some(rate)) => format!("{}/s", figure(rate)),
            _ => String::new(),
        }
    }

    fn n_errors(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl Report {
    /// For a person.
    #[must_use]
    pub fn table(&self) -> String {
        let is_closed = self.rows.iter().all(|row| row.concurrency.is_some());
        let mut text = format!("{}\n\n", self.target);
        _ = write!(
            text,
            "{:>9}{:>12}{:>10}{:>10}{:>10}{:>10}{:>10}{:>8}",
            if is_closed { "clients" } else { "offered" },
            "answers/s",
            "p50 ms",
            "p90 ms",
            "p99 ms",
            "p99.9 ms",
            "max ms",
            "batch",
        );
        if self.slo_ms.is_some() {
            _ = write!(text, "{:>9}{:>12}", "in SLO", "goodput/s");
        }
        text.push_str("   errors\n");
        for row in &self.rows {
            _ = write!(text, "{:>9}{:>12}", row.load(), figure(row.answers_per_s));
            for latency in [row.p50_ms, row.p90_ms, row.p99_ms, row.p999_ms, row.max_ms] {
                _ = write!(text, "{:>10}", figure(latency));
            }
            let batch = row.mean_batch.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}"));
            _ = write!(text, "{batch:>8}");
            if self.slo_ms.is_some() {
                let in_slo = format!("{:.1}%", row.in_slo * 100.0);
                _ = write!(text, "{in_slo:>9}{:>12}", figure(row.goodput_per_s));
            }
            _ = writeln!(text, "{:>9}", row.n_errors());
        }
        self.remarks(&mut text);
        text
    }

    fn remarks(&self, text: &mut String) {
        text.push('\n');
        if let Some(slo) = self.slo_ms {
            _ = writeln!(text, "The objective is {} ms.", figure(slo));
        }
        if let Some(found) = self.found_per_s {
            _ = writeln!(text, "It holds up to {}/s.", figure(found));
        }
        for row in self.rows.iter().filter(|row| row.n_errors() != 0) {
            let kinds = row.errors.iter().map(|(kind, n)| format!("{kind} {n} times"));
            let kinds: Vec<_> = kinds.collect();
            _ = write!(text, "At {}: {}", row.load(), kinds.join(", "));
            if row.said.is_empty() {
                text.push_str(".\n");
            } else {
                let said: String =
                    row.said.chars().take(200).flat_map(char::escape_debug).collect();
                _ = writeln!(text, "; the server said \"{said}\".");
            }
        }
        let worst = |of: fn(&Row) -> Option<f64>, from: f64| {
            let all = self.rows.iter().filter_map(|row| Some((row, of(row)?)));
            all.filter(|(_, value)| from <= *value).max_by(|a, b| a.1.total_cmp(&b.1))
        };
        if let Some((row, late)) = worst(|row| row.sent_late_p99_ms, LATE_MS) {
            _ = writeln!(
                text,
                "At {}, one request in a hundred was sent {} ms or more after it was due. Latency counts from when it was due.",
                row.load(),
                figure(late),
            );
        }
        if let Some((row, busy)) = worst(|row| row.generator_busy, BUSY) {
            _ = writeln!(
                text,
                "At {}, the generator used {:.0} % of its threads' time and may be the limit; --threads adds some.",
                row.load(),
                busy * 100.0,
            );
        }
        if text.ends_with("\n\n") {
            text.pop();
        }
    }
}

/// A number with about three digits.
#[must_use]
pub fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        ..0.9995 => 3,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_about_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.5, "0.5"),
            (1.234, "1.23"),
            (50.0, "50"),
            (99.96, "100"),
            (12345.6, "12346"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
