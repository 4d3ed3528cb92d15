//! The ledger that lies in Redis: what became of every frame that was ever added, whoever worked on
//! it and however often it crashed.

use std::collections::BTreeMap;

use paceline_pipeline::CameraState;
use redis::{Pipeline, Value};

use crate::{
    Layout,
    common::Common,
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
    /// Trimmed away by somebody while pending.
    pub lost: u64,
    /// Still in the streams, pending or not read yet.
    pub in_streams: u64,
    /// Of these, read by some node and not settled yet.
    pub pending: u64,
    /// Dead letters that were put back.
    pub replayed: u64,
}

impl Totals {
    /// All dropped frames.
    #[must_use]
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Frames that were added and are nowhere: producers or people trimmed them away unread, or a
    /// server lost them. 0 where all is well. Taken while frames move, it may be off by those.
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
                commands.cmd("XPENDING").arg(key).arg(&config.group);
            }
            let mut values = link.ask(&commands).await?.into_iter();
            while let (Some(stream), Some(pending)) = (values.next(), values.next()) {
                totals.add_stream(stream, pending);
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

    fn add_stream(&mut self, stream: Value, pending: Value) {
        for (name, value) in in_pairs(stream) {
            match text(name).as_deref() {
                Some("length") => self.in_streams += number(&value).unwrap_or(0),
                Some("entries-added") => self.added += number(&value).unwrap_or(0),
                _ => {}
            }
        }
        if let Some(first) = list(pending).and_then(|parts| parts.into_iter().next()) {
            self.pending += number(&first).unwrap_or(0);
        }
    }
}

fn in_pairs(value: Value) -> Vec<(Value, Value)> {
    let mut values = list(value).unwrap_or_default().into_iter();
    let mut pairs = Vec::new();
    while let (Some(name), Some(value)) = (values.next(), values.next()) {
        pairs.push((name, value));
    }
    pairs
}
