//! One by one against batched: N requests at once, and how long until the last is answered. Pure.

use std::fmt::Write as _;

use serde::Serialize;

use crate::report::figure;

/// One stress test.
#[derive(Debug, Clone, Serialize)]
pub struct Stress {
    /// One per model.
    pub models: Vec<StressModel>,
}

/// One model under stress.
#[derive(Debug, Clone, Serialize)]
pub struct StressModel {
    /// What it is, in words.
    pub name: String,
    /// One per number of requests at once.
    pub rows: Vec<StressRow>,
}

/// So many requests at once.
#[derive(Debug, Clone, Serialize)]
pub struct StressRow {
    /// How many.
    pub n: usize,
    /// Each with a model call of its own.
    pub one_by_one: Wave,
    /// Sharing model calls.
    pub batched: Wave,
}

/// What became of N requests at once.
#[derive(Debug, Clone, Serialize)]
pub struct Wave {
    /// From the first request to the last answer; the median, where it was done more than once.
    pub all_ms: f64,
    /// Half of the requests were answered within this.
    pub p50_ms: f64,
    /// How often it was done.
    pub waves: usize,
    /// Mean rows a model call.
    pub mean_batch: Option<f64>,
    /// Requests without a good answer.
    pub n_errors: u64,
    /// What the server said with the first of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub said: String,
}

impl Stress {
    /// For a person.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::from(
            "N requests at once: milliseconds until the last is answered, and until half are.\n",
        );
        for model in &self.models {
            _ = write!(
                text,
                "\n{}\n{:>6}{:>14}{:>10}{:>12}{:>10}{:>8}{:>9}{:>9}\n",
                model.name,
                "N",
                "one by one",
                "half",
                "batched",
                "half",
                "batch",
                "faster",
                "errors",
            );
            for StressRow { n, one_by_one, batched } in &model.rows {
                let batch =
                    batched.mean_batch.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}"));
                _ = writeln!(
                    text,
                    "{n:>6}{:>14}{:>10}{:>12}{:>10}{batch:>8}{:>8}x{:>9}",
                    figure(one_by_one.all_ms),
                    figure(one_by_one.p50_ms),
                    figure(batched.all_ms),
                    figure(batched.p50_ms),
                    figure(one_by_one.all_ms / batched.all_ms.max(f64::MIN_POSITIVE)),
                    one_by_one.n_errors + batched.n_errors,
                );
            }
            let waves = model.rows.iter().flat_map(|row| [&row.one_by_one, &row.batched]);
            if let Some(wave) = waves.into_iter().find(|wave| !wave.said.is_empty()) {
                let said: String =
                    wave.said.chars().take(200).flat_map(char::escape_debug).collect();
                _ = writeln!(text, "The server said \"{said}\".");
            }
        }
        text
    }
}
