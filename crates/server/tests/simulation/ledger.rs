//! What became of everything that was sent in one seed.

use std::{cell::RefCell, rc::Rc};

use serde_json::Value;

/// How often each thing happened.
#[derive(Debug, Default, Clone)]
pub(crate) struct Total {
    pub(crate) right: u64,
    /// Of these, over gRPC.
    pub(crate) called: u64,
    pub(crate) failed: u64,
    pub(crate) overloaded: u64,
    pub(crate) late: u64,
    /// Asked while the server stopped, and never read by it.
    pub(crate) unheard: u64,
    /// Asked by clients who did not wait for the answer.
    pub(crate) left: u64,
    pub(crate) streams: u64,
    pub(crate) samples: u64,
    pub(crate) pests: u64,
    pub(crate) drained_early: u64,
}

impl Total {
    pub(crate) fn add(&mut self, other: &Self) {
        self.right += other.right;
        self.called += other.called;
        self.failed += other.failed;
        self.overloaded += other.overloaded;
        self.late += other.late;
        self.unheard += other.unheard;
        self.left += other.left;
        self.streams += other.streams;
        self.samples += other.samples;
        self.pests += other.pests;
        self.drained_early += other.drained_early;
    }

    /// A simulation in which something never happens shows nothing about it.
    pub(crate) fn has_everything(&self) -> bool {
        let Self {
            right,
            called,
            failed,
            overloaded,
            late,
            unheard,
            left,
            streams,
            samples,
            pests,
            ..
        } = *self;
        ![right, called, failed, overloaded, late, unheard, left, streams, samples, pests]
            .contains(&0)
            && self.drained_early != 0
    }
}

/// The book of one seed.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ledger(Rc<RefCell<Book>>);

#[derive(Debug, Default)]
struct Book {
    total: Total,
    violations: Vec<String>,
}

/// What a request may end with beside its right answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Excuses {
    /// The model fails or panics now and then.
    pub(crate) failed: bool,
    /// There are fewer places than clients.
    pub(crate) overloaded: bool,
    /// It has a deadline.
    pub(crate) late: bool,
}

impl Ledger {
    pub(crate) fn violation(&self, said: String) {
        self.0.borrow_mut().violations.push(said);
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Total)) {
        count(&mut self.0.borrow_mut().total);
    }

    /// A request was answered, with `right` or in some other way.
    pub(crate) fn answered(&self, status: u16, body: &Value, right: &Value, excuses: Excuses) {
        if status == 200 {
            if body == right {
                return self.count(|total| total.right += 1);
            }
            return self.violation(format!("instead of {right} came {body}"));
        }
        let may_be = match body["code"].as_str() {
            Some("model_failed" | "internal") if excuses.failed => {
                self.count(|total| total.failed += 1);
                true
            }
            Some("overloaded") if excuses.overloaded => {
                self.count(|total| total.overloaded += 1);
                true
            }
            Some("deadline_exceeded") if excuses.late => {
                self.count(|total| total.late += 1);
                true
            }
            _ => false,
        };
        if !may_be {
            self.violation(format!("instead of {right} came {status} {body}"));
        }
    }

    pub(crate) fn total(&self) -> Total {
        self.0.borrow().total.clone()
    }

    pub(crate) fn close(&self) -> Result<Total, String> {
        let book = self.0.borrow();
        match book.violations.as_slice() {
            [] => Ok(book.total.clone()),
            [first, rest @ ..] => Err(format!("{first} (and {} more)", rest.len())),
        }
    }
}
