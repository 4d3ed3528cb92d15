//! What this process has used so far, as Linux tells it; zeros elsewhere.

/// Processor time and memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu_s: f64,
    pub(super) rss_mb: f64,
}

impl Usage {
    pub(super) fn now() -> Self {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        // Fields after the name in brackets; user and system time are the 12th and 13th of these.
        let stat = read("/proc/self/stat");
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 =
            fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
        let status = read("/proc/self/status");
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = rss.and_then(|rss| rss.split_whitespace().next()?.parse::<f64>().ok());
        // A tick is a hundredth of a second wherever Linux runs today.
        Self { cpu_s: ticks / 100.0, rss_mb: kib.unwrap_or(0.0) / 1024.0 }
    }
}
