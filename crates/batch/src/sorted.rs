//! A sorted set in one ring of memory.
//!
//! What is put in here comes almost always in rising order and leaves from the front, and then
//! both are a store and a counter, with no allocation while the ring is large enough; a tree
//! allocates whenever it goes from empty to one. Out of order, entries are moved aside: within a
//! queue of a few thousand that is less than a microsecond.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Sorted<T>(VecDeque<T>);

impl<T: Ord> Sorted<T> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.0.front()
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.0.back()
    }

    /// From the last to the first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = T> + '_
    where
        T: Copy,
    {
        self.0.iter().rev().copied()
    }

    pub(crate) fn pop_first(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    /// Adds an entry; `false` if it was there.
    pub(crate) fn insert(&mut self, entry: T) -> bool {
        if self.0.back().is_none_or(|last| *last < entry) {
            self.0.push_back(entry);
            return true;
        }
        match self.0.binary_search(&entry) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, entry);
                true
            }
        }
    }

    /// Takes an entry out; `false` if it was not there.
    pub(crate) fn remove(&mut self, entry: &T) -> bool {
        if self.0.front() == Some(entry) {
            self.0.pop_front();
            return true;
        }
        match self.0.binary_search(entry) {
            Ok(at) => self.0.remove(at).is_some(),
            Err(_) => false,
        }
    }

    /// Gives memory back beyond what `n` entries need.
    pub(crate) fn trim(&mut self, n: usize) {
        if n < self.0.capacity() {
            self.0.shrink_to(n);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0 = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_a_past_crowd_needed_is_given_back() {
        let mut sorted = Sorted::new();
        (0..1000).for_each(|entry| assert!(sorted.insert(entry)));
        while sorted.pop_first().is_some() {}

        sorted.trim(64);
        assert!((64..1000).contains(&sorted.0.capacity()), "{}", sorted.0.capacity());
        sorted.insert(1);
        sorted.clear();
        assert_eq!((sorted.len(), sorted.0.capacity()), (0, 0));
    }

    proptest! {
        #[test]
        fn it_does_what_a_tree_does(steps in prop::collection::vec((0_u8..4, 0_u8..32), 0..200)) {
            let (mut sorted, mut tree) = (Sorted::new(), BTreeSet::new());
            for (step, value) in steps {
                match step {
                    0 => prop_assert_eq!(sorted.pop_first(), tree.pop_first()),
                    1 => prop_assert_eq!(sorted.remove(&value), tree.remove(&value)),
                    _ => prop_assert_eq!(sorted.insert(value), tree.insert(value)),
                }
                prop_assert_eq!((sorted.first(), sorted.last()), (tree.first(), tree.last()));
            }
        }
    }
}
