//! Writes the text format of Prometheus.

use std::fmt::{self, Write as _};

use paceline_batch::Histogram;

use super::table::{Family, Kind};

/// A page that is being written.
#[derive(Debug, Default)]
pub(super) struct Page(String);

/// Longest value of a label.
const MAX_LABEL: usize = 128;

impl Page {
    /// Begins a metric; all its series follow.
    pub(super) fn family(&mut self, family: &'static Family) -> Series<'_> {
        let Family { name, kind, help, .. } = family;
        let kind = kind.as_str();
        put(&mut self.0, format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Series { page: &mut self.0, family }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// The series of one metric.
pub(super) struct Series<'a> {
    page: &'a mut String,
    family: &'static Family,
}

impl Series<'_> {
    /// One number, with a value for each of the metric's labels.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
    pub(super) fn count(&mut self, labels: &[&str], value: u64) {
        self.value(labels, value as f64);
    }

    /// As [`count`](Self::count), for sizes.
    pub(super) fn size(&mut self, labels: &[&str], value: usize) {
        self.count(labels, value as u64);
    }

    /// As [`count`](Self::count), for what is or is not.
    pub(super) fn flag(&mut self, labels: &[&str], value: bool) {
        self.count(labels, u64::from(value));
    }

    /// As [`count`](Self::count), for any number.
    pub(super) fn value(&mut self, labels: &[&str], value: f64) {
        debug_assert_ne!(self.family.kind, Kind::Histogram, "{}", self.family.name);
        self.line("", labels, None, value);
    }

    /// A distribution, in the units of `scale`.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus has floats only")]
    pub(super) fn histogram(&mut self, labels: &[&str], histogram: &Histogram, scale: &Scale) {
        debug_assert_eq!(self.family.kind, Kind::Histogram, "{}", self.family.name);
        let mut bins = histogram.bins().peekable();
        let mut seen = 0;
        for edge in scale.edges() {
            while let Some((_, count)) = bins.next_if(|(upto, _)| *upto <= edge) {
                seen += count;
            }
            let edge = edge as f64 / scale.unit;
            self.line("_bucket", labels, Some(edge), seen as f64);
        }
        let count = histogram.count() as f64;
        self.line("_bucket", labels, Some(f64::INFINITY), count);
        self.line("_sum", labels, None, histogram.sum() as f64 / scale.unit);
        self.line("_count", labels, None, count);
    }

    fn line(&mut self, suffix: &str, labels: &[&str], upto: Option<f64>, value: f64) {
        debug_assert_eq!(labels.len(), self.family.labels.len(), "{}", self.family.name);
        put(self.page, format_args!("{}{suffix}", self.family.name));
        let mut before = '{';
        for (name, value) in self.family.labels.iter().zip(labels) {
            put(self.page, format_args!("{before}{name}=\"{}\"", Escaped(value)));
            before = ',';
        }
        match upto {
            Some(f64::INFINITY) => put(self.page, format_args!("{before}le=\"+Inf\"}}")),
            Some(upto) => put(self.page, format_args!("{before}le=\"{upto}\"}}")),
            None if before == ',' => self.page.push('}'),
            None => {}
        }
        put(self.page, format_args!(" {value}\n"));
    }
}

fn put(page: &mut String, text: fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    page.write_fmt(text).ok();
}

/// Where a histogram is cut, and what is counted in it.
#[derive(Debug)]
pub(super) struct Scale {
    /// The first and the last edge as powers of two, in what is counted.
    from: u32,
    to: u32,
    /// So many of what is counted are one of what is shown.
    unit: f64,
}

impl Scale {
    /// Nanoseconds as seconds, from 16 µs to 34 s.
    pub(super) const SECONDS: Self = Self { from: 14, to: 35, unit: 1e9 };
    /// The same as milliseconds.
    pub(super) const MILLISECONDS: Self = Self { from: 14, to: 35, unit: 1e6 };
    /// Rows of a batch, up to 4096.
    pub(super) const ROWS: Self = Self { from: 0, to: 12, unit: 1.0 };
    /// Thousandths, from an eighth to eight times.
    pub(super) const RATIO: Self = Self { from: 7, to: 13, unit: 1000.0 };

    /// Each power of two and one and a half times it: where bins of a [`Histogram`] end, so that
    /// counts are exact.
    fn edges(&self) -> impl Iterator<Item = u64> {
        (self.from..self.to)
            .flat_map(|power| [1 << power, 3 << power >> 1])
            .chain([1 << self.to])
            // Three halves of one are one again.
            .filter(|edge| *edge != 0)
            .scan(0, |last, edge| Some((edge != std::mem::replace(last, edge)).then_some(edge)))
            .flatten()
    }
}

/// A label's value as the format wants it, and not too long.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars().take(MAX_LABEL) {
            match char {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                char => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::table, *};

    #[test]
    fn a_label_cannot_break_out_of_its_quotes() {
        let mut page = Page::default();
        page.family(&table::INFO).flag(&["a\"} 1\nx{y=\"\\"], true);

        let text = page.finish();
        assert!(text.ends_with("paceline_info{version=\"a\\\"} 1\\nx{y=\\\"\\\\\"} 1\n"), "{text}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn counts_up_to_each_edge_are_exact() {
        for scale in [Scale::SECONDS, Scale::ROWS, Scale::RATIO] {
            let edges: Vec<u64> = scale.edges().collect();
            assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{edges:?}");
            for edge in edges {
                let mut histogram = Histogram::default();
                histogram.record(edge);
                assert_eq!(histogram.bins().next(), Some((edge, 1)), "bins end there");
            }
        }
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_all() {
        let mut histogram = Histogram::default();
        for rows in [1, 2, 2, 8, 9, 5000] {
            histogram.record(rows);
        }
        let mut page = Page::default();
        page.family(&table::BATCH_ROWS).histogram(&["m", "1"], &histogram, &Scale::ROWS);

        let text = page.finish();
        let bucket = |le: &str| {
            let start =
                format!("paceline_batch_rows_bucket{{model=\"m\",version=\"1\",le=\"{le}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&start));
            line.unwrap_or_else(|| panic!("{le}: {text}")).to_owned()
        };
        assert_eq!([bucket("1"), bucket("2"), bucket("8"), bucket("12")], ["1", "3", "4", "5"]);
        assert_eq!([bucket("4096"), bucket("+Inf")], ["5", "6"]);
        assert!(
            text.contains("paceline_batch_rows_sum{model=\"m\",version=\"1\"} 5022\n"),
            "{text}"
        );
    }
}
