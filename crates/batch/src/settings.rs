//! Settings: limits as a person writes them, with presets, and the check that makes them
//! [`Limits`].

use std::{fmt, time::Duration};

#[cfg(feature = "serde")]
use paceline_types::duration;

use crate::{Buckets, Limits, Policy};

/// The settings of a batcher as written. What is left out comes from the preset.
///
/// ```
/// use paceline_batch::{Preset, Settings};
///
/// let limits = Settings { preset: Preset::Throughput, max_items: Some(32), ..Settings::default() }
///     .validate()?;
/// assert_eq!(limits.max_items(), 32);
///
/// let wrong = Settings { max_items: Some(0), ..Settings::default() }.validate();
/// assert_eq!(wrong.unwrap_err().to_string(), "max_items is 0; it must be from 1 to 65536");
/// # Ok::<(), paceline_batch::SettingsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(deny_unknown_fields, default)
)]
pub struct Settings {
    /// Where values that are not given come from.
    pub preset: Preset,
    /// `adaptive` or `fixed`.
    pub policy: PolicyName,
    /// Most items, counted in rows, in one call.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub max_items: Option<usize>,
    /// Most total cost in one call, in whatever unit items are given a cost in.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub max_cost: Option<u64>,
    /// The batch sizes that the model can run; batches are padded up to one of them.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub sizes: Vec<usize>,
    /// Longest an item waits for company while a device is free, for example `"5ms"`.
    #[cfg_attr(
        feature = "serde",
        serde(with = "duration::option", skip_serializing_if = "Option::is_none")
    )]
    pub max_wait: Option<Duration>,
    /// `fixed` only: how long a lone item waits for a second one; 2 ms.
    #[cfg_attr(
        feature = "serde",
        serde(with = "duration::option", skip_serializing_if = "Option::is_none")
    )]
    pub fast_path_wait: Option<Duration>,
    /// `fixed` only: the share of `max_items` that fires a batch before its time; 0.8.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub early_fire: Option<f64>,
    /// Which lengths share calls: `"none"`, `"powers_of_two"`, or a list of edges.
    #[cfg_attr(feature = "serde", serde(with = "buckets"))]
    pub buckets: Buckets,
    /// Most items that wait at once; one more is refused.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub queue_items: Option<usize>,
    /// Most memory that waiting items hold at once, in bytes.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub queue_bytes: Option<usize>,
    /// How long an item's answer is worth waiting for, unless the item says; not bounded where
    /// neither does.
    #[cfg_attr(
        feature = "serde",
        serde(with = "duration::option", skip_serializing_if = "Option::is_none")
    )]
    pub timeout: Option<Duration>,
    /// By how much each priority level down counts as having come later, and how long what is
    /// wanted later gives way to what is wanted at once; 1 s, and 200 ms for listeners.
    #[cfg_attr(
        feature = "serde",
        serde(with = "duration::option", skip_serializing_if = "Option::is_none")
    )]
    pub patience: Option<Duration>,
    /// Most further calls that are spent on finding the bad items of a failed batch; 16.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub split_calls: Option<u32>,
}

/// Named starting points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(rename_all = "snake_case")
)]
pub enum Preset {
    /// 8 items, 2 ms: a few users, each of whom waits for the answer.
    Latency,
    /// 16 items, 5 ms.
    #[default]
    Balanced,
    /// 64 items, 20 ms: many users at once.
    Throughput,
    /// 64 items, 200 ms: nobody waits for a single answer.
    Offline,
    /// 32 items, 20 ms: a vocoder with one listener, who is to hear the first sound soon.
    OneListener,
    /// 32 items, 50 ms: a vocoder with two to five listeners at once.
    FewListeners,
    /// 32 items, 100 ms: a vocoder with ten listeners and more.
    ManyListeners,
    /// 32 items, 200 ms: a vocoder whose sound goes into files.
    NoListener,
}

/// The policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize, serde::Serialize),
    serde(rename_all = "snake_case")
)]
pub enum PolicyName {
    /// Wait only where it pays.
    #[default]
    Adaptive,
    /// Wait by the clock.
    Fixed,
}

/// A setting that makes no sense: which one, what it is, and what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; {allowed}")]
pub struct SettingsError {
    /// The setting's name.
    pub field: &'static str,
    /// As given.
    pub value: String,
    /// What would have been right, as a clause.
    pub allowed: String,
}

/// Most items that one call may be allowed.
const MAX_ITEMS: usize = 65_536;

impl Settings {
    /// Checks the settings and fills in what was left out.
    ///
    /// # Errors
    ///
    /// Names the first setting that makes no sense, alone or with another.
    pub fn validate(&self) -> Result<Limits, SettingsError> {
        let (preset_items, preset_wait) = match self.preset {
            Preset::Latency => (8, 2),
            Preset::Balanced => (16, 5),
            Preset::Throughput => (64, 20),
            Preset::Offline => (64, 200),
            Preset::OneListener => (32, 20),
            Preset::FewListeners => (32, 50),
            Preset::ManyListeners => (32, 100),
            Preset::NoListener => (32, 200),
        };
        let largest_size = self.sizes.last().copied();
        let max_items = self.max_items.or(largest_size).unwrap_or(preset_items);
        check(
            (1..=MAX_ITEMS).contains(&max_items),
            "max_items",
            max_items,
            format!("it must be from 1 to {MAX_ITEMS}"),
        )?;
        check(
            !self.sizes.contains(&0) && self.sizes.is_sorted_by(|a, b| a < b),
            "sizes",
            format!("{:?}", self.sizes),
            "it must be a rising list of numbers from 1",
        )?;
        if let Some(largest) = largest_size {
            check(
                max_items == largest,
                "max_items",
                max_items,
                format!("it must be the largest of sizes, {largest}, or be left out"),
            )?;
        }
        let max_cost = self.max_cost.unwrap_or(u64::MAX);
        check(0 < max_cost, "max_cost", max_cost, "it must be at least 1")?;

        let max_wait = self.max_wait.unwrap_or(Duration::from_millis(preset_wait));
        check(
            max_wait <= Duration::from_mins(1),
            "max_wait",
            format!("{max_wait:?}"),
            "it must be at most 60s",
        )?;
        let queue_items =
            self.queue_items.unwrap_or_else(|| max_items.saturating_mul(64).max(1024));
        check(
            max_items <= queue_items,
            "queue_items",
            queue_items,
            format!("it must be at least max_items, {max_items}, or no batch could fill"),
        )?;
        let queue_bytes = self.queue_bytes.unwrap_or(256 << 20);
        check(0 < queue_bytes, "queue_bytes", queue_bytes, "it must be at least 1")?;
        for (field, value) in [("timeout", self.timeout), ("patience", self.patience)] {
            check(value != Some(Duration::ZERO), field, "0s", "it must be longer than nothing")?;
        }
        self.check_buckets()?;
        Ok(Limits {
            max_items,
            max_cost,
            sizes: self.sizes.clone(),
            max_wait,
            policy: self.validate_policy(max_items, max_wait)?,
            buckets: self.buckets.clone(),
            queue_items,
            queue_bytes,
            timeout: self.timeout,
            patience: self.patience.unwrap_or(Duration::from_millis(match self.preset {
                Preset::Latency | Preset::Balanced | Preset::Throughput | Preset::Offline => 1000,
                // Sound that is made ahead gives way to a first sound for about a call, not more:
                // then it would be late in its turn.
                Preset::OneListener
                | Preset::FewListeners
                | Preset::ManyListeners
                | Preset::NoListener => 200,
            })),
            split_calls: self.split_calls.unwrap_or(16),
        })
    }

    fn check_buckets(&self) -> Result<(), SettingsError> {
        let Buckets::Edges(edges) = &self.buckets else { return Ok(()) };
        let rising = edges.is_sorted_by(|a, b| a < b) && !edges.contains(&0);
        check(
            rising && (1..=Buckets::MAX_EDGES).contains(&edges.len()),
            "buckets",
            format!("{edges:?}"),
            format!("it must be 1 to {} rising numbers from 1", Buckets::MAX_EDGES),
        )
    }

    fn validate_policy(
        &self,
        max_items: usize,
        max_wait: Duration,
    ) -> Result<Policy, SettingsError> {
        if self.policy == PolicyName::Adaptive {
            let only = "it belongs to policy = \"fixed\"; leave it out or set that";
            if let Some(wait) = self.fast_path_wait {
                check(false, "fast_path_wait", format!("{wait:?}"), only)?;
            }
            if let Some(share) = self.early_fire {
                check(false, "early_fire", share, only)?;
            }
            return Ok(Policy::Adaptive);
        }
        let early_fire = self.early_fire.unwrap_or(0.8);
        check(
            0.0 < early_fire && early_fire <= 1.0,
            "early_fire",
            early_fire,
            "it must be above 0 and at most 1",
        )?;
        // Left out, it shrinks with a short `max_wait`; given, it must fit.
        let fast_path_wait =
            self.fast_path_wait.unwrap_or_else(|| Duration::from_millis(2).min(max_wait));
        check(
            fast_path_wait <= max_wait,
            "fast_path_wait",
            format!("{fast_path_wait:?}"),
            format!("it must be at most max_wait, {max_wait:?}"),
        )?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of at most 65536 items, rounded down as the rule says"
        )]
        let early_rows = ((max_items as f64 * early_fire) as usize).max(1);
        Ok(Policy::Fixed { fast_path_wait, early_rows })
    }
}

fn check(
    holds: bool,
    field: &'static str,
    value: impl fmt::Display,
    allowed: impl Into<String>,
) -> Result<(), SettingsError> {
    if holds {
        return Ok(());
    }
    Err(SettingsError { field, value: value.to_string(), allowed: allowed.into() })
}

/// Buckets as people write them: a name or a list of edges.
#[cfg(feature = "serde")]
mod buckets {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::Buckets;

    #[derive(Deserialize, Serialize)]
    #[serde(untagged)]
    enum Written {
        Name(String),
        Edges(Vec<u32>),
    }

    pub(super) fn serialize<S: Serializer>(
        value: &Buckets,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Buckets::None => Written::Name("none".to_owned()),
            Buckets::PowersOfTwo => Written::Name("powers_of_two".to_owned()),
            Buckets::Edges(edges) => Written::Edges(edges.clone()),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Buckets, D::Error> {
        match Written::deserialize(deserializer) {
            Ok(Written::Name(name)) if name == "none" => Ok(Buckets::None),
            Ok(Written::Name(name)) if name == "powers_of_two" => Ok(Buckets::PowersOfTwo),
            Ok(Written::Edges(edges)) => Ok(Buckets::Edges(edges)),
            _ => Err(D::Error::custom(
                "buckets must be \"none\", \"powers_of_two\" or a list of lengths such as [100, 400]",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: &Settings) -> String {
        settings.validate().unwrap_err().to_string()
    }

    #[test]
    fn every_preset_is_valid_alone() {
        for preset in [
            Preset::Latency,
            Preset::Balanced,
            Preset::Throughput,
            Preset::Offline,
            Preset::OneListener,
            Preset::FewListeners,
            Preset::ManyListeners,
            Preset::NoListener,
        ] {
            for policy in [PolicyName::Adaptive, PolicyName::Fixed] {
                Settings { preset, policy, ..Settings::default() }.validate().unwrap();
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_field_value_and_what_is_allowed() {
        let default = Settings::default;
        let cases = [
            (
                Settings { sizes: vec![4, 2], ..default() },
                "sizes is [4, 2]; it must be a rising list of numbers from 1",
            ),
            (
                Settings { sizes: vec![4, 4], ..default() },
                "sizes is [4, 4]; it must be a rising list of numbers from 1",
            ),
            (
                Settings { sizes: vec![4, 8], max_items: Some(16), ..default() },
                "max_items is 16; it must be the largest of sizes, 8, or be left out",
            ),
            (
                Settings { queue_items: Some(8), ..default() },
                "queue_items is 8; it must be at least max_items, 16, or no batch could fill",
            ),
            (Settings { max_cost: Some(0), ..default() }, "max_cost is 0; it must be at least 1"),
            (
                Settings { queue_bytes: Some(0), ..default() },
                "queue_bytes is 0; it must be at least 1",
            ),
            (
                Settings { early_fire: Some(0.5), ..default() },
                "early_fire is 0.5; it belongs to policy = \"fixed\"; leave it out or set that",
            ),
            (
                Settings { policy: PolicyName::Fixed, early_fire: Some(1.5), ..default() },
                "early_fire is 1.5; it must be above 0 and at most 1",
            ),
            (
                Settings { policy: PolicyName::Fixed, early_fire: Some(0.0), ..default() },
                "early_fire is 0; it must be above 0 and at most 1",
            ),
            (
                Settings {
                    policy: PolicyName::Fixed,
                    fast_path_wait: Some(Duration::from_secs(1)),
                    ..default()
                },
                "fast_path_wait is 1s; it must be at most max_wait, 5ms",
            ),
            (
                Settings { timeout: Some(Duration::ZERO), ..default() },
                "timeout is 0s; it must be longer than nothing",
            ),
            (
                Settings { buckets: Buckets::Edges(vec![]), ..default() },
                "buckets is []; it must be 1 to 64 rising numbers from 1",
            ),
            (
                Settings { buckets: Buckets::Edges(vec![0, 5]), ..default() },
                "buckets is [0, 5]; it must be 1 to 64 rising numbers from 1",
            ),
            (
                Settings { buckets: Buckets::Edges(vec![5, 5]), ..default() },
                "buckets is [5, 5]; it must be 1 to 64 rising numbers from 1",
            ),
        ];
        for (settings, sentence) in cases {
            assert_eq!(refused(&settings), sentence);
        }
    }

    #[test]
    fn the_fixed_rules_of_thirty_two_items_fire_early_at_twenty_five() {
        let limits = Settings {
            policy: PolicyName::Fixed,
            preset: Preset::FewListeners,
            ..Settings::default()
        };
        assert_eq!(limits.validate().unwrap().max_wait(), Duration::from_millis(50));

        assert_eq!(
            limits.validate().unwrap().policy(),
            Policy::Fixed { fast_path_wait: Duration::from_millis(2), early_rows: 25 }
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_file_reads_as_written_and_an_unknown_key_is_named() {
        let text = "preset = \"latency\"\nmax_wait = \"1500us\"\nbuckets = [100, 400]\n";
        let settings: Settings = toml::from_str(text).unwrap();

        assert_eq!(settings.max_wait, Some(Duration::from_micros(1500)));
        for buckets in [settings.buckets.clone(), Buckets::None, Buckets::PowersOfTwo] {
            let settings = Settings { buckets, ..settings.clone() };
            let written = toml::to_string(&settings).unwrap();
            assert_eq!(toml::from_str::<Settings>(&written), Ok(settings), "{written}");
        }
        assert_eq!(settings.buckets, Buckets::Edges(vec![100, 400]));
        let refused = |text| toml::from_str::<Settings>(text).unwrap_err().to_string();
        assert!(refused("max_wat = \"1ms\"").contains("unknown field `max_wat`"));
        assert!(refused("max_wait = \"soon\"").contains("`soon` is no duration"));
        assert!(refused("buckets = \"primes\"").contains("buckets must be"));
    }
}
