//! Frames that are settled, and the one atomic step by which Redis learns of it.
//!
//! The step itself is `scripts/commit.lua`: it checks that the shard is still ours, writes results
//! and dead letters, acknowledges, deletes and counts. A frame that was settled before changes
//! nothing, so a commit whose answer was lost is simply sent again.

use std::fmt::Display;

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

/// Frames of one stream, in one commit.
pub(crate) struct Part<'a> {
    pub(crate) shard: ShardId,
    /// What proves that the shard is ours.
    pub(crate) token: &'a str,
    /// The stream's key.
    pub(crate) stream: &'a str,
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
        let mut keys = Vec::with_capacity(1 + 3 * parts.len());
        keys.extend(parts.first().map(|part| shards.ledger(part.shard)));
        keys.extend(parts.iter().map(|part| shards.lease(part.shard)));
        keys.extend(parts.iter().map(|part| shards.results(part.shard)));
        keys.extend(parts.iter().map(|part| part.stream.to_owned()));
        let outputs = parts.iter().flat_map(|part| part.frames).find_map(Plain::of);
        let outputs = outputs.map_or(&[][..], |plain| plain.outputs);
        let mut args = Args::default();
        args.add(&self.group).add(self.keep_results).add(self.keep_dead).add(parts.len());
        args.0.push(outputs.to_vec());
        for part in parts {
            args.add(part.token).add(part.frames.len());
            let n_args = args.later();
            args.add(u8::from(part.trims));
            let kind = args.later();
            let before = args.0.len();
            let plain = |frame| Plain::of(frame).filter(|plain| plain.outputs == outputs);
            let is_plain = part.frames.iter().all(|frame| plain(frame).is_some());
            for frame in part.frames {
                args.add(frame.id);
                match plain(frame).filter(|_| is_plain) {
                    Some(plain) => plain.write(&mut args),
                    None => self.write(frame, &mut keys, &mut args),
                }
            }
            args.0[kind] = if is_plain { b"p".to_vec() } else { b"m".to_vec() };
            args.0[n_args] = (args.0.len() - before).to_string().into_bytes();
        }
        let mut call = COMMIT.call(&keys);
        for arg in &args.0 {
            call.arg(arg);
        }
        call
    }

    /// A frame of any kind.
    fn write(&self, frame: &Settled, keys: &mut Vec<String>, args: &mut Args) {
        match &frame.verdict {
            Verdict::Result { camera, seq, taken_ms, answer } => {
                args.add("r").add(camera);
                args.add(seq.map(|seq| seq.to_string()).unwrap_or_default()).add(taken_ms);
                args.add(answer.fields.len());
                for (name, value) in &answer.fields {
                    args.add(name);
                    args.0.push(value.to_vec());
                }
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

/// What nearly every result is: numbered, and tensors that are the same kind for all frames. It takes
/// the fewest words.
struct Plain<'a> {
    camera: &'a str,
    seq: u64,
    taken_ms: u64,
    outputs: &'a [u8],
    data: &'a [u8],
}

impl<'a> Plain<'a> {
    fn of(frame: &'a Settled) -> Option<Self> {
        let Verdict::Result { camera, seq, taken_ms, answer } = &frame.verdict else { return None };
        match (seq, answer.fields.as_slice()) {
            (Some(seq), [(m, outputs), (d, data)]) if m == "m" && d == "d" => {
                Some(Self { camera, seq: *seq, taken_ms: *taken_ms, outputs, data })
            }
            _ => None,
        }
    }

    fn write(&self, args: &mut Args) {
        args.add(self.camera).add(self.seq).add(self.taken_ms);
        args.0.push(self.data.to_vec());
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
