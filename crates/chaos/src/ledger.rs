//! What became of everything that was sent. Pure: whoever settles an operation says when it began
//! and when it ended.
//!
//! Every operation ends once: with the right answer, or with something that a fault excuses. A
//! fault says beforehand what it may cause, and only operations that it overlaps are excused. A
//! wrong answer, a second one, or none at all is never excused.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

/// How long after a fault is over its consequences may still show.
const GRACE: Duration = Duration::from_secs(3);
/// Faults that are remembered; an operation never outlasts so many.
const WINDOWS: usize = 64;
/// Violations that are described; further ones are only counted.
const DESCRIBED: usize = 32;

/// How one operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The right bytes, in the right order, once.
    Right,
    /// Refused with a typed code: overloaded, unavailable, too late, shutting down.
    Refused(String),
    /// The model failed on it, and said so.
    Failed(String),
    /// The connection ended without an answer.
    Cut(String),
    /// An answer that is not the right one.
    Wrong(String),
    /// Nothing at all within a long time.
    Silent,
}

/// What a fault may cause to those who did nothing wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Excuses {
    pub(crate) refused: bool,
    pub(crate) failed: bool,
    pub(crate) cut: bool,
}

impl Excuses {
    /// It must harm nobody.
    pub(crate) const NONE: Self = Self { refused: false, failed: false, cut: false };
    /// The server, or what it needs, goes away for a while.
    pub(crate) const AWAY: Self = Self { refused: true, failed: false, cut: true };
    /// What a worker process was at is lost.
    pub(crate) const WORKER: Self = Self { refused: true, failed: true, cut: false };
    /// There is more to do than can be done.
    pub(crate) const PRESSURE: Self = Self { refused: true, failed: false, cut: false };

    /// There is more to do than can be done, and bodies are refused while they are being sent: who
    /// is still sending may find the connection closed before it has read why.
    pub(crate) const CROWD: Self = Self { refused: true, failed: false, cut: true };

    /// Packets get lost. Whose first ones are lost again and again, until `header_timeout` is over, is
    /// cut off: on a fast machine one connection in ten thousand.
    pub(crate) const LOSS: Self = Self { refused: false, failed: false, cut: true };

    fn cover(self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Right => true,
            Outcome::Refused(_) => self.refused,
            Outcome::Failed(_) => self.failed,
            Outcome::Cut(_) => self.cut,
            Outcome::Wrong(_) | Outcome::Silent => false,
        }
    }
}

/// One fault's time.
#[derive(Debug)]
struct Window {
    fault: &'static str,
    excuses: Excuses,
    began: Instant,
    ended: Option<Instant>,
}

/// Counts of one door.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) right: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) cut: u64,
    pub(crate) wrong: u64,
    pub(crate) silent: u64,
}

impl Counts {
    pub(crate) fn total(&self) -> u64 {
        self.right + self.refused + self.failed + self.cut + self.wrong + self.silent
    }

    fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.refused += other.refused;
        self.failed += other.failed;
        self.cut += other.cut;
        self.wrong += other.wrong;
        self.silent += other.silent;
    }

    fn count(&mut self, outcome: &Outcome) {
        *match outcome {
            Outcome::Right => &mut self.right,
            Outcome::Refused(_) => &mut self.refused,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::Cut(_) => &mut self.cut,
            Outcome::Wrong(_) => &mut self.wrong,
            Outcome::Silent => &mut self.silent,
        } += 1;
    }
}

#[derive(Debug, Default)]
struct Book {
    doors: BTreeMap<&'static str, Counts>,
    windows: VecDeque<Window>,
    n_violations: u64,
    violations: Vec<String>,
}

/// The book that all clients write into.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Book>);

/// A copy of what the book says.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Balance {
    pub(crate) doors: BTreeMap<&'static str, Counts>,
    pub(crate) n_violations: u64,
    pub(crate) violations: Vec<String>,
}

impl Balance {
    pub(crate) fn n_operations(&self) -> u64 {
        self.doors.values().map(Counts::total).sum()
    }

    /// What another book says, too.
    pub(crate) fn add(&mut self, other: Self) {
        for (door, counts) in other.doors {
            self.doors.entry(door).or_default().add(&counts);
        }
        self.n_violations += other.n_violations;
        self.violations.extend(other.violations);
    }
}

impl Ledger {
    /// A fault begins, with what it may cause.
    pub(crate) fn open(&self, fault: &'static str, excuses: Excuses, now: Instant) {
        let windows = &mut self.0.lock().windows;
        if windows.len() == WINDOWS {
            windows.pop_front();
        }
        windows.push_back(Window { fault, excuses, began: now, ended: None });
    }

    /// The fault is over, and everything answers again.
    pub(crate) fn close(&self, now: Instant) {
        if let Some(window) = self.0.lock().windows.back_mut() {
            window.ended = Some(now);
        }
    }

    /// So many operations ended with the right answer.
    pub(crate) fn right(&self, door: &'static str, n: usize) {
        self.0.lock().doors.entry(door).or_default().right += u64::try_from(n).unwrap_or(0);
    }

    pub(crate) fn n_operations(&self) -> u64 {
        self.0.lock().doors.values().map(Counts::total).sum()
    }

    pub(crate) fn n_right(&self) -> u64 {
        self.0.lock().doors.values().map(|counts| counts.right).sum()
    }

    pub(crate) fn n_violations(&self) -> u64 {
        self.0.lock().n_violations
    }

    /// An operation ended.
    pub(crate) fn settle(&self, door: &'static str, began: Instant, now: Instant, end: &Outcome) {
        let mut book = self.0.lock();
        book.doors.entry(door).or_default().count(end);
        if *end == Outcome::Right {
            return;
        }
        let overlaps = |window: &&Window| {
            window.began <= now && window.ended.is_none_or(|ended| began <= ended + GRACE)
        };
        if book.windows.iter().filter(overlaps).any(|window| window.excuses.cover(end)) {
            return;
        }
        let near = book.windows.iter().filter(overlaps).map(|window| window.fault);
        let near = near.collect::<Vec<_>>().join(", ");
        book.violation(format!("{door}: {end:?} after {:?} [{near}]", now - began));
    }

    /// Something that no client sees is not as it must be.
    pub(crate) fn violation(&self, said: String) {
        self.0.lock().violation(said);
    }

    pub(crate) fn balance(&self) -> Balance {
        let book = self.0.lock();
        Balance {
            doors: book.doors.clone(),
            n_violations: book.n_violations,
            violations: book.violations.clone(),
        }
    }
}

impl Book {
    fn violation(&mut self, said: String) {
        self.n_violations += 1;
        if self.violations.len() < DESCRIBED {
            self.violations.push(said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    /// Settles one operation against one fault from second 10 to 20, and counts violations.
    fn violations(excuses: Excuses, outcome: &Outcome, began: u64, ended: u64) -> u64 {
        let (ledger, start) = (Ledger::default(), Instant::now());
        ledger.open("fault", excuses, at(start, 10));
        ledger.close(at(start, 20));
        ledger.settle("door", at(start, began), at(start, ended), outcome);
        let balance = ledger.balance();
        assert_eq!(balance.doors["door"].total(), 1);
        balance.n_violations
    }

    #[test]
    fn a_fault_excuses_what_it_overlaps_and_nothing_else() {
        let cut = Outcome::Cut(String::new());
        assert_eq!(violations(Excuses::AWAY, &cut, 9, 11), 0);
        assert_eq!(violations(Excuses::AWAY, &cut, 22, 22), 0, "consequences may show for a while");
        assert_eq!(violations(Excuses::AWAY, &cut, 1, 9), 1, "it ended before the fault");
        assert_eq!(violations(Excuses::AWAY, &cut, 24, 25), 1, "it began long after the fault");
        assert_eq!(violations(Excuses::PRESSURE, &cut, 11, 12), 1, "this fault cuts nobody");
    }

    #[test]
    fn a_wrong_answer_and_no_answer_are_never_excused() {
        let all = Excuses { refused: true, failed: true, cut: true };
        assert_eq!(violations(all, &Outcome::Wrong(String::new()), 11, 12), 1);
        assert_eq!(violations(all, &Outcome::Silent, 11, 12), 1);
        assert_eq!(violations(Excuses::NONE, &Outcome::Right, 11, 12), 0);
    }
}
