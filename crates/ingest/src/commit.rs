//! Frames that are settled, and the one atomic step by which Redis learns of it.
//!
//! The step itself is `scripts/commit.lua`: it checks that the shard is still ours, writes results
//! and dead letters, acknowledges, deletes and counts. A frame that was settled before changes
//! nothing, so a commit whose answer was lost is simply sent again.

use std::{borrow::Cow, collections::HashMap};

use bytes::Bytes;
use redis::{Cmd, Value};

use crate::{
    credit::Held,
    entry::EntryId,
    ledger::{Ending, Reason},
    link::{COMMIT, Fault},
    shard::{ShardId, Shards},
};

/// A frame that only has to be committed.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) stream: u64,
    pub(crate) shard: ShardId,
    pub(crate) id: EntryId,
    pub(crate) verdict: Verdict,
    /// What it weighs, given back when this is dropped.
    pub(crate) _held: Held,
    /// It was sent to Redis before, and the answer was lost.
    pub(crate) is_uncertain: bool,
}

/// What is written for a frame.
#[derive(Debug)]
pub(crate) enum Verdict {
    Result(Vec<(Cow<'static, str>, Bytes)>),
    Dropped(Reason),
    Dead { reason: String, tries: u32 },
}

impl Verdict {
    pub(crate) const fn ending(&self) -> Ending {
        match self {
            Self::Result(_) => Ending::Committed,
            Self::Dropped(reason) => Ending::Dropped(*reason),
            Self::Dead { .. } => Ending::Dead,
        }
    }
}

/// Frames of one shard, in one commit.
pub(crate) struct Part<'a> {
    pub(crate) shard: ShardId,
    /// What proves that the shard is ours.
    pub(crate) token: &'a str,
    pub(crate) frames: &'a [Settled],
}

/// What Redis said of one part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Somebody else owns the shard; nothing was written.
    Fenced,
    /// Per frame.
    Frames(Vec<State>),
}

/// What Redis said of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Settled,
    SettledBefore,
    Refused(String),
}

/// What all commits share.
#[derive(Debug, Clone)]
pub(crate) struct Form {
    pub(crate) shards: Shards,
    pub(crate) group: String,
    pub(crate) keep_results: usize,
    pub(crate) keep_dead: usize,
}

impl Form {
    /// The command that commits `parts`; `key_of` gives a stream's key. In a Cluster there may be
    /// one part only.
    pub(crate) fn command(&self, parts: &[Part<'_>], key_of: impl Fn(u64) -> String) -> Cmd {
        let per_part = |key: fn(&Shards, ShardId) -> String| {
            parts.iter().map(move |part| key(&self.shards, part.shard))
        };
        let mut keys: Vec<String> = Vec::with_capacity(1 + parts.len() * 4);
        keys.extend(parts.first().map(|part| self.shards.ledger(part.shard)));
        keys.extend(per_part(Shards::lease));
        keys.extend(per_part(Shards::results));
        keys.extend(per_part(Shards::dead));
        let mut places = HashMap::new();
        for frame in parts.iter().flat_map(|part| part.frames) {
            places.entry(frame.stream).or_insert_with(|| {
                keys.push(key_of(frame.stream));
                keys.len()
            });
        }
        let mut call = COMMIT.call(&keys);
        call.arg(&self.group).arg(self.keep_results).arg(self.keep_dead).arg(parts.len());
        for part in parts {
            let n_args = |frame: &Settled| {
                3 + match &frame.verdict {
                    Verdict::Result(fields) => 1 + 2 * fields.len(),
                    Verdict::Dropped(_) => 1,
                    Verdict::Dead { .. } => 2,
                }
            };
            let n: usize = part.frames.iter().map(n_args).sum();
            call.arg(part.token).arg(n).arg(part.frames.len());
            for frame in part.frames {
                call.arg(places[&frame.stream]).arg(frame.id.to_string());
                match &frame.verdict {
                    Verdict::Result(fields) => {
                        call.arg(b"r").arg(fields.len());
                        for (name, value) in fields {
                            call.arg(&**name).arg(&**value);
                        }
                    }
                    Verdict::Dropped(reason) => {
                        call.arg(b"d").arg(format!("dropped_{}", reason.as_str()));
                    }
                    Verdict::Dead { reason, tries } => {
                        call.arg(b"x").arg(reason).arg(*tries);
                    }
                }
            }
        }
        call
    }
}

/// Reads what `scripts/commit.lua` replies.
pub(crate) fn reply(value: Value) -> Result<Vec<Reply>, Fault> {
    let nonsense = || Fault::Nonsense("a commit with something else");
    let state = |value: Value| match value {
        Value::Int(1) => Ok(State::Settled),
        Value::Int(0) => Ok(State::SettledBefore),
        Value::BulkString(error) => {
            Ok(State::Refused(String::from_utf8_lossy(&error).into_owned()))
        }
        _ => Err(nonsense()),
    };
    let part = |value: Value| match value {
        Value::Int(-1) => Ok(Reply::Fenced),
        Value::Array(states) => {
            states.into_iter().map(state).collect::<Result<_, _>>().map(Reply::Frames)
        }
        _ => Err(nonsense()),
    };
    match value {
        Value::Array(parts) => parts.into_iter().map(part).collect(),
        Value::ServerError(error) => Err(Fault::of(&error)),
        _ => Err(nonsense()),
    }
}
