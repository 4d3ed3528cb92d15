//! What may be dropped: one policy per camera, found by its name. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use crate::config::duration;

/// What is done for a camera's frames when there are more than can be inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Which frames are kept.
    pub keep: Keep,
    /// Older frames are dropped and counted as `stale`.
    #[serde(with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Duration>,
}

/// Which frames are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// All, however long it takes: at least once, the backlog stays in Redis.
    #[default]
    All,
    /// The newest; an older one that still waits is dropped and counted as `superseded`.
    Latest,
}

/// A policy for all cameras whose names match.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// A camera's name, with `*` for anything and `?` for any one character.
    pub cameras: String,
    /// Which frames are kept.
    #[serde(default)]
    pub keep: Keep,
    /// Older frames are dropped.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Duration>,
}

/// All rules; the first that matches counts, and without one every frame is kept.
#[derive(Debug, Clone, Default)]
pub struct Policies(Vec<(WildMatch, Policy)>);

impl Policies {
    /// Makes rules ready for use.
    #[must_use]
    pub fn new(rules: &[Rule]) -> Self {
        let ready = |rule: &Rule| {
            (WildMatch::new(&rule.cameras), Policy { keep: rule.keep, max_age: rule.max_age })
        };
        Self(rules.iter().map(ready).collect())
    }

    /// What holds for a camera.
    #[must_use]
    pub fn of(&self, camera: &str) -> Policy {
        let found = self.0.iter().find(|(pattern, _)| pattern.matches(camera));
        found.map_or_else(Policy::default, |(_, policy)| *policy)
    }
}

impl Policy {
    /// Whether a frame taken at `taken_ms` is too old at `now_ms`. Clocks that disagree make
    /// frames from the future, which are new.
    #[must_use]
    pub fn is_stale(&self, taken_ms: u64, now_ms: u64) -> bool {
        self.max_age.is_some_and(|max| Duration::from_millis(now_ms.saturating_sub(taken_ms)) > max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rule = |cameras: &str, keep| Rule { cameras: cameras.to_owned(), keep, max_age: None };
        let policies = Policies::new(&[rule("door-?", Keep::All), rule("door-*", Keep::Latest)]);

        assert_eq!(policies.of("door-1").keep, Keep::All);
        assert_eq!(policies.of("door-12").keep, Keep::Latest);
        assert_eq!(policies.of("yard"), Policy::default());
    }

    #[test]
    fn a_frame_from_the_future_is_not_stale() {
        let policy = Policy { max_age: Some(Duration::from_millis(100)), ..Policy::default() };

        assert!(!policy.is_stale(1000, 500) && !policy.is_stale(1000, 1100));
        assert!(policy.is_stale(1000, 1101));
        assert!(!Policy::default().is_stale(0, u64::MAX));
    }
}
