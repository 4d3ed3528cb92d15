//! What a run found, as JSON and as a table.

use std::fmt::Write as _;

use serde::Serialize;

/// What a run found. Counts are of all frames, warm-up included; times and costs are not.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    pub(super) cameras: u32,
    /// What the frames carry.
    pub(super) payload: String,
    pub(super) rate: f64,
    pub(super) frames_in: u64,
    pub(super) committed: u64,
    pub(super) dropped: u64,
    pub(super) dead_lettered: u64,
    /// Frames that Redis took and that ended in no way.
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) reordered: u64,
    /// Results that are not the answer to their frame.
    pub(super) wrong: u64,
    /// Frames that Redis did not take.
    pub(super) refused: u64,
    pub(super) fps: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
    /// The most that a frame was sent after it was due; part of its latency.
    pub(super) sent_late_ms: f64,
    /// Everything that Redis did for a frame: adding, reading, committing, reading the result.
    pub(super) redis_cpu_us_per_frame: f64,
    pub(super) server_cpu_us_per_frame: Option<f64>,
    /// Memory of the server when the warm-up was over.
    pub(super) rss_begin_mb: Option<f64>,
    pub(super) rss_mb: Option<f64>,
    pub(super) context_switches_per_frame: Option<f64>,
    /// The same frames, read by 32 tasks, one command for each camera and one for each frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed_style: Option<Other>,
    /// The same frames, read by a task for each camera.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) one_task_per_camera: Option<Other>,
}

/// Another way of reading, which infers nothing and writes no results.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Other {
    pub(super) tasks: u32,
    pub(super) fps: f64,
    pub(super) redis_cpu_us_per_frame: f64,
    pub(super) context_switches_per_frame: f64,
}

/// What a rate search found.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Found {
    /// The highest rate that was held, in frames a second.
    pub(super) highest_rate: Option<f64>,
    /// Every rate that was tried, the lowest first.
    pub(super) runs: Vec<Report>,
}

impl Found {
    pub(super) fn text(&self) -> String {
        let verdict = match self.highest_rate {
            Some(rate) => format!("the highest rate that is held: {rate:.0} frames/s\n"),
            None => "no rate is held\n".to_owned(),
        };
        table(&self.runs) + &verdict
    }
}

impl Report {
    /// Whether this rate is held: every frame has its result in time, counted from when it was due, so
    /// that whoever falls behind is late.
    pub(super) fn is_held(&self, p99_ms: f64) -> bool {
        let amiss = self.lost + self.duplicated + self.reordered + self.wrong + self.refused;
        amiss == 0 && self.p99_ms < p99_ms
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
    pub(super) const fn count(n: u64) -> f64 {
        n as f64
    }
}

pub(super) fn table(reports: &[Report]) -> String {
    let mut text = format!(
        "{:>8}{:>8}{:>10}{:>10}{:>7}{:>8}{:>7}{:>9}{:>9}{:>9}{:>12}{:>13}{:>9}{:>11}\n",
        "cameras",
        "payload",
        "offered",
        "fps",
        "lost",
        "doubled",
        "order",
        "p50 ms",
        "p99 ms",
        "max ms",
        "redis us/f",
        "server us/f",
        "rss MB",
        "switches/f"
    );
    for report in reports {
        let or_dash = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        _ = writeln!(
            text,
            "{:>8}{:>8}{:>10.0}{:>10.0}{:>7}{:>8}{:>7}{:>9.0}{:>9.0}{:>9.0}{:>12.1}{:>13}{:>9}{:>11}",
            report.cameras,
            report.payload,
            report.rate,
            report.fps,
            report.lost,
            report.duplicated,
            report.reordered,
            report.p50_ms,
            report.p99_ms,
            report.max_ms,
            report.redis_cpu_us_per_frame,
            or_dash(report.server_cpu_us_per_frame, 1),
            or_dash(report.rss_mb, 0),
            or_dash(report.context_switches_per_frame, 2),
        );
        for (name, other) in [
            ("as an older system reads", &report.seed_style),
            ("one task for each camera", &report.one_task_per_camera),
        ] {
            if let Some(other) = other {
                _ = writeln!(
                    text,
                    "  {name}, {} tasks: {:.0} frames/s, {:.1} us of Redis and {:.2} switches a frame",
                    other.tasks,
                    other.fps,
                    other.redis_cpu_us_per_frame,
                    other.context_switches_per_frame,
                );
            }
        }
        if 0 < report.dropped + report.dead_lettered + report.wrong + report.refused {
            _ = writeln!(
                text,
                "  {} dropped, {} dead letters, {} wrong, {} refused",
                report.dropped, report.dead_lettered, report.wrong, report.refused
            );
        }
    }
    text
}
