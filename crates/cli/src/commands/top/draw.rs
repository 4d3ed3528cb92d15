//! One picture of a server, as lines of text. Pure.

use super::sample::{Landed, Rates, Sample, Seen};

/// How much room there is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Canvas {
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) has_colours: bool,
}

impl Canvas {
    /// Where nobody looks at it live.
    pub(super) const PLAIN: Self = Self { columns: 140, rows: usize::MAX, has_colours: false };
}

/// Why batches leave: its name, what stands for it in a strip, and its colour.
const REASONS: [(&str, char, u8); 6] = [
    ("fast_path", 'f', 36),
    ("full", 'F', 32),
    ("early", 'e', 34),
    ("wait_over", 'w', 33),
    ("deadline", 'd', 31),
    ("drain", 'x', 35),
];

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The picture. `chosen` is the model that more is told of.
pub(super) fn draw(
    url: &str,
    sample: &Sample,
    rates: &Rates,
    chosen: usize,
    canvas: Canvas,
) -> String {
    let mut lines = vec![
        format!(
            "paceline {}  {}  {}  streams {}/{}, {} segments",
            sample.version,
            plain(url),
            if sample.ready { "ready" } else { "NOT READY" },
            sample.speech.open,
            sample.speech.max,
            sample.speech.segments,
        ),
        format!(
            "  {:<24}{:>9}{:>8}{:>8}{:>8}{:>9}{:>9}{:>9}{:>7}{:>7}{:>8}{:>6}{:>6}",
            "model",
            "good/s",
            "fail/s",
            "ref/s",
            "miss/s",
            "p50",
            "p99",
            "wait99",
            "batch",
            "bat/s",
            "queue",
            "busy",
            "pad"
        ),
    ];
    for (at, seen) in sample.models.iter().enumerate() {
        lines.push(row(seen, rates, at == chosen));
    }
    if let Some(seen) = sample.models.get(chosen) {
        lines.push(String::new());
        lines.extend(details(seen, canvas));
    }
    lines.truncate(canvas.rows.saturating_sub(1));
    lines.iter().map(|line| clipped(line, canvas.columns) + "\n").collect()
}

fn row(seen: &Seen, rates: &Rates, is_chosen: bool) -> String {
    let (stats, rate) = (&seen.stats, rates.of(seen));
    let name = format!("{}:{}", plain(&seen.name), plain(&stats.version));
    format!(
        "{} {:<24}{:>9.1}{:>8.1}{:>8.1}{:>8.1}{:>9}{:>9}{:>9}{:>7.1}{:>7.0}{:>8}{:>6}{:>5.0}%",
        if is_chosen { '>' } else { ' ' },
        name.chars().take(23).collect::<String>(),
        rate.good,
        rate.failed,
        rate.refused,
        rate.missed,
        time(stats.requests.latency.p50_us),
        time(stats.requests.latency.p99_us),
        time(stats.queue.wait.p99_us),
        rate.requests_per_batch,
        rate.batches,
        stats.queue.items,
        format!(
            "{}/{}",
            stats.batches.in_flight,
            seen.explain.as_ref().map_or(0, |explain| explain.devices)
        ),
        stats.batches.padding_share * 100.0,
    )
}

fn details(seen: &Seen, canvas: Canvas) -> Vec<String> {
    let stats = &seen.stats;
    let mut lines = Vec::new();
    if let Some(trouble) = &stats.trouble {
        lines.push(format!("  trouble: {}", plain(trouble)));
    }
    let all = stats.batches.count.max(1);
    let share = |count: u64| percent(count, all);
    let fired = REASONS.iter().map(|(name, mark, colour)| {
        let count = stats.batches.fired.get(*name).copied().unwrap_or(0);
        coloured(&format!("{mark} {name} {:.0}%", share(count)), *colour, canvas)
    });
    lines.push(format!("  why batches left: {}", fired.collect::<Vec<_>>().join("  ")));
    let most = stats.batches.rows.iter().map(|bin| bin.count).max().unwrap_or(1).max(1);
    let sizes = stats
        .batches
        .rows
        .iter()
        .map(|bin| format!("{} {}", bin.upto, BARS[height(bin.count, most)]));
    lines.push(format!("  rows in a batch:  {}", sizes.collect::<Vec<_>>().join("  ")));
    let Some(explain) = &seen.explain else { return lines };
    for queue in explain.queues.iter().take(3) {
        lines.push(format!("  now: {}", plain(&queue.decision)));
    }
    lines.push("  last batches, newest last; as high as they were full:".to_owned());
    let room = canvas.columns.saturating_sub(4).max(1);
    let last = &explain.batches[explain.batches.len().saturating_sub(room)..];
    let mut strip = String::from("  ");
    for batch in last {
        let bar = BARS[height(batch.rows, stats.max_batch.max(1))];
        strip += &coloured(&bar.to_string(), colour(batch), canvas);
    }
    lines.push(strip);
    for batch in last.iter().rev().take(5) {
        lines.push(format!(
            "    {:>5} rows  {:<10} waited {:>8}  took {:>8}{}",
            batch.rows,
            plain(&batch.fired),
            time(batch.longest_wait_us),
            time(batch.took_us),
            if batch.failed == 0 { String::new() } else { format!("  {} FAILED", batch.failed) },
        ));
    }
    lines
}

fn colour(batch: &Landed) -> u8 {
    if batch.failed != 0 {
        return 41;
    }
    REASONS.iter().find(|(name, ..)| *name == batch.fired).map_or(37, |(.., colour)| *colour)
}

fn coloured(text: &str, colour: u8, canvas: Canvas) -> String {
    if canvas.has_colours { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Which of the bars.
fn height(part: u64, whole: u64) -> usize {
    let eighths = u128::from(part) * (BARS.len() as u128) / u128::from(whole.max(1));
    usize::try_from(eighths).unwrap_or(BARS.len()).saturating_sub(1).min(BARS.len() - 1)
}

#[expect(clippy::cast_precision_loss, reason = "a share is approximate")]
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Microseconds in few letters.
fn time(micros: f64) -> String {
    match micros {
        micros if micros < 1e3 => format!("{micros:.0}us"),
        micros if micros < 1e6 => format!("{:.1}ms", micros / 1e3),
        micros => format!("{:.2}s", micros / 1e6),
    }
}

/// What a server says, without anything that a terminal would obey.
fn plain(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(200).collect()
}

/// At most so many columns; escapes take none.
fn clipped(line: &str, columns: usize) -> String {
    let (mut clipped, mut width, mut is_escape) = (String::new(), 0, false);
    for char in line.chars() {
        is_escape |= char == '\u{1b}';
        if !is_escape {
            width += 1;
            if columns < width {
                continue;
            }
        }
        clipped.push(char);
        is_escape &= char != 'm';
    }
    clipped
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::commands::top::sample::{Batches, Bin, Explain, QueueView, Served, Speech};

    fn sample(good: u64) -> Sample {
        let fired = [("full".to_owned(), 3), ("fast_path".to_owned(), 1)].into();
        let rows = vec![Bin { upto: 1, count: 1 }, Bin { upto: 8, count: 3 }];
        let batches = Batches { count: 4, fired, rows, ..Batches::default() };
        let mut stats =
            Served { version: "1".to_owned(), max_batch: 8, batches, ..Served::default() };
        stats.requests.good = good;
        stats.requests.latency.p99_us = 1234.0;
        let batch =
            |fired: &str, rows| Landed { fired: fired.to_owned(), rows, ..Landed::default() };
        let explain = Explain {
            devices: 1,
            queues: vec![QueueView { decision: "leave \u{1b}[31mnow".to_owned() }],
            batches: vec![batch("fast_path", 1), batch("full", 8)],
        };
        Sample {
            at: Instant::now(),
            version: "0".to_owned(),
            ready: true,
            speech: Speech::default(),
            models: vec![Seen { name: "echo".to_owned(), stats, explain: Some(explain) }],
        }
    }

    #[test]
    fn a_picture_has_the_numbers_and_why_batches_left() {
        let (before, now) = (sample(10), sample(10));
        let rates = Rates::between(Some(&before), &now);

        let picture = draw("http://h", &now, &rates, 0, Canvas::PLAIN);

        for expected in
            ["> echo:1", "1.2ms", "F full 75%", "f fast_path 25%", "8 █", "▁█", "leave [31mnow"]
        {
            assert!(picture.contains(expected), "{expected}:\n{picture}");
        }
        assert!(!picture.contains('\u{1b}'), "nothing that a terminal obeys");
    }

    #[test]
    fn no_line_is_wider_or_lower_than_the_terminal() {
        let now = sample(0);
        let canvas = Canvas { columns: 30, rows: 6, has_colours: true };
        let picture = draw("http://h", &now, &Rates::default(), 0, canvas);

        assert!(picture.lines().count() < 6);
        for line in picture.lines() {
            let mut bare = line.to_owned();
            for (.., colour) in REASONS {
                bare = bare.replace(&format!("\u{1b}[{colour}m"), "");
            }
            assert!(bare.replace("\u{1b}[0m", "").chars().count() <= 30, "{line:?}");
        }
    }
}
