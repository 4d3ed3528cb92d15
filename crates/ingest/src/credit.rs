//! Memory that frames may take: credit in bytes and in frames. No credit, no read.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// What all readers of this process may hold together.
#[derive(Debug)]
pub(crate) struct Credit {
    max_bytes: usize,
    max_frames: usize,
    bytes: AtomicUsize,
    frames: AtomicUsize,
}

/// Part of the credit, given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    credit: Arc<Credit>,
    bytes: usize,
    frames: usize,
}

impl Credit {
    /// Credit for so many bytes and frames.
    pub(crate) fn new(max_bytes: usize, max_frames: usize) -> Arc<Self> {
        let (bytes, frames) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { max_bytes, max_frames, bytes, frames })
    }

    /// Bytes and frames that are held now.
    pub(crate) fn used(&self) -> (usize, usize) {
        (self.bytes.load(Ordering::Relaxed), self.frames.load(Ordering::Relaxed))
    }

    /// Sets aside up to `bytes` and `frames` for a reply that is to come; `None` where there is
    /// not even a quarter of that. A reader that took what little is left would read in drops.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: usize, frames: usize) -> Option<Held> {
        let bytes = take(&self.bytes, self.max_bytes, bytes)?;
        let Some(frames) = take(&self.frames, self.max_frames, frames) else {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        Some(Held { credit: Arc::clone(self), bytes, frames })
    }

    /// Charges for one frame of so many bytes, if there is credit for all of it.
    pub(crate) fn admit(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let grow = |max: usize, by: usize| {
            move |used: usize| used.checked_add(by).filter(|used| *used <= max)
        };
        let order = Ordering::Relaxed;
        self.bytes.fetch_update(order, order, grow(self.max_bytes, bytes)).ok()?;
        if self.frames.fetch_update(order, order, grow(self.max_frames, 1)).is_err() {
            self.bytes.fetch_sub(bytes, order);
            return None;
        }
        Some(Held { credit: Arc::clone(self), bytes, frames: 1 })
    }

    /// Charges for a frame that is here already, even beyond what there is: a reply can only be
    /// asked for by an estimate, so the last one may overdraw, and nothing is read until that is
    /// made good.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Held {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.frames.fetch_add(1, Ordering::Relaxed);
        Held { credit: Arc::clone(self), bytes, frames: 1 }
    }
}

impl Held {
    /// Bytes that are held.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// One frame of so many bytes from the same credit, in place of this.
    pub(crate) fn lighter(&self, bytes: usize) -> Self {
        self.credit.charge(bytes.min(self.bytes))
    }

    /// Frames that are held.
    pub(crate) const fn frames(&self) -> usize {
        self.frames
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.credit.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.credit.frames.fetch_sub(self.frames, Ordering::Relaxed);
    }
}

/// Takes up to `wanted`, and nothing where less than a quarter of it is left.
fn take(used: &AtomicUsize, max: usize, wanted: usize) -> Option<usize> {
    let mut taken = 0;
    let least = (wanted.min(max) / 4).max(1);
    let grow = |used: usize| {
        taken = max.saturating_sub(used).min(wanted);
        (least <= taken).then_some(used + taken)
    };
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow).ok()?;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_is_charged_for_whole_or_not_at_all() {
        let credit = Credit::new(1000, 2);
        let held = credit.admit(600).unwrap();

        assert_eq!((held.bytes(), held.frames()), (600, 1));
        assert!(credit.admit(401).is_none());
        let _rest = credit.admit(400).unwrap();
        assert!(credit.admit(0).is_none(), "two frames are all");
        assert_eq!(credit.used(), (1000, 2));
    }

    #[test]
    fn a_reader_takes_what_is_left_down_to_a_quarter_of_what_it_wants() {
        for (left, taken) in [(400, Some(400)), (100, Some(100)), (99, None)] {
            let credit = Credit::new(1000, 50);
            let _used = credit.charge(1000 - left);

            assert_eq!(credit.reserve(400, 1).map(|held| held.bytes()), taken, "{left} left");
        }
    }

    proptest! {
        #[test]
        fn reserving_never_overdraws_and_everything_comes_back(
            steps in proptest::collection::vec((0_u8..3, 1_usize..400, 1_usize..20), 1..100))
        {
            let credit = Credit::new(1000, 50);
            let mut held = Vec::new();
            for (step, bytes, frames) in steps {
                match step {
                    0 => held.extend(credit.reserve(bytes, frames)),
                    1 => held.extend(credit.admit(bytes)),
                    _ => drop(held.pop()),
                }
                let (bytes, frames) = credit.used();
                prop_assert!(bytes <= 1000 && frames <= 50);
                prop_assert_eq!(bytes, held.iter().map(Held::bytes).sum::<usize>());
                prop_assert_eq!(frames, held.iter().map(Held::frames).sum::<usize>());
            }
            held.clear();
            prop_assert_eq!(credit.used(), (0, 0));
        }
    }

    #[test]
    fn an_overdraft_stops_reading_until_it_is_made_good() {
        let credit = Credit::new(1000, 50);
        let big = credit.charge(5000);

        assert!(credit.reserve(100, 1).is_none());
        drop(big);
        assert_eq!(credit.reserve(100, 1).map(|held| held.bytes()), Some(100));
    }
}
