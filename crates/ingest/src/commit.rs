//! Frames that are settled, and the one atomic step by which Redis learns of it.
//!
//! The step itself is `scripts/commit.lua`: it checks that the shard is still ours, writes results
//! and dead letters, deletes and counts. A frame that was settled before changes nothing, so a commit
//! whose answer was lost is simply sent again.

use std::{fmt::Display, sync::Arc};

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
    /// The stream's key.
    pub(crate) stream: &'a str,
    /// The key of the count of its frames that were settled.
    pub(crate) settled: &'a str,
    pub(crate) frames: &'a [Settled],
    /// Whether the shard's results are trimmed to as many as are kept.
    pub(crate) trims: bool,
}

/// What proves that the shards of a commit are still ours: a key has this value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) key: String,
    pub(crate) value: Arc<str>,
}

/// What Redis said of one part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The fence is another by now; nothing was written.
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
    pub(crate) fn command(&self, parts: &[Part<'_>], fence: Fence) -> Cmd {
        let shards = &self.shards;
        let mut keys = Vec::with_capacity(2 + 3 * parts.len());
        keys.extend(parts.first().map(|part| shards.ledger(part.shard)));
        keys.push(fence.key);
        keys.extend(parts.iter().map(|part| part.settled.to_owned()));
        keys.extend(parts.iter().map(|part| shards.results(part.shard)));
        keys.extend(parts.iter().map(|part| part.stream.to_owned()));
        // Nearly always all answers are of one kind, which is said once.
        let kind = parts.iter().flat_map(|part| part.frames).find_map(Settled::plain);
        let kind = kind.map_or(&[][..], |(kind, _)| kind);
        let mut args = Args::default();
        args.add(&self.group).add(self.keep_results).add(self.keep_dead).add(parts.len());
        args.0.push(kind.to_vec());
        args.add(fence.value);
        for part in parts {
            let is_plain = |frame: &Settled| frame.plain().is_some_and(|(own, _)| own == kind);
            if part.frames.iter().all(is_plain) {
                args.add(part.frames.len());
                Self::write_plain(part.frames, &mut args);
            } else {
                args.add("m").add(part.frames.len());
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
        Value::Nil => return Ok(sizes.iter().map(|_| Reply::Fenced).collect()),
        Value::ServerError(error) => return Err(Fault::of(&error)),
        _ => return Err(nonsense()),
    };
    let mut replies: Vec<_> = sizes.iter().map(|size| vec![State::Settled; *size]).collect();
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
        let states = part.checked_sub(1).and_then(|at| replies.get_mut(at));
        let states = states.zip(frame.checked_sub(1));
        let own = states.and_then(|(states, at)| states.get_mut(at)).ok_or_else(nonsense)?;
        *own = state;
    }
    Ok(replies.into_iter().map(Reply::Frames).collect())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use bytes::Bytes;

    use super::*;
    use crate::credit::Credit;

    fn form() -> Form {
        let shards = Shards::new("p".to_owned(), NonZeroU16::new(4).unwrap());
        Form { shards, group: "g".to_owned(), keep_results: 70, keep_dead: 80 }
    }

    fn settled(millis: u64, standing: Standing, verdict: Verdict) -> Settled {
        let (id, held) = (EntryId { millis, number: 0 }, Credit::new(1000, 10).charge(1));
        Settled { stream: 0, shard: ShardId(1), id, verdict, _held: held, standing }
    }

    fn result(outputs: &'static str) -> Verdict {
        let answer = Answer::Tensors { outputs: outputs.into(), data: Bytes::from_static(b"xy") };
        Verdict::Result { camera: "door".to_owned(), seq: Some(7), taken_ms: 55, answer }
    }

    fn part<'a>(shard: u16, stream: &'a str, frames: &'a [Settled], trims: bool) -> Part<'a> {
        Part { shard: ShardId(shard), stream, settled: "n", frames, trims }
    }

    /// What is sent after the script's name: how many keys, and the rest.
    fn sent(parts: &[Part<'_>]) -> Vec<String> {
        let fence = Fence { key: "f".to_owned(), value: "v".into() };
        let command = form().command(parts, fence);
        let text = |arg: redis::Arg<&[u8]>| match arg {
            redis::Arg::Simple(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => panic!("a cursor"),
        };
        command.args_iter().skip(2).map(text).collect()
    }

    #[test]
    fn results_of_one_kind_of_fresh_frames_are_sent_in_the_fewest_words() {
        let frames = [1, 2].map(|millis| settled(millis, Standing::Fresh, result("[]")));

        let shards = form().shards;
        let (one, two) = (ShardId(1), ShardId(2));
        let expected = [
            "8",
            &shards.ledger(one),
            "f",
            "n",
            "n",
            &shards.results(one),
            &shards.results(two),
            "a",
            "b",
            "g",
            "70",
            "80",
            "2",
            "[]",
            "v",
            "2",
            "1-0",
            "2-0",
            "1-0 7 55 door",
            "xy",
            "2-0 7 55 door",
            "xy",
            "1",
            "1-0",
            "1-0 7 55 door",
            "xy",
            // Only the second is trimmed.
            "2",
        ];
        let parts = [part(1, "a", &frames, false), part(2, "b", &frames[..1], true)];
        assert_eq!(sent(&parts), expected);
    }

    #[test]
    fn what_is_in_doubt_of_another_kind_or_no_result_is_told_apart() {
        let dead = Verdict::Dead { reason: "why".to_owned(), tries: 3 };
        let frames = [
            settled(1, Standing::Fresh, result("[]")),
            settled(2, Standing::Fresh, result("[1]")),
            settled(3, Standing::Claimed, result("[]")),
            settled(4, Standing::Uncertain, Verdict::Dropped(Reason::Stale)),
            settled(5, Standing::Fresh, dead),
        ];

        let sent = sent(&[part(1, "a", &frames, false)]);

        // Its dead letters are the last key.
        assert_eq!((&*sent[0], &*sent[6]), ("6", &*form().shards.dead(ShardId(1))));
        let expected = [
            ["1-0", "f", "r", "1-0 7 55 door", "[]", "xy"],
            ["2-0", "f", "r", "2-0 7 55 door", "[1]", "xy"],
            ["3-0", "d", "r", "3-0 7 55 door", "[]", "xy"],
        ];
        let mut expected: Vec<&str> = expected.concat();
        expected.extend(["4-0", "d", "d", "dropped_stale", "5-0", "f", "x", "6", "why", "3"]);
        let n_args = expected.len().to_string();
        let about = ["g", "70", "80", "1", "[]", "v", "m", "5", &n_args];
        assert_eq!(sent[7..16], about);
        assert_eq!(sent[16..], expected);
    }

    #[test]
    fn what_only_in_doubt_has_results_says_of_none_that_they_are_all_alike() {
        let frames = [settled(1, Standing::Claimed, result("[]"))];

        let sent = sent(&[part(1, "a", &frames, false)]);

        assert_eq!(sent[6..15], ["g", "70", "80", "1", "", "v", "m", "1", "6"]);
    }

    fn note(part: i64, frame: i64, what: Value) -> [Value; 3] {
        [Value::Int(part), Value::Int(frame), what]
    }

    fn read(notes: &[[Value; 3]]) -> Result<Vec<Reply>, Fault> {
        reply(Value::Array(notes.concat()), &[2, 3])
    }

    #[test]
    fn what_is_not_named_in_the_reply_was_settled() {
        use State::{Lost, Refused, Settled, SettledBefore};
        let frames = |states: &[State]| Reply::Frames(states.to_vec());
        let full = frames(&[Settled, Settled, Settled]);

        assert_eq!(read(&[]).unwrap(), [frames(&[Settled, Settled]), full]);
        let error = Value::BulkString(b"OOM".to_vec());
        let notes = [note(1, 2, Value::Int(0)), note(2, 1, Value::Int(1)), note(2, 3, error)];
        let second = frames(&[Lost, Settled, Refused("OOM".to_owned())]);
        assert_eq!(read(&notes).unwrap(), [frames(&[Settled, SettledBefore]), second]);
        assert_eq!(reply(Value::Nil, &[2, 3]).unwrap(), [Reply::Fenced, Reply::Fenced]);
    }

    #[test]
    fn a_reply_about_something_else_is_not_understood() {
        let zero = || Value::Int(0);
        for notes in [
            vec![note(0, 1, zero())],
            vec![note(3, 1, zero())],
            vec![note(1, 3, zero())],
            vec![note(1, -1, zero())],
            vec![note(-1, 1, zero())],
            vec![note(1, 1, Value::Int(2))],
            vec![note(1, 1, Value::Nil)],
            vec![[Value::Nil, zero(), zero()]],
            vec![note(1, 0, zero())],
        ] {
            assert!(matches!(read(&notes), Err(Fault::Nonsense(_))), "{notes:?}");
        }
        let two = Value::Array(vec![Value::Int(1), zero()]);
        assert!(matches!(reply(two, &[1]), Err(Fault::Nonsense(_))));
        assert!(matches!(reply(Value::Okay, &[1]), Err(Fault::Nonsense(_))));
        let refused = redis::parse_redis_value(b"-NOSCRIPT gone\r\n").unwrap();
        let fault = reply(refused, &[1]).unwrap_err();
        assert_eq!(fault.to_string(), "Redis refused: NOSCRIPT gone");
    }
}
