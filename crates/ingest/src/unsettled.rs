//! What of a stream was delivered and is not settled. Pure.
//!
//! Frames are read without being noted as pending, since a stream has one owner and a commit deletes:
//! what a stream still has up to where its group has read is what is not settled. Only what is claimed
//! becomes pending, and so is counted: a frame under which one reader after the other dies is known by
//! it.

use std::collections::HashSet;

use redis::{Cmd, Value};

use crate::{
    entry::EntryId,
    link::{self, UNSETTLED},
};

/// Most entries of a kind that are looked up or claimed of one stream at once.
pub(crate) const PAGE: usize = 100;

/// Part of a stream that is looked over.
#[derive(Debug)]
pub(crate) struct Span {
    after: EntryId,
    /// The first frames in it that are worked on now.
    held: Vec<EntryId>,
    /// The last of these, where there are more.
    until: Option<EntryId>,
}

/// What was found in a span.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// In order, and how often each was delivered.
    pub(crate) frames: Vec<(EntryId, u32)>,
    /// What comes after this was not looked at; `None` where nothing does.
    pub(crate) until: Option<EntryId>,
    /// Frames of the stream that were trimmed away, and were not counted before.
    pub(crate) n_lost: u64,
}

impl Span {
    /// What comes after an entry, of a stream of which these frames are worked on.
    pub(crate) fn new(after: EntryId, held: &HashSet<EntryId>) -> Self {
        let mut held: Vec<EntryId> = held.iter().copied().filter(|id| after < *id).collect();
        held.sort_unstable();
        let has_more = PAGE < held.len();
        held.truncate(PAGE);
        let until = held.last().copied().filter(|_| has_more);
        Self { after, held, until }
    }

    /// The command that looks. The keys are the stream's, that of the count of its frames that were
    /// settled, and its ledger's.
    pub(crate) fn command(&self, keys: [&str; 3], group: &str) -> Cmd {
        let from = if self.after == EntryId::default() {
            "-".to_owned()
        } else {
            format!("({}", self.after)
        };
        let mut call = UNSETTLED.call(&keys);
        call.arg(group).arg(from).arg(PAGE).arg(u8::from(self.until.is_none()));
        for id in &self.held {
            call.arg(id.to_string());
        }
        call
    }

    /// What the reply says. Pending frames are among it that are worked on.
    pub(crate) fn found(&self, value: Value) -> Option<Found> {
        let mut parts = link::list(value)?.into_iter();
        let rows = link::list(parts.next()?)?;
        let ids = link::list(parts.next()?)?;
        let pending: Vec<_> = rows.into_iter().map(pending_row).collect::<Option<_>>()?;
        let others: Vec<_> =
            ids.into_iter().map(|id| link::text(id)?.parse().ok()).collect::<Option<_>>()?;
        Some(Found { n_lost: link::number(&parts.next()?)?, ..self.merge(&pending, &others) })
    }

    /// Pending frames and others in one order, as far as both were looked at.
    fn merge(&self, pending: &[(EntryId, u32)], others: &[EntryId]) -> Found {
        let full = |n: usize, last: Option<EntryId>| last.filter(|_| n == PAGE);
        let until = [
            self.until,
            full(pending.len(), pending.last().map(|(id, _)| *id)),
            full(others.len(), others.last().copied()),
        ];
        let until = until.into_iter().flatten().min();
        // What is not pending was delivered once, to somebody who did not settle it.
        let mut frames: Vec<_> = others.iter().map(|id| (*id, 1)).collect();
        frames.extend(pending);
        // Of a frame that is both, the larger count goes first and stays.
        frames.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        frames.dedup_by_key(|(id, _)| *id);
        frames.retain(|(id, _)| until.is_none_or(|until| *id <= until));
        Found { frames, until, n_lost: 0 }
    }
}

/// An entry's id and how often it was delivered.
fn pending_row(row: Value) -> Option<(EntryId, u32)> {
    let mut parts = link::list(row)?.into_iter();
    let id = link::text(parts.next()?)?.parse().ok()?;
    let n = link::number(&parts.nth(2)?)?;
    Some((id, u32::try_from(n).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn id(millis: u64) -> EntryId {
        EntryId { millis, number: 0 }
    }

    /// Looks at what the script would reply of a stream.
    fn look(span: &Span, pending: &BTreeMap<EntryId, u32>, delivered: &BTreeSet<EntryId>) -> Found {
        let rows: Vec<_> =
            pending.iter().filter(|(id, _)| span.after < **id).map(|(id, n)| (*id, *n)).collect();
        let is_new = |id: &EntryId| {
            span.after < *id
                && !span.held.contains(id)
                && span.until.is_none_or(|until| *id < until)
        };
        let others: Vec<_> = delivered.iter().copied().filter(is_new).collect();
        span.merge(&rows[..rows.len().min(PAGE)], &others[..others.len().min(PAGE)])
    }

    fn words(span: &Span) -> Vec<String> {
        let word = |arg: redis::Arg<&[u8]>| match arg {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => panic!("a cursor"),
        };
        span.command(["a", "n", "l"], "g").args_iter().skip(2).map(word).collect()
    }

    #[test]
    fn a_look_names_the_first_that_are_worked_on_and_says_whether_there_are_more() {
        let held = |n: u64| (1..=n).map(id).collect::<HashSet<_>>();
        let all = words(&Span::new(EntryId::default(), &held(2)));
        assert_eq!(all, ["3", "a", "n", "l", "g", "-", "100", "1", "1-0", "2-0"]);
        let later = words(&Span::new(id(1), &held(2)));
        assert_eq!(later, ["3", "a", "n", "l", "g", "(1-0", "100", "1", "2-0"]);

        let full = words(&Span::new(EntryId::default(), &held(100)));
        assert_eq!((full.len(), &*full[7]), (108, "1"));
        let more = words(&Span::new(EntryId::default(), &held(101)));
        assert_eq!((more.len(), &*more[7], &*more[107]), (108, "0", "100-0"));
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn row(id: &str, n: i64) -> Value {
        Value::Array(vec![text(id), text("node"), Value::Int(5), Value::Int(n)])
    }

    #[test]
    fn a_reply_says_how_often_each_was_delivered_and_how_many_were_lost() {
        let span = Span::new(EntryId::default(), &HashSet::new());
        let rows = Value::Array(vec![row("2-0", 3), row("4-0", 1 << 40)]);
        let ids = Value::Array(vec![text("2-0"), text("3-0")]);
        let reply = Value::Array(vec![rows, ids, Value::Int(7)]);

        let frames = vec![(id(2), 3), (id(3), 1), (id(4), u32::MAX)];
        assert_eq!(span.found(reply), Some(Found { frames, until: None, n_lost: 7 }));
    }

    #[test]
    fn a_reply_that_cannot_be_read_says_nothing() {
        let span = Span::new(EntryId::default(), &HashSet::new());
        let none = || Value::Array(Vec::new());
        for parts in [
            vec![none(), none()],
            vec![none(), none(), text("x")],
            vec![none(), Value::Array(vec![text("2")]), Value::Int(0)],
            vec![Value::Array(vec![row("2", 1)]), none(), Value::Int(0)],
            vec![Value::Array(vec![row("2-0", -1)]), none(), Value::Int(0)],
            vec![Value::Int(1), none(), Value::Int(0)],
        ] {
            assert_eq!(span.found(Value::Array(parts.clone())), None, "{parts:?}");
        }
        assert_eq!(span.found(Value::Okay), None);
    }

    proptest! {
        /// However many are held, pending or neither: page by page all are found, once and in order.
        #[test]
        fn law(
            delivered in proptest::collection::btree_set(1_u64..2000, 0..600),
            pending in proptest::collection::btree_map(1_u64..2000, 2_u32..9, 0..300),
            held in proptest::collection::hash_set(1_u64..2000, 0..400),
        ) {
            let delivered: BTreeSet<_> = delivered.into_iter().map(id).collect();
            let pending: BTreeMap<_, _> = pending.into_iter().map(|(at, n)| (id(at), n)).collect();
            let held: HashSet<_> = held.into_iter().map(id).collect();
            let mut expected: BTreeMap<_, _> = delivered.iter().map(|id| (*id, 1)).collect();
            expected.extend(pending.clone());
            expected.retain(|id, _| !held.contains(id));

            let mut after = EntryId::default();
            let mut found = Vec::new();
            loop {
                let page = look(&Span::new(after, &held), &pending, &delivered);
                found.extend(page.frames.into_iter().filter(|(id, _)| !held.contains(id)));
                let Some(until) = page.until else { break };
                prop_assert!(after < until, "it goes on");
                after = until;
            }

            prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
