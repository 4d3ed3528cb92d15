//! What must be equal for items to share a call.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash, Hasher},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use siphasher::sip128::{Hasher128, SipHasher13};

/// A fingerprint of everything that changes what a call computes (voice, parameters, shape).
///
/// Items with different keys never share a call. The fingerprint is taken of *content*, with a
/// secret that each process draws for itself, so that nobody outside can make two contents meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Key(u128);

/// The bit by which unique keys are known; those of content never have it.
const UNIQUE: u128 = 1 << 127;

static SECRET: LazyLock<[u64; 2]> = LazyLock::new(|| {
    let random = RandomState::new();
    [random.hash_one(0), random.hash_one(1)]
});

impl Key {
    /// The key of items that may all share calls.
    pub const ANY: Self = Self(0);

    /// The fingerprint of some content.
    #[must_use]
    pub fn of<C: Hash + ?Sized>(content: &C) -> Self {
        let [k0, k1] = *SECRET;
        let mut hasher = SipHasher13::new_with_keys(k0, k1);
        content.hash(&mut hasher);
        Self(hasher.finish128().as_u128() & !UNIQUE)
    }

    /// A key that no other item has: whoever carries it shares a call with nobody.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Self::of(&NEXT.fetch_add(1, Ordering::Relaxed)).0 | UNIQUE)
    }

    /// Whether nobody else has it: then there is nothing to learn from whoever carries it.
    pub(crate) const fn is_unique(self) -> bool {
        self.0 & UNIQUE != 0
    }

    /// Half of the fingerprint, as a number.
    #[must_use]
    pub const fn low64(self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "half is what is wanted")]
        {
            self.0 as u64
        }
    }
}

impl Hash for Key {
    /// A key is a hash already; half of it places it in a table.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_has_one_key_wherever_it_lives() {
        let voice = vec![1_u8, 2, 3];

        assert_eq!(Key::of(&voice), Key::of(&voice.clone()));
        assert_ne!(Key::of(&voice), Key::of(&[1_u8, 2]));
        assert_ne!(Key::of(&("en", 5)), Key::of(&("en", 6)));
        assert_ne!(Key::of(&voice), Key::ANY);
    }

    #[test]
    fn keys_are_told_apart_by_half_of_them_too() {
        let keys: Vec<Key> = (0..100).map(|content| Key::of(&content)).collect();
        let distinct = |of: &dyn Fn(&Key) -> u64| {
            keys.iter().map(of).collect::<std::collections::HashSet<_>>().len()
        };

        assert_eq!(distinct(&|key| key.low64()), 100);
        assert_eq!(distinct(&|key| rustc_hash::FxBuildHasher.hash_one(key)), 100, "in a table");
    }

    #[test]
    fn a_unique_key_is_nobody_elses() {
        let keys: std::collections::HashSet<Key> = (0..1000).map(|_| Key::unique()).collect();

        assert_eq!(keys.len(), 1000);
        assert!(!keys.contains(&Key::ANY) && keys.iter().all(|key| key.is_unique()));
        assert!((0..1000).all(|content| !Key::of(&content).is_unique()));
    }
}
