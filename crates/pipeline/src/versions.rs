//! Which versions of a model are served.

use std::{collections::BTreeSet, num::NonZeroUsize};

/// Which of the versions that are there are served.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionPolicy {
    /// The highest so many.
    Latest(NonZeroUsize),
    /// Every one.
    All,
    /// These and no others.
    Specific(BTreeSet<u64>),
}

/// A version that was asked for by its number and is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("version_policy names version {0}, which is not there")]
pub struct NoSuchVersion(u64);

impl Default for VersionPolicy {
    fn default() -> Self {
        Self::Latest(NonZeroUsize::MIN)
    }
}

impl VersionPolicy {
    /// The versions to serve of those that are there.
    ///
    /// # Errors
    ///
    /// When one that is named is not there.
    pub fn choose(&self, there: &BTreeSet<u64>) -> Result<BTreeSet<u64>, NoSuchVersion> {
        match self {
            Self::Latest(most) => Ok(there.iter().rev().take(most.get()).copied().collect()),
            Self::All => Ok(there.clone()),
            Self::Specific(named) => match named.difference(there).next() {
                Some(&missing) => Err(NoSuchVersion(missing)),
                None => Ok(named.clone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_all_or_those_that_are_named() {
        let there = BTreeSet::from([1, 2, 10]);
        let latest = |most| VersionPolicy::Latest(NonZeroUsize::new(most).unwrap());
        let specific = |named: &[u64]| VersionPolicy::Specific(named.iter().copied().collect());

        assert_eq!(VersionPolicy::default().choose(&there), Ok(BTreeSet::from([10])));
        assert_eq!(latest(2).choose(&there), Ok(BTreeSet::from([2, 10])));
        assert_eq!(latest(9).choose(&there).as_ref(), Ok(&there));
        assert_eq!(VersionPolicy::All.choose(&there).as_ref(), Ok(&there));
        assert_eq!(specific(&[1, 10]).choose(&there), Ok(BTreeSet::from([1, 10])));
        assert_eq!(specific(&[1, 3]).choose(&there), Err(NoSuchVersion(3)));
    }
}
