//! Frames that are settled, and the one atomic step by which Redis learns of it.
//!
//! The step itself is `scripts/commit.lua`: it checks that the shard is still ours, writes results
//! and dead letters, deletes and counts. A frame that was settled before changes nothing, so a commit
//! whose answer was lost is simply sent again.

use std::fmt::Display;

use paceline_frames::Label;
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
    pub(crate) standing: Standing,
}

/// What Redis may know of a frame besides that it is in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: it was read under this lease, and never sent in a commit.
    Fresh,
    /// It was claimed, so it is pending.
    Claimed,
    /// It was sent in a commit whose answer was lost, so it may be settled.
    Uncertain,
}

impl Settled {
    /// The answer of a fresh frame, as a field.
    fn plain(&self) -> Option<(&[u8], &[u8])> {
        match &self.verdict {
            Verdict::Result { answer, .. } if self.standing == Standing::Fresh => {
                Some(answer.field())
            }
            _ => None,
        }
    }

    /// What names the frame's result for ever.
    fn key(&self) -> String {
        match &self.verdict {
            Verdict::Result { camera, seq, taken_ms, .. } => {
                Label { number: *seq, taken_ms: *taken_ms, camera }.result_key(self.id)
            }
            Verdict::Dropped(_) | Verdict::Dead { .. } => String::new(),
        }
    }
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

/// Frames of one stream, in one commit.
pub(crate) struct Part<'a> {
    pub(crate) shard: ShardId,
    /// What proves that the shard is ours.
    pub(crate) token: &'a str,
    /// The stream's key.
    pub(crate) stream: &'a str,
    /// The key of the count of its frames that were settled.
    pub(crate) settled: &'a str,
    pub(crate) frames: &'a [Settled],
    /// Whether the shard's results are trimmed to as many as are kept.
    pub(crate) trims: bool,
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
    /// Somebody trimmed it away meanwhile; it has no result.
    Lost,
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
    /// The command that commits `parts`. In a Cluster all are of one shard.
    pub(crate) fn command(&self, parts: &[Part<'_>]) -> Cmd {
        let shards = &self.shards;
        let mut keys = Vec::with_capacity(1 + 4 * parts.len());
        keys.extend(parts.first().map(|part| shards.ledger(part.shard)));
        keys.extend(parts.iter().map(|part| shards.lease(part.shard)));
        keys.extend(parts.iter().map(|part| part.settled.to_owned()));
        keys.extend(parts.iter().map(|part| shards.results(part.shard)));
        keys.extend(parts.iter().map(|part| part.stream.to_owned()));
        // Nearly always all answers are of one kind, which is said once.
        let kind = parts.iter().flat_map(|part| part.frames).find_map(Settled::plain);
        let kind = kind.map_or(&[][..], |(kind, _)| kind);
        let mut args = Args::default();
        args.add(&self.group).add(self.keep_results).add(self.keep_dead).add(parts.len());
        args.0.push(kind.to_vec());
        for part in parts {
            args.add(part.token).add(part.frames.len());
            let is_plain = |frame: &Settled| frame.plain().is_some_and(|(own, _)| own == kind);
            if part.frames.iter().all(is_plain) {
                args.add("p");
                Self::write_plain(part.frames, &mut args);
            } else {
                let n_args = args.0.len();
                args.add("");
                for frame in part.frames {
                    self.write(frame, &mut keys, &mut args);
                }
                args.0[n_args] = (args.0.len() - n_args - 1).to_string().into_bytes();
            }
        }
        for (at, _) in parts.iter().enumerate().filter(|(_, part)| part.trims) {
            args.add(at + 1);
        }
        let mut call = COMMIT.call(&keys);
        for arg in &args.0 {
            call.arg(arg);
        }
        call
    }

    /// Results of one kind, of fresh frames, in the fewest words.
    fn write_plain(frames: &[Settled], args: &mut Args) {
        for frame in frames {
            args.add(frame.id);
        }
        for frame in frames {
            args.add(frame.key());
            args.0.push(frame.plain().map_or_else(Vec::new, |(_, data)| data.to_vec()));
        }
    }

    /// A frame of any kind.
    fn write(&self, frame: &Settled, keys: &mut Vec<String>, args: &mut Args) {
        args.add(frame.id).add(if frame.standing == Standing::Fresh { "f" } else { "d" });
        match &frame.verdict {
            Verdict::Result { answer, .. } => {
                let (name, value) = answer.field();
                args.add("r").add(frame.key());
                args.0.extend([name.to_vec(), value.to_vec()]);
            }
            Verdict::Dropped(reason) => {
                args.add("d").add(format_args!("dropped_{}", reason.as_str()));
            }
            Verdict::Dead { reason, tries } => {
                keys.push(self.shards.dead(frame.shard));
                args.add("x").add(keys.len()).add(reason).add(tries);
            }
        }
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
}

/// Reads what `scripts/commit.lua` replies about parts of so many frames each.
pub(crate) fn reply(value: Value, sizes: &[usize]) -> Result<Vec<Reply>, Fault> {
    let nonsense = || Fault::Nonsense("a commit with something else");
    let values = match value {
        Value::Array(values) if values.len().is_multiple_of(3) => values,
        Value::ServerError(error) => return Err(Fault::of(&error)),
        _ => return Err(nonsense()),
    };
    let settled = |size: &usize| Reply::Frames(vec![State::Settled; *size]);
    let mut replies: Vec<Reply> = sizes.iter().map(settled).collect();
    for note in values.chunks_exact(3) {
        let place = |value: &Value| match value {
            Value::Int(place) => usize::try_from(*place).ok(),
            _ => None,
        };
        let (Some(part), Some(frame)) = (place(&note[0]), place(&note[1])) else {
            return Err(nonsense());
        };
        let state = match &note[2] {
            Value::Int(0) => State::SettledBefore,
            Value::Int(1) => State::Lost,
            Value::BulkString(error) => State::Refused(String::from_utf8_lossy(error).into_owned()),
            _ => return Err(nonsense()),
        };
        let reply = part.checked_sub(1).and_then(|at| replies.get_mut(at)).ok_or_else(nonsense)?;
        match (frame.checked_sub(1), reply) {
            (None, reply) => *reply = Reply::Fenced,
            (Some(at), Reply::Frames(states)) => {
                *states.get_mut(at).ok_or_else(nonsense)? = state;
            }
            (Some(_), Reply::Fenced) => return Err(nonsense()),
        }
    }
    Ok(replies)
}
