//! Frames that are settled, and the one atomic step by which Redis learns of it.
//!
//! The step itself is `scripts/commit.lua`: it checks that the shard is still ours, writes results
//! and dead letters, acknowledges, deletes and counts. A frame that was settled before changes
//! nothing, so a commit whose answer was lost is simply sent again.

use std::{collections::HashMap, fmt::Display};

use redis::{Cmd, Value};

use crate::{
    Answer,
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
    Result { camera: String, seq: Option<u64>, taken_ms: u64, answer: Answer },
    Dropped(Reason),
    Dead { reason: String, tries: u32 },
}

impl Verdict {
    pub(crate) const fn ending(&self) -> Ending {
        match self {
            Self::Result { .. } => Ending::Committed,
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
    /// one part only. Frames of one stream stand together.
    pub(crate) fn command(&self, parts: &[Part<'_>], key_of: impl Fn(u64) -> String) -> Cmd {
        let mut keys = Keys::default();
        if let Some(part) = parts.first() {
            keys.place(self.shards.ledger(part.shard));
        }
        for part in parts {
            keys.place(self.shards.lease(part.shard));
        }
        for part in parts {
            keys.place(self.shards.results(part.shard));
        }
        let mut args = Args::default();
        args.add(&self.group).add(self.keep_results).add(self.keep_dead).add(parts.len());
        for part in parts {
            args.add(part.token);
            let (n_args, n_streams) = (args.later(), args.later());
            let before = args.0.len();
            let streams = part.frames.chunk_by(|a, b| a.stream == b.stream);
            args.0[n_streams] = streams.clone().count().to_string().into_bytes();
            for frames in streams {
                args.add(keys.place(key_of(frames[0].stream))).add(frames.len());
                for frame in frames {
                    self.add_frame(frame, &mut keys, &mut args);
                }
            }
            args.0[n_args] = (args.0.len() - before).to_string().into_bytes();
        }
        let mut call = COMMIT.call(&keys.all);
        for arg in &args.0 {
            call.arg(arg);
        }
        call
    }

    fn add_frame(&self, frame: &Settled, keys: &mut Keys, args: &mut Args) {
        args.add(frame.id);
        match &frame.verdict {
            Verdict::Result { camera, seq, taken_ms, answer } => {
                // What nearly every result is takes the fewest words.
                let is_plain = answer.fields.iter().map(|(name, _)| &**name).eq(["m", "d"]);
                args.add(if is_plain { "t" } else { "r" }).add(camera);
                args.add(seq.map(|seq| seq.to_string()).unwrap_or_default()).add(taken_ms);
                if !is_plain {
                    args.add(answer.fields.len());
                }
                for (name, value) in &answer.fields {
                    if !is_plain {
                        args.add(name);
                    }
                    args.0.push(value.to_vec());
                }
            }
            Verdict::Dropped(reason) => {
                args.add("d").add(format_args!("dropped_{}", reason.as_str()));
            }
            Verdict::Dead { reason, tries } => {
                args.add("x").add(keys.place(self.shards.dead(frame.shard))).add(reason).add(tries);
            }
        }
    }
}

/// Keys, each named once, by their places from 1 on.
#[derive(Default)]
struct Keys {
    all: Vec<String>,
    places: HashMap<String, usize>,
}

impl Keys {
    fn place(&mut self, key: String) -> usize {
        *self.places.entry(key).or_insert_with_key(|key| {
            self.all.push(key.clone());
            self.all.len()
        })
    }
}

/// Arguments, as they are sent.
#[derive(Default)]
struct Args(Vec<Vec<u8>>);

impl Args {
    fn add(&mut self, arg: impl Display) -> &mut Self {
        self.0.push(format!("{arg}").into_bytes());
        self
    }

    /// A place for an argument that is not known yet.
    fn later(&mut self) -> usize {
        self.0.push(Vec::new());
        self.0.len() - 1
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
