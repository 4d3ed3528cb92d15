//! Answers in the order of their questions, whichever comes first.

use std::collections::VecDeque;

/// Questions that are open and answers that wait for older ones.
#[derive(Debug)]
pub(super) struct InOrder<Q, A> {
    /// The number of the oldest question.
    first: u64,
    slots: VecDeque<Slot<Q, A>>,
    n_open: usize,
}

#[derive(Debug)]
enum Slot<Q, A> {
    Open(Q),
    Answered(Q, A),
    Withdrawn,
}

impl<Q, A> Default for InOrder<Q, A> {
    fn default() -> Self {
        Self { first: 0, slots: VecDeque::new(), n_open: 0 }
    }
}

impl<Q, A> InOrder<Q, A> {
    /// A further question; its number.
    pub(super) fn ask(&mut self, question: Q) -> u64 {
        self.slots.push_back(Slot::Open(question));
        self.n_open += 1;
        self.first + self.slots.len() as u64 - 1
    }

    /// Answers a question. An answer to one that is not open is let go.
    pub(super) fn answer(&mut self, number: u64, answer: A) {
        self.settle(number, |question| Slot::Answered(question, answer));
    }

    /// Takes a question back, as if it had not been asked.
    pub(super) fn withdraw(&mut self, number: u64) {
        self.settle(number, |_| Slot::Withdrawn);
    }

    /// The oldest question with its answer, if it has one.
    pub(super) fn next(&mut self) -> Option<(Q, A)> {
        loop {
            match self.slots.pop_front()? {
                Slot::Answered(question, answer) => {
                    self.first += 1;
                    return Some((question, answer));
                }
                Slot::Withdrawn => self.first += 1,
                open @ Slot::Open(_) => {
                    self.slots.push_front(open);
                    return None;
                }
            }
        }
    }

    /// Questions without an answer.
    pub(super) const fn n_open(&self) -> usize {
        self.n_open
    }

    /// Whether there is nothing to wait for and nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn settle(&mut self, number: u64, settled: impl FnOnce(Q) -> Slot<Q, A>) {
        let place = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let Some(slot) = place.and_then(|at| self.slots.get_mut(at)) else { return };
        match std::mem::replace(slot, Slot::Withdrawn) {
            Slot::Open(question) => {
                *slot = settled(question);
                self.n_open -= 1;
            }
            before => *slot = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn answers_leave_in_the_order_of_questions_and_none_is_lost(
            settling in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..40)
        ) {
            let mut order = InOrder::default();
            let mut open: Vec<u64> = (0..settling.len()).map(|at| order.ask(at)).collect();
            let mut withdrawn = 0;
            let mut left = Vec::new();
            for (is_withdrawn, which) in settling {
                let number = open.remove(which.index(open.len()));
                if is_withdrawn {
                    order.withdraw(number);
                    withdrawn += 1;
                } else {
                    order.answer(number, number);
                    order.answer(number, u64::MAX);
                }
                left.extend(std::iter::from_fn(|| order.next()));
            }
            prop_assert!(order.is_empty() && order.n_open() == 0);
            prop_assert!(left.is_sorted_by(|a, b| a.0 < b.0));
            prop_assert!(left.iter().all(|(question, answer)| *question as u64 == *answer));
            prop_assert_eq!(left.len() + withdrawn, usize::try_from(order.first).unwrap());
        }
    }
}
