//! Draws what was measured, as SVG that reads well on a light and on a dark page. Pure.

mod panel;
mod scale;

use std::fmt::Write as _;

use self::{
    panel::{Axis, Line, Panel, Place},
    scale::Kind,
};
use crate::{
    report::{Report, Row},
    stress::{Stress, StressModel, Wave},
};

const WIDTH: f64 = 960.0;
const PANEL_HEIGHT: f64 = 300.0;
const HEAD: f64 = 56.0;
/// Colours that lines have, one after the other.
const COLOURS: usize = 6;
/// Most distributions in one panel.
const MAX_CDFS: usize = 6;

const STYLE: &str = "\
.card{fill:#fff;stroke:#d0d7de}
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}
.head{font-size:15px;font-weight:600}.title{font-size:13px;font-weight:600}.name{font-weight:600}
.muted{fill:#59636e;font-size:11px}.end{text-anchor:end}.mid{text-anchor:middle}
.grid{stroke:#d0d7de;stroke-opacity:.6}.axis{stroke:#8c959f}
.line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}.dashed{stroke-dasharray:3 5}
.s0{stroke:#0969da}.s1{stroke:#bf5b04}.s2{stroke:#cf222e}.s3{stroke:#1a7f37}.s4{stroke:#8250df}.s5{stroke:#6e7781}
.t0{fill:#0969da}.t1{fill:#bf5b04}.t2{fill:#cf222e}.t3{fill:#1a7f37}.t4{fill:#8250df}.t5{fill:#6e7781}
@media (prefers-color-scheme:dark){
.card{fill:#0d1117;stroke:#30363d}text{fill:#e6edf3}.muted{fill:#9198a1}.grid{stroke:#30363d}.axis{stroke:#6e7681}
.s0{stroke:#58a6ff}.s1{stroke:#f0883e}.s2{stroke:#ff7b72}.s3{stroke:#56d364}.s4{stroke:#bc8cff}.s5{stroke:#9198a1}
.t0{fill:#58a6ff}.t1{fill:#f0883e}.t2{fill:#ff7b72}.t3{fill:#56d364}.t4{fill:#bc8cff}.t5{fill:#9198a1}}
";

/// Latency and throughput by load, the distribution of latency, and batch sizes over time.
#[must_use]
pub fn draw_report(report: &Report) -> String {
    let rows = &report.rows;
    let is_closed = rows.iter().all(|row| row.concurrency.is_some());
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|a, b| load(a).total_cmp(&load(b)));
    let ticks: Vec<f64> =
        if is_closed { sorted.iter().map(|row| load(row)).collect() } else { Vec::new() };
    let by_load = || {
        let label = if is_closed { "clients at once" } else { "requests offered a second" };
        let mut axis = Axis::new(label, if is_closed { Kind::Log } else { Kind::Linear });
        axis.ticks.clone_from(&ticks);
        axis
    };
    let line = |name: &str, colour, value: &dyn Fn(&Row) -> f64| Line {
        points: sorted.iter().map(|row| (load(row), value(row))).collect(),
        ..dotted(name, colour)
    };
    let mut latency = vec![
        line("p50", 0, &|row| row.p50_ms),
        line("p90", 3, &|row| row.p90_ms),
        line("p99", 1, &|row| row.p99_ms),
        line("p99.9", 2, &|row| row.p999_ms),
    ];
    let mut throughput = vec![line("answers", 0, &|row| row.answers_per_s)];
    if let Some(slo) = report.slo_ms {
        latency.push(Line { is_dashed: true, has_dots: false, ..line("objective", 5, &|_| slo) });
        throughput.push(line("in time", 3, &|row| row.goodput_per_s));
    }
    if !is_closed {
        let offered = line("offered", 5, &load);
        throughput.push(Line { is_dashed: true, has_dots: false, ..offered });
    }
    let mut panels = vec![
        Panel {
            title: "Latency".to_owned(),
            x: by_load(),
            y: Axis::new("milliseconds", Kind::Log),
            lines: latency,
        },
        Panel {
            title: "Throughput".to_owned(),
            x: by_load(),
            y: Axis::new("a second", Kind::Linear),
            lines: throughput,
        },
        Panel {
            title: "Distribution of latency".to_owned(),
            x: Axis::new("milliseconds", Kind::Log),
            y: Axis::new("% of requests within it", Kind::Linear),
            lines: per_load(&sorted, |row| {
                row.cdf.iter().map(|&(at, share)| (at, share * 100.0)).collect()
            }),
        },
    ];
    let batches = per_load(&sorted, |row| row.batches.clone());
    if batches.iter().any(|line| !line.points.is_empty()) {
        panels.push(Panel {
            title: "Batch sizes over time".to_owned(),
            x: Axis::new("seconds since the start", Kind::Linear),
            y: Axis::new("mean rows a model call", Kind::Linear),
            lines: batches,
        });
    }
    drawing(&report.target, &panels)
}

/// One by one against batched, a panel for each model.
#[must_use]
pub fn draw_stress(stress: &Stress) -> String {
    let line = |model: &StressModel, name: &str, colour, wave: &dyn Fn(usize) -> f64| Line {
        points: (0..model.rows.len()).map(|at| (as_f64(model.rows[at].n), wave(at))).collect(),
        ..dotted(name, colour)
    };
    let mut panels = Vec::new();
    for model in &stress.models {
        let x = || Axis {
            ticks: model.rows.iter().map(|row| as_f64(row.n)).collect(),
            ..Axis::new("requests at once", Kind::Log)
        };
        let per_second = |n: usize, wave: &Wave| as_f64(n) * 1e3 / wave.all_ms.max(1e-6);
        panels.push(Panel {
            title: format!("{}: until the last answer", model.name),
            x: x(),
            y: Axis::new("milliseconds", Kind::Log),
            lines: vec![
                line(model, "one by one", 1, &|at| model.rows[at].one_by_one.all_ms),
                line(model, "batched", 0, &|at| model.rows[at].batched.all_ms),
            ],
        });
        let row = |at: usize| &model.rows[at];
        panels.push(Panel {
            title: "Answers a second".to_owned(),
            x: x(),
            y: Axis::new("a second", Kind::Linear),
            lines: vec![
                line(model, "one by one", 1, &|at| per_second(row(at).n, &row(at).one_by_one)),
                line(model, "batched", 0, &|at| per_second(row(at).n, &row(at).batched)),
            ],
        });
    }
    drawing("N requests at once: one by one against batched", &panels)
}

/// Lines by name over one quantity.
#[derive(Debug, Clone)]
pub struct CurvePanel {
    /// What it shows.
    pub title: String,
    /// What goes to the right.
    pub x: String,
    /// What goes up.
    pub y: String,
    /// Each line's name and points.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// Any lines over any quantity, which is drawn on a logarithmic axis.
#[must_use]
pub fn draw_curves(head: &str, panels: &[CurvePanel]) -> String {
    let panels: Vec<Panel> = panels
        .iter()
        .map(|panel| Panel {
            title: panel.title.clone(),
            x: Axis {
                ticks: panel
                    .lines
                    .first()
                    .map_or_else(Vec::new, |(_, points)| points.iter().map(|(x, _)| *x).collect()),
                ..Axis::new(&panel.x, Kind::Log)
            },
            y: Axis::new(&panel.y, Kind::Linear),
            lines: panel
                .lines
                .iter()
                .enumerate()
                .map(|(at, (name, points))| Line {
                    points: points.clone(),
                    ..dotted(name, at % COLOURS)
                })
                .collect(),
        })
        .collect();
    drawing(head, &panels)
}

fn load(row: &Row) -> f64 {
    row.offered_per_s.or(row.concurrency.map(as_f64)).unwrap_or(0.0)
}

/// One line for each load, or for some of them where there are many.
fn per_load(rows: &[&Row], points: impl Fn(&Row) -> Vec<(f64, f64)>) -> Vec<Line> {
    let every = rows.len().div_ceil(MAX_CDFS).max(1);
    // The highest load is always among them.
    let shown = rows.iter().rev().step_by(every).rev();
    shown
        .enumerate()
        .map(|(number, row)| Line {
            points: points(row),
            has_dots: false,
            ..dotted(&row.load(), number % COLOURS)
        })
        .collect()
}

fn dotted(name: &str, colour: usize) -> Line {
    Line { name: name.to_owned(), colour, is_dashed: false, has_dots: true, points: Vec::new() }
}

fn drawing(head: &str, panels: &[Panel]) -> String {
    let rows = panels.len().div_ceil(2);
    let height = HEAD + as_f64(rows) * PANEL_HEIGHT + 8.0;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">
<title>{title}</title>
<style>{STYLE}</style>
<rect class="card" x=".5" y=".5" width="{}" height="{}" rx="8"/>
<text class="head" x="24" y="34">{title}</text>
"#,
        WIDTH - 1.0,
        height - 1.0,
        title = escape(head),
    );
    let width = WIDTH / 2.0;
    for (number, panel) in panels.iter().enumerate() {
        let place = Place {
            x: as_f64(number % 2) * width,
            y: HEAD + as_f64(number / 2) * PANEL_HEIGHT,
            width,
            height: PANEL_HEIGHT,
        };
        panel.draw(place, &mut svg);
    }
    _ = writeln!(svg, "</svg>");
    svg
}

/// Text as XML has it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no control characters, not even escaped.
            _ if character.is_control() => escaped.push(' '),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[expect(clippy::cast_precision_loss, reason = "counts in a drawing are small")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(all_ms: f64) -> Wave {
        Wave {
            all_ms,
            p50_ms: all_ms,
            waves: 1,
            mean_batch: None,
            n_errors: 0,
            said: String::new(),
        }
    }

    #[test]
    fn hostile_names_stay_text_and_every_number_is_one() {
        let rows = [1, 500].map(|n| crate::StressRow {
            n,
            one_by_one: wave(f64::NAN),
            batched: wave(0.0),
        });
        let name = "</text><script>\"&\u{1}".to_owned();
        let stress = Stress { models: vec![StressModel { name, rows: rows.to_vec() }] };

        let svg = draw_stress(&stress);

        assert!(!svg.contains("<script") && !svg.contains('\u{1}'));
        assert!(svg.contains("&lt;/text&gt;&lt;script&gt;&quot;&amp; : until"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
