//! Where a value stands on an axis, and which values are named there. Pure.

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
}

/// How an axis grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Linear,
    Log,
}

impl Scale {
    /// An axis that holds these values: from zero where it is linear, from a little below the
    /// least where it is logarithmic.
    pub(crate) fn new(kind: Kind, values: impl Iterator<Item = f64>) -> Self {
        let usable = |value: &f64| value.is_finite() && (kind == Kind::Linear || 0.0 < *value);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(usable) {
            (low, high) = (low.min(value), high.max(value));
        }
        match kind {
            _ if high < low => Self { kind, low: 1.0, high: 10.0 },
            Kind::Linear => {
                let high = if high <= 0.0 { 1.0 } else { high };
                let step = step(high / 4.0);
                Self { kind, low: 0.0, high: (high / step - 1e-9).ceil() * step }
            }
            // Equal values still get an axis of some length.
            Kind::Log => Self { kind, low: low / 1.15, high: (high * 1.15).max(low * 2.0) },
        }
    }

    /// From 0 at the low end to 1 at the high end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let at = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log => {
                (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
            }
        };
        at.clamp(0.0, 1.0)
    }

    /// Values to name, in order.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = step(self.high / 4.0);
                (0..=10)
                    .map(|n| f64::from(n) * step)
                    .take_while(|at| *at <= self.high * 1.0001)
                    .collect()
            }
            Kind::Log => {
                #[expect(clippy::cast_possible_truncation, reason = "at most 308")]
                let (from, to) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let within = |at: &f64| (self.low..=self.high).contains(at);
                let all = |factors: &[f64]| -> Vec<f64> {
                    let tick =
                        |power| factors.iter().map(move |factor| factor * 10_f64.powi(power));
                    (from..=to).flat_map(tick).filter(within).collect()
                };
                let decades = all(&[1.0]);
                if 3 < decades.len() { decades } else { all(&[1.0, 2.0, 5.0]) }
            }
        }
    }
}

/// The next of 1, 2, 2.5, 5, 10, 20, 25, ... from a value on.
fn step(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|factor| value <= factor * power * 1.0001);
    factor.unwrap_or(10.0) * power
}

/// A value as an axis names it.
pub(crate) fn label(value: f64) -> String {
    let short = |value: f64, unit: &str| format!("{}{unit}", crate::figure(value));
    match value.abs() {
        1e6.. => short(value / 1e6, "M"),
        1e4.. => short(value / 1e3, "k"),
        _ => short(value, ""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_value_has_its_place_and_ticks_are_few_and_inside(
            values in prop::collection::vec(1e-3..1e7_f64, 1..20),
            is_log: bool,
        ) {
            let kind = if is_log { Kind::Log } else { Kind::Linear };
            let scale = Scale::new(kind, values.iter().copied());

            let mut sorted = values;
            sorted.sort_by(f64::total_cmp);
            let places: Vec<f64> = sorted.iter().map(|value| scale.place(*value)).collect();
            prop_assert!(places.is_sorted());
            let ticks = scale.ticks();
            prop_assert!(ticks.is_sorted() && ticks.len() <= 12, "{ticks:?}");
            if !is_log {
                prop_assert!(3 <= ticks.len(), "{ticks:?}");
            }
        }
    }

    #[test]
    fn nothing_to_show_is_still_an_axis() {
        for kind in [Kind::Linear, Kind::Log] {
            for values in [&[][..], &[0.0], &[f64::NAN], &[3.0]] {
                let scale = Scale::new(kind, values.iter().copied());
                assert!(scale.place(2.0).is_finite());
                assert!(scale.ticks().len() <= 12);
            }
        }
    }

    #[test]
    fn labels_are_short() {
        assert_eq!(
            [0.5, 250.0, 9000.0, 20_000.0, 2.5e6].map(label),
            ["0.5", "250", "9000", "20k", "2.5M"]
        );
    }
}
