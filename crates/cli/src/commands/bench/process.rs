//! What a process has used so far, as Linux tells it; zeros elsewhere.

use std::{fmt::Display, fs};

/// Processor time, memory, and how often its threads were switched.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu_s: f64,
    pub(super) rss_mb: f64,
    pub(super) switches: f64,
}

impl Usage {
    /// Of this process.
    pub(super) fn now() -> Self {
        Self::of(&"self")
    }

    /// Of a process, by its id.
    pub(super) fn of(process: &dyn Display) -> Self {
        let folder = format!("/proc/{process}");
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        // Fields after the name in brackets; user and system time are the 12th and 13th of these.
        let stat = read(&format!("{folder}/stat"));
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 =
            fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
        let kib = sum(&read(&format!("{folder}/status")), &["VmRSS:"]);
        let threads = fs::read_dir(format!("{folder}/task")).into_iter().flatten().flatten();
        let switches = threads.map(|thread| {
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            sum(&status, &["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"])
        });
        // A tick is a hundredth of a second wherever Linux runs today.
        Self { cpu_s: ticks / 100.0, rss_mb: kib / 1024.0, switches: switches.sum() }
    }
}

/// The sum of the numbers that follow these names.
fn sum(status: &str, names: &[&str]) -> f64 {
    let value = |line: &str| {
        let rest = names.iter().find_map(|name| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<f64>().ok()
    };
    status.lines().filter_map(value).sum()
}
