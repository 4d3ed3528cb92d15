//! Settled frames on their way to Redis.

use std::{ops::Range, sync::Arc, time::Duration};

use redis::Pipeline;
use tokio::time::Instant;

use super::{Report, Worker};
use crate::{
    commit::{self, Part, Reply, Settled, State},
    ledger::Ending,
    link::{Fault, Link},
    shard::ShardId,
};

/// A commit's outcome. The frames come back, whatever it was.
pub(super) struct Committed {
    link: Option<Link>,
    batch: Vec<Settled>,
    /// Which frames each reply is about.
    parts: Vec<Sent>,
    replies: Result<Vec<Reply>, Fault>,
}

/// Frames of one shard in a commit, and what was to prove that it is ours.
struct Sent {
    shard: ShardId,
    token: Arc<str>,
    frames: Range<usize>,
}

impl Worker {
    /// A frame is settled and waits to be committed.
    pub(super) fn settle(&mut self, settled: Settled) {
        if !self.streams.contains_key(&settled.stream) {
            return; // Its shard was given up meanwhile.
        }
        self.ready.push_back(settled);
        self.ready_since.get_or_insert_with(Instant::now);
    }

    /// Begins a commit, if one is due.
    pub(super) fn start_commit(&mut self) {
        let Some(since) = self.ready_since else { return };
        let now = Instant::now();
        let config = &self.common.config;
        let is_due = config.commit_frames <= self.ready.len()
            || since + config.commit_wait <= now
            || self.asking.is_empty();
        if self.committing.is_some() || now < self.commit_at || !is_due {
            return;
        }
        let n = self.ready.len().min(config.commit_frames);
        let mut batch: Vec<Settled> = self.ready.drain(..n).collect();
        self.ready_since = (!self.ready.is_empty()).then_some(now);
        // Stable: within a stream the order stays.
        batch.sort_by_key(|settled| (settled.shard, settled.stream));
        let (parts, commands) = self.commands(&batch);
        let (link, server) = (self.commit_link.take(), self.post.server.clone());
        let timeout = config.timeout;
        self.committing = Some(Box::pin(async move {
            let opened = match link {
                Some(link) => Ok(link),
                None => Link::open(&server, timeout).await,
            };
            let (link, replies) = match opened {
                Ok(link) => send(link, &commands).await,
                Err(fault) => (None, Err(fault)),
            };
            Committed { link, batch, parts, replies }
        }));
    }

    /// The commands that commit a batch: one in all, or one for each shard in a Cluster.
    fn commands(&self, batch: &[Settled]) -> (Vec<Sent>, Pipeline) {
        let mut sent: Vec<Sent> = Vec::new();
        for (at, settled) in batch.iter().enumerate() {
            match sent.last_mut() {
                Some(last) if last.shard == settled.shard => last.frames.end = at + 1,
                _ => {
                    let owned = self.shards.get(&settled.shard);
                    let token = owned.map_or_else(|| "".into(), |owned| Arc::clone(&owned.token));
                    sent.push(Sent { shard: settled.shard, token, frames: at..at + 1 });
                }
            }
        }
        let parts: Vec<Part<'_>> = sent
            .iter()
            .map(|Sent { shard, token, frames }| Part {
                shard: *shard,
                token,
                frames: &batch[frames.clone()],
            })
            .collect();
        let key_of = |stream: u64| {
            self.streams.get(&stream).map(|stream| stream.key.clone()).unwrap_or_default()
        };
        let mut commands = Pipeline::new();
        let per_command = if self.post.is_cluster { 1 } else { parts.len().max(1) };
        for parts in parts.chunks(per_command) {
            commands.add_command(self.common.form.command(parts, key_of));
        }
        (sent, commands)
    }

    /// A commit came back.
    pub(super) fn has_committed(&mut self, committed: Committed) {
        let Committed { link, batch, parts, replies } = committed;
        let now = Instant::now();
        self.commit_link = link;
        let replies = match replies {
            Ok(replies) if replies.len() == parts.len() => replies,
            Ok(_) => {
                self.commit_failed(&Fault::Nonsense("too few or too many parts"), batch, now);
                return;
            }
            Err(fault) => {
                self.commit_failed(&fault, batch, now);
                return;
            }
        };
        self.commit_breaker.succeed();
        let mut refused = Vec::new();
        let mut frames = batch.into_iter();
        for (part, reply) in parts.into_iter().zip(replies) {
            let frames = frames.by_ref().take(part.frames.len());
            match reply {
                Reply::Fenced => {
                    frames.for_each(drop);
                    self.fenced(part.shard, &part.token);
                }
                Reply::Frames(states) => {
                    for (frame, state) in frames.zip(states) {
                        self.ended(frame, state, &mut refused);
                    }
                }
            }
        }
        if !refused.is_empty() {
            self.commit_at = now + self.commit_breaker.fail(rand::random());
            self.put_back(refused, now);
        }
    }

    fn ended(&mut self, frame: Settled, state: State, refused: &mut Vec<Settled>) {
        let ending = match state {
            State::Settled => frame.verdict.ending(),
            // The answer to an earlier commit was lost, not the commit.
            State::SettledBefore if frame.is_uncertain => frame.verdict.ending(),
            State::SettledBefore => Ending::Duplicate,
            State::Refused(problem) => {
                if refused.is_empty() {
                    self.note_problem(&problem, self.commit_breaker.n_failures() + 1);
                }
                refused.push(frame);
                return;
            }
        };
        self.release(frame.stream, frame.id, ending);
    }

    fn commit_failed(&mut self, fault: &Fault, mut batch: Vec<Settled>, now: Instant) {
        self.commit_link = None;
        self.commit_at = now + self.commit_breaker.fail(rand::random());
        self.note_problem(fault, self.commit_breaker.n_failures());
        for settled in &mut batch {
            settled.is_uncertain = true;
        }
        self.put_back(batch, now);
        if fault.is_moved() {
            self.report(Report::Moved);
        }
    }

    /// Frames that were not committed go first next time.
    fn put_back(&mut self, batch: Vec<Settled>, now: Instant) {
        for settled in batch.into_iter().rev() {
            if self.streams.contains_key(&settled.stream) {
                self.ready.push_front(settled);
            }
        }
        self.ready_since = (!self.ready.is_empty()).then_some(now);
    }

    /// A shard is not ours under this token; unless it was taken again since, it is forgotten.
    pub(super) fn fenced(&mut self, shard: ShardId, token: &Arc<str>) {
        if self.shards.get(&shard).is_none_or(|owned| owned.token != *token) {
            return;
        }
        tracing::warn!(%shard, "another node owns the shard now; its frames are left to it");
        self.forget(shard);
        self.report(Report::Fenced(shard, Arc::clone(token)));
    }
}

async fn send(mut link: Link, commands: &Pipeline) -> (Option<Link>, Result<Vec<Reply>, Fault>) {
    match link.ask_for(commands, Duration::ZERO).await {
        Ok(values) => {
            let mut all = Vec::new();
            for value in values {
                match commit::reply(value) {
                    Ok(replies) => all.extend(replies),
                    Err(fault) => return (None, Err(fault)),
                }
            }
            (Some(link), Ok(all))
        }
        Err(fault) => (None, Err(fault)),
    }
}
