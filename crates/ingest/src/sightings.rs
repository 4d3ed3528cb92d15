//! What was seen of each camera: how many frames, how many results, and when the last came.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::shard::stable_hash;

/// Parts that are locked apart from each other.
const PARTS: usize = 16;

/// What was seen of one camera.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sight {
    pub(crate) frames: u64,
    pub(crate) results: u64,
    pub(crate) last_ms: u64,
}

/// What was seen of all cameras, or of as many as may be kept track of.
#[derive(Debug)]
pub(crate) struct Sightings {
    parts: Vec<Mutex<BTreeMap<Box<str>, Sight>>>,
    max_each: usize,
}

impl Sightings {
    /// Of at most so many cameras.
    pub(crate) fn new(max_cameras: usize) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::default()).collect();
        Self { parts, max_each: max_cameras.div_ceil(PARTS) }
    }

    /// A frame came.
    pub(crate) fn frame(&self, camera: &str, now_ms: u64) {
        self.update(camera, |sight| {
            sight.frames += 1;
            sight.last_ms = now_ms;
        });
    }

    /// A frame has its result.
    pub(crate) fn result(&self, camera: &str) {
        self.update(camera, |sight| sight.results += 1);
    }

    /// What was seen of a camera.
    pub(crate) fn of(&self, camera: &str) -> Option<Sight> {
        self.part(camera).get(camera).copied()
    }

    /// Names of cameras after `after`, in order, at most so many.
    pub(crate) fn names(&self, after: &str, most: usize) -> Vec<String> {
        use std::ops::Bound::{Excluded, Unbounded};
        let mut names = Vec::new();
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let later = part.range::<str, _>((Excluded(after), Unbounded));
            names.extend(later.take(most).map(|(name, _)| name.to_string()));
        }
        names.sort_unstable();
        names.truncate(most);
        names
    }

    fn update(&self, camera: &str, how: impl FnOnce(&mut Sight)) {
        let mut part = self.part(camera);
        if let Some(sight) = part.get_mut(camera) {
            how(sight);
        } else if part.len() < self.max_each {
            how(part.entry(camera.into()).or_default());
        }
    }

    fn part(&self, camera: &str) -> MutexGuard<'_, BTreeMap<Box<str>, Sight>> {
        let at = usize::try_from(stable_hash(camera.as_bytes()) >> 32).unwrap_or(0) % PARTS;
        self.parts[at].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cameras_are_listed_in_order_page_by_page_and_are_bounded() {
        let sightings = Sightings::new(160);
        for camera in 0..1000 {
            sightings.frame(&format!("cam-{camera:03}"), camera);
        }

        let first = sightings.names("", 7);
        let next = sightings.names(&first[6], 1000);
        assert_eq!(first.len() + next.len(), 160);
        assert!(first.iter().chain(&next).is_sorted());
        sightings.result(&first[0]);
        let sight = sightings.of(&first[0]).unwrap();
        assert_eq!((sight.frames, sight.results), (1, 1));
    }
}
