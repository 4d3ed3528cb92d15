//! One set of axes with lines on it, as SVG.

use std::fmt::Write as _;

use super::{
    escape,
    scale::{Kind, Scale, label},
};

/// Room around the lines.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 92.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 46.0;
/// Least distance between two labels, one above the other and side by side.
const LABEL_HEIGHT: f64 = 14.0;
const LABEL_WIDTH: f64 = 34.0;

/// One set of axes with lines on it.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug, Clone)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) kind: Kind,
    /// Values to name instead of round ones.
    pub(crate) ticks: Vec<f64>,
}

impl Axis {
    pub(crate) fn new(label: &str, kind: Kind) -> Self {
        Self { label: label.to_owned(), kind, ticks: Vec::new() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Which colour.
    pub(crate) colour: usize,
    pub(crate) is_dashed: bool,
    pub(crate) has_dots: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Where a panel stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Panel {
    /// Adds the panel to a drawing.
    pub(crate) fn draw(&self, place: Place, svg: &mut String) {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let x = Scale::new(self.x.kind, all().map(|point| point.0));
        let y = Scale::new(self.y.kind, all().map(|point| point.1));
        let (width, height) = (place.width - LEFT - RIGHT, place.height - TOP - BOTTOM);
        let across = |value: f64| place.x + LEFT + x.place(value) * width;
        let up = |value: f64| place.y + TOP + (1.0 - y.place(value)) * height;
        let (left, right) = (place.x + LEFT, place.x + LEFT + width);
        let bottom = place.y + TOP + height;

        let title = escape(&self.title);
        _ = writeln!(
            svg,
            r#"<text class="title" x="{left:.1}" y="{:.1}">{title}</text>"#,
            place.y + 18.0
        );
        let y_label = escape(&self.y.label);
        _ = writeln!(
            svg,
            r#"<text class="muted" x="{left:.1}" y="{:.1}">{y_label}</text>"#,
            place.y + 34.0
        );
        for tick in y.ticks() {
            let at = up(tick);
            _ = writeln!(svg, r#"<path class="grid" d="M{left:.1} {at:.1}H{right:.1}"/>"#);
            _ = writeln!(
                svg,
                r#"<text class="muted end" x="{:.1}" y="{:.1}">{}</text>"#,
                left - 8.0,
                at + 4.0,
                label(tick)
            );
        }
        let ticks = if self.x.ticks.is_empty() { x.ticks() } else { self.x.ticks.clone() };
        let mut free_from = f64::NEG_INFINITY;
        for tick in ticks {
            let at = across(tick);
            _ = writeln!(svg, r#"<path class="axis" d="M{at:.1} {bottom:.1}v4"/>"#);
            if free_from <= at {
                free_from = at + LABEL_WIDTH;
                _ = writeln!(
                    svg,
                    r#"<text class="muted mid" x="{at:.1}" y="{:.1}">{}</text>"#,
                    bottom + 18.0,
                    label(tick)
                );
            }
        }
        _ = writeln!(svg, r#"<path class="axis" d="M{left:.1} {bottom:.1}H{right:.1}"/>"#);
        let x_label = escape(&self.x.label);
        _ = writeln!(
            svg,
            r#"<text class="muted mid" x="{:.1}" y="{:.1}">{x_label}</text>"#,
            f64::midpoint(left, right),
            bottom + 36.0
        );

        let mut names = Vec::new();
        for line in &self.lines {
            let Some(&last) = line.points.last() else { continue };
            draw_line(line, across, up, svg);
            names.push((up(last.1), line));
        }
        spread(&mut names, place.y + TOP, bottom);
        for (at, line) in names {
            _ = writeln!(
                svg,
                r#"<text class="name t{}" x="{:.1}" y="{:.1}">{}</text>"#,
                line.colour,
                right + 8.0,
                at + 4.0,
                escape(&line.name)
            );
        }
    }
}

fn draw_line(line: &Line, across: impl Fn(f64) -> f64, up: impl Fn(f64) -> f64, svg: &mut String) {
    let mut path = String::new();
    for (number, &(x, y)) in line.points.iter().enumerate() {
        let command = if number == 0 { 'M' } else { 'L' };
        _ = write!(path, "{command}{:.1} {:.1}", across(x), up(y));
    }
    let dashed = if line.is_dashed { " dashed" } else { "" };
    _ = writeln!(svg, r#"<path class="line s{}{dashed}" d="{path}"/>"#, line.colour);
    if line.has_dots {
        for &(x, y) in &line.points {
            _ = writeln!(
                svg,
                r#"<circle class="t{}" cx="{:.1}" cy="{:.1}" r="3"/>"#,
                line.colour,
                across(x),
                up(y)
            );
        }
    }
}

/// Moves labels apart, so that none stands on another, and keeps them beside the lines.
fn spread(names: &mut [(f64, &Line)], top: f64, bottom: f64) {
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free_from = top;
    for (at, _) in names.iter_mut() {
        *at = at.max(free_from);
        free_from = *at + LABEL_HEIGHT;
    }
    let mut free_to = bottom;
    for (at, _) in names.iter_mut().rev() {
        *at = at.min(free_to);
        free_to = *at - LABEL_HEIGHT;
    }
}
