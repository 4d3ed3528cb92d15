//! The ledger that lies in Redis: what became of every frame that was ever added, whoever worked on
//! it and however often it crashed.

use std::collections::BTreeMap;

use paceline_pipeline::CameraState;
use redis::{Pipeline, Value};

use crate::{
    Layout,
    common::Common,
    entry::EntryId,
    ledger::Reason,
    link::{Fault, Link, list, number, text},
    topology::Topology,
};

/// Counts over all nodes, since the streams were made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Frames that producers added, dead letters that were replayed among them.
    pub added: u64,
    /// With a result.
    pub committed: u64,
    /// Dropped on purpose, in the order of [`Reason::ALL`].
    pub dropped: [u64; Reason::ALL.len()],
    /// Put to the dead letters.
    pub dead: u64,
    /// Trimmed away by somebody before they were settled.
    pub lost: u64,
    /// Still in the streams, read or not.
    pub in_streams: u64,
    /// Of these, not read by any node yet; the others are being worked on.
    pub unread: u64,
    /// Dead letters that were put back.
    pub replayed: u64,
}

impl Totals {
    /// All dropped frames.
    #[must_use]
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Frames that were read by some node and are not settled yet.
    #[must_use]
    pub const fn pending(&self) -> u64 {
        self.in_streams - self.unread
    }

    /// Frames that were added and are nowhere: somebody trimmed them away and no node has noticed yet, or
    /// had before a node first looked, or a server lost them. 0 where all is well. Taken while frames
    /// move, it may be off by those.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        let ended = self.committed + self.all_dropped() + self.dead + self.lost;
        self.added.cast_signed() - (ended + self.in_streams).cast_signed()
    }
}

pub(crate) async fn totals(common: &Common) -> Result<Totals, Fault> {
    let config = &common.config;
    let topology = Topology::discover(&common.address, None, config.timeout).await?;
    let mut streams: Vec<String> = match config.layout {
        Layout::Shard => common.shards.all().map(|shard| common.shards.frames(shard)).collect(),
        Layout::Camera => {
            let known = common.roster.list().into_iter();
            known
                .filter(|(_, standing)| *standing != CameraState::Removed)
                .map(|(camera, _)| config.key_of(&camera, common.shards.of(&camera)))
                .collect()
        }
    };
    let mut totals = Totals::default();
    let mut links = BTreeMap::new();
    for (address, server) in &topology.servers {
        links.insert(address.clone(), Link::open(server, config.timeout).await?);
    }
    let mut ledgers: Vec<String> =
        common.shards.all().map(|shard| common.shards.ledger(shard)).collect();
    for (address, link) in &mut links {
        let is_here = |key: &String| topology.home(key) == Some(address);
        // Streams first: a frame that is in none any more is in a ledger by then.
        let (here, rest) = streams.into_iter().partition::<Vec<_>, _>(is_here);
        streams = rest;
        for keys in here.chunks(256) {
            let mut commands = Pipeline::new();
            for key in keys {
                commands.cmd("XINFO").arg("STREAM").arg(key);
                commands.cmd("XINFO").arg("GROUPS").arg(key);
            }
            let mut values = link.ask(&commands).await?.into_iter();
            while let (Some(stream), Some(groups)) = (values.next(), values.next()) {
                totals.add_stream(stream, groups, &config.group);
            }
        }
        let (here, rest) = ledgers.into_iter().partition::<Vec<_>, _>(is_here);
        ledgers = rest;
        let mut commands = Pipeline::new();
        for key in &here {
            commands.cmd("HGETALL").arg(key);
        }
        for value in link.ask(&commands).await? {
            totals.add_ledger(value);
        }
    }
    Ok(totals)
}

impl Totals {
    fn add_ledger(&mut self, value: Value) {
        let fields = match value {
            Value::Map(pairs) => pairs,
            value => in_pairs(value),
        };
        for (name, count) in fields {
            let (Some(name), Some(count)) = (text(name), number(&count)) else { continue };
            let dropped = name.strip_prefix("dropped_");
            let reason =
                dropped.and_then(|name| Reason::ALL.iter().position(|one| one.as_str() == name));
            match (&*name, reason) {
                (_, Some(at)) => self.dropped[at] += count,
                ("committed", _) => self.committed += count,
                ("dead", _) => self.dead += count,
                ("lost", _) => self.lost += count,
                ("replayed", _) => self.replayed += count,
                _ => {}
            }
        }
    }

    fn add_stream(&mut self, stream: Value, groups: Value, group: &str) {
        let (mut length, mut added, mut first, mut last) = (0, 0, None, None);
        for (name, value) in in_pairs(stream) {
            match text(name).as_deref() {
                Some("length") => length = number(&value).unwrap_or(0),
                Some("entries-added") => added = number(&value).unwrap_or(0),
                Some("first-entry") => {
                    first = list(value).and_then(|entry| entry_id(entry.into_iter().next()?));
                }
                Some("last-generated-id") => last = entry_id(value),
                _ => {}
            }
        }
        self.added += added;
        self.in_streams += length;
        self.unread += match list(groups).and_then(|groups| Group::find(groups, group)) {
            // All was read.
            Some(group) if last <= Some(group.read) => 0,
            // Some was and is not settled. How many were read is not known of a group that somebody
            // else made, before it has read the stream to its end for the first time.
            Some(group) if first <= Some(group.read) => {
                group.n_read.map_or(length, |n_read| added.saturating_sub(n_read).min(length))
            }
            _ => length,
        };
    }
}

/// How far a group has read a stream.
struct Group {
    read: EntryId,
    /// How many entries that were, where Redis knows.
    n_read: Option<u64>,
}

impl Group {
    /// The group of this name, among what `XINFO GROUPS` says of all.
    fn find(groups: Vec<Value>, wanted: &str) -> Option<Self> {
        groups.into_iter().find_map(|group| {
            let (mut name, mut read, mut n_read) = (None, None, None);
            for (about, value) in in_pairs(group) {
                match text(about).as_deref() {
                    Some("name") => name = text(value),
                    Some("last-delivered-id") => read = entry_id(value),
                    Some("entries-read") => n_read = number(&value),
                    _ => {}
                }
            }
            (name.as_deref() == Some(wanted)).then_some(Self { read: read?, n_read })
        })
    }
}

fn entry_id(value: Value) -> Option<EntryId> {
    text(value)?.parse().ok()
}

fn in_pairs(value: Value) -> Vec<(Value, Value)> {
    let mut values = list(value).unwrap_or_default().into_iter();
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (values.next(), values.next()) {
        pairs.push((name, value));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    /// Names and values, as Redis says them in a row.
    fn row(pairs: Vec<(&str, Value)>) -> Value {
        Value::Array(pairs.into_iter().flat_map(|(name, value)| [text(name), value]).collect())
    }

    /// A stream that got ten frames and has the last six of them.
    fn stream() -> Value {
        row(vec![
            ("length", Value::Int(6)),
            ("entries-added", Value::Int(10)),
            ("first-entry", Value::Array(vec![text("5-0"), Value::Array(Vec::new())])),
            ("last-generated-id", text("10-0")),
            ("groups", Value::Int(2)),
        ])
    }

    /// A group that has read up to an entry, which was so many.
    fn group(name: &str, read: &str, n_read: Option<i64>) -> Value {
        row(vec![
            ("name", text(name)),
            ("pending", Value::Int(0)),
            ("last-delivered-id", text(read)),
            ("entries-read", n_read.map_or(Value::Nil, Value::Int)),
        ])
    }

    fn unread(groups: Vec<Value>) -> u64 {
        let mut totals = Totals::default();
        totals.add_stream(stream(), Value::Array(groups), "own");
        assert_eq!((totals.added, totals.in_streams), (10, 6));
        assert_eq!(totals.pending() + totals.unread, 6);
        totals.unread
    }

    #[test]
    fn what_the_group_has_not_read_is_unread() {
        assert_eq!(unread(Vec::new()), 6, "there is no group");
        assert_eq!(unread(vec![group("other", "10-0", Some(10))]), 6, "it is somebody else's");
        let own = |read: &str, n_read| {
            unread(vec![group("other", "9-0", None), group("own", read, n_read)])
        };
        assert_eq!(own("10-0", Some(10)), 0);
        assert_eq!(own("10-0", None), 0, "it has read the last, however many there were");
        assert_eq!(own("7-0", Some(7)), 3);
        assert_eq!(own("5-0", Some(5)), 5, "it has read the first that is there");
        assert_eq!(own("4-0", Some(9)), 6, "it was set back to before all that is there");
        assert_eq!(own("7-0", None), 6, "Redis does not know how many it has read");
        assert_eq!(own("7-0", Some(2)), 6, "no more than there are");
        assert_eq!(own("7-0", Some(11)), 0, "no fewer than none");
    }

    #[test]
    fn a_stream_that_is_not_there_has_nothing() {
        let mut totals = Totals::default();
        let error = redis::parse_redis_value(b"-ERR no such key\r\n").unwrap();
        totals.add_stream(error.clone(), error, "own");

        assert_eq!(totals, Totals::default());
    }

    #[test]
    fn ledgers_add_up_by_name_however_redis_writes_them() {
        let counts = [
            ("committed", 1),
            ("dead", 2),
            ("lost", 3),
            ("replayed", 4),
            ("dropped_stale", 5),
            ("dropped_overwritten", 6),
            ("dropped_by_a_later_version", 100),
            ("of a later version", 100),
        ];
        let list = row(counts.map(|(name, n)| (name, text(&n.to_string()))).to_vec());
        let map = Value::Map(counts.map(|(name, n)| (text(name), Value::Int(n))).to_vec());
        let mut totals = Totals::default();
        totals.add_ledger(list);
        totals.add_ledger(map);

        let expected = Totals {
            committed: 2,
            dead: 4,
            lost: 6,
            replayed: 8,
            dropped: [10, 0, 0, 0, 12],
            ..Totals::default()
        };
        assert_eq!(totals, expected);
        assert_eq!(totals.all_dropped(), 22);
    }

    #[test]
    fn what_was_added_and_is_nowhere_is_unaccounted_for() {
        let totals = Totals {
            added: 100,
            committed: 1,
            dropped: [2, 3, 0, 0, 0],
            dead: 4,
            lost: 5,
            in_streams: 6,
            unread: 2,
            replayed: 7,
        };

        assert_eq!((totals.unaccounted(), totals.pending()), (79, 4));
        assert_eq!(Totals { added: 20, ..totals }.unaccounted(), -1, "frames that moved meanwhile");
    }
}
