//! Who is served next: the most urgent of those that have not had more than their share.
//!
//! Each contender has a *start*, the virtual time at which its next turn is earned, and an
//! *urgency*, the real time it is measured against. Contenders whose start has been reached are
//! ready, and the most urgent of them goes first. When none is ready, the one that is least in
//! debt goes: the order never leaves a device idle. Virtual time moves on with service, so a
//! contender that took a lot falls behind exactly as far as the others let it.
//!
//! Used twice: between the streams of one queue, and between queues.

use crate::sorted::Sorted;

/// Where one contender stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    /// Virtual time at which its next turn is earned.
    pub(crate) start: u64,
    /// Smaller goes first among those that are ready.
    pub(crate) urgency: u64,
}

/// The contenders, in order. `I` tells them apart and breaks ties.
#[derive(Debug)]
pub(crate) struct Fair<I> {
    virtual_time: u64,
    /// Those with `start <= virtual_time`, by urgency.
    ready: Sorted<(u64, I)>,
    /// The others, by start.
    debtors: Sorted<(u64, u64, I)>,
}

impl<I: Ord + Copy> Fair<I> {
    pub(crate) const fn new() -> Self {
        Self { virtual_time: 0, ready: Sorted::new(), debtors: Sorted::new() }
    }

    /// The start of a contender that owes nothing.
    pub(crate) const fn virtual_time(&self) -> u64 {
        self.virtual_time
    }

    /// Adds a contender.
    pub(crate) fn insert(&mut self, id: I, standing: Standing) {
        let Standing { start, urgency } = standing;
        // INVARIANT: a contender is in `ready` exactly when its start has been reached; `serve`
        // keeps this as virtual time moves on, so `remove` knows where to look.
        let is_new = if start <= self.virtual_time {
            self.ready.insert((urgency, id))
        } else {
            self.debtors.insert((start, urgency, id))
        };
        debug_assert!(is_new, "a contender stands once");
    }

    /// Takes a contender out.
    pub(crate) fn remove(&mut self, id: I, standing: Standing) {
        let Standing { start, urgency } = standing;
        let was_there = if start <= self.virtual_time {
            self.ready.remove(&(urgency, id))
        } else {
            self.debtors.remove(&(start, urgency, id))
        };
        debug_assert!(was_there, "only contenders are removed");
    }

    /// Gives memory back that a past crowd needed.
    pub(crate) fn trim(&mut self, n: usize) {
        self.ready.trim(n);
        self.debtors.trim(n);
    }

    /// How many contend.
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.debtors.len()
    }

    /// Who goes next.
    pub(crate) fn first(&self) -> Option<I> {
        match self.ready.first() {
            Some(&(_, id)) => Some(id),
            None => self.debtors.first().map(|&(_, _, id)| id),
        }
    }

    /// The least urgent of those that owe nothing.
    pub(crate) fn last_urgency(&self) -> Option<u64> {
        self.ready.last().map(|&(urgency, _)| urgency)
    }

    /// Moves virtual time to the start of whoever is being served.
    pub(crate) fn serve(&mut self, standing: Standing) {
        if standing.start <= self.virtual_time {
            return;
        }
        self.virtual_time = standing.start;
        while let Some(&(start, urgency, id)) = self.debtors.first()
            && start <= self.virtual_time
        {
            self.debtors.pop_first();
            self.ready.insert((urgency, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Serves `turns` times; every contender always has more to do, and each turn costs 1.
    fn shares(urgencies: &[u64], turns: usize) -> Vec<usize> {
        let mut fair = Fair::new();
        let mut standings: Vec<Standing> =
            urgencies.iter().map(|&urgency| Standing { start: 0, urgency }).collect();
        for (id, &standing) in standings.iter().enumerate() {
            fair.insert(id, standing);
        }
        let mut served = vec![0; urgencies.len()];
        for _ in 0..turns {
            let id = fair.first().unwrap();
            let standing = &mut standings[id];
            fair.remove(id, *standing);
            fair.serve(*standing);
            served[id] += 1;
            standing.start = standing.start.max(fair.virtual_time()) + 1;
            fair.insert(id, *standing);
        }
        served
    }

    proptest! {
        #[test]
        fn contenders_that_always_want_more_get_equal_shares(
            urgencies in prop::collection::vec(0_u64..1000, 1..12),
            rounds in 1_usize..20,
        ) {
            let served = shares(&urgencies, rounds * urgencies.len());

            prop_assert!(served.iter().all(|&n| n.abs_diff(rounds) <= 1), "{served:?}");
        }
    }

    #[test]
    fn a_newcomer_gets_its_share_from_now_on_and_nothing_for_the_past() {
        let mut fair = Fair::new();
        let mut standings = vec![Standing::default()];
        fair.insert(0, standings[0]);
        let mut served = [0, 0];
        for turn in 0..120 {
            if turn == 100 {
                standings.push(Standing { start: fair.virtual_time(), urgency: 0 });
                fair.insert(1, standings[1]);
                served = [0, 0];
            }
            let id = fair.first().unwrap();
            fair.remove(id, standings[id]);
            fair.serve(standings[id]);
            served[id] += 1;
            standings[id].start = standings[id].start.max(fair.virtual_time()) + 1;
            fair.insert(id, standings[id]);
        }

        assert!(9 <= served[0], "{served:?}");
    }

    #[test]
    fn the_most_urgent_goes_first_and_a_newcomer_before_a_debtor() {
        let mut fair = Fair::new();
        fair.insert('a', Standing { start: 0, urgency: 9 });
        fair.insert('b', Standing { start: 0, urgency: 3 });
        fair.insert('d', Standing { start: 5, urgency: 1 });
        assert_eq!(fair.first(), Some('b'));
        assert_eq!((fair.len(), fair.last_urgency()), (3, Some(9)), "the debtor is counted");

        fair.remove('b', Standing { start: 0, urgency: 3 });
        assert_eq!(fair.first(), Some('a'));

        fair.remove('a', Standing { start: 0, urgency: 9 });
        assert_eq!(fair.first(), Some('d'), "a debtor is better than an idle device");
        assert_eq!((fair.len(), fair.last_urgency()), (1, None));
    }
}
