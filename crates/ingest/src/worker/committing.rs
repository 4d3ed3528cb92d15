//! Settled frames on their way to Redis.

use std::{ops::Range, sync::Arc, time::Duration};

use redis::Pipeline;
use tokio::time::Instant;

use super::{Doubts, Report, Worker};
use crate::{
    commit::{self, Fence, Part, Reply, Settled, Standing, State, Verdict},
    common::now_ms,
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
    began: Instant,
}

/// Frames of one stream in a commit, and what was to prove that its shard is ours.
struct Sent {
    shard: ShardId,
    stream: u64,
    token: Arc<str>,
    frames: Range<usize>,
    trims: bool,
}

/// After so many results a shard's are trimmed to as many as are kept.
const TRIM_EVERY: usize = 64;

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
        let timeout = config.timeout;
        if !self.post.is_cluster && self.fence.is_none() {
            // Sent once it is known which shards are ours.
            self.must_verify = true;
            self.read_at = self.read_at.min(now);
            self.commit_at = now + self.common.config.linger;
            return;
        }
        if self.doubts != Doubts::None && self.is_in_doubt(now) {
            // Looked at again with the next reply, or when leases have run out.
            self.commit_at = now + self.common.config.linger;
            return;
        }
        let config = &self.common.config;
        let n = self.ready.len().min(config.commit_frames);
        let mut batch: Vec<Settled> = self.ready.drain(..n).collect();
        self.ready_since = (!self.ready.is_empty()).then_some(now);
        // Stable: within a stream the order stays.
        batch.sort_by_key(|settled| (settled.shard, settled.stream));
        let (parts, sizes, commands) = self.commands(&batch);
        let (link, server) = (self.commit_link.take(), self.post.server.clone());
        self.committing = Some(Box::pin(async move {
            let opened = match link {
                Some(link) => Ok(link),
                None => Link::open(&server, timeout).await,
            };
            let (link, replies) = match opened {
                Ok(link) => send(link, &commands, &sizes).await,
                Err(fault) => (None, Err(fault)),
            };
            Committed { link, batch, parts, replies, began: now }
        }));
    }

    /// The commands that commit a batch: one in all, or one for each shard in a Cluster.
    fn commands(&mut self, batch: &[Settled]) -> (Vec<Sent>, Vec<Vec<usize>>, Pipeline) {
        let mut sent: Vec<Sent> = Vec::new();
        for (at, settled) in batch.iter().enumerate() {
            match sent.last_mut() {
                Some(last) if last.stream == settled.stream => last.frames.end = at + 1,
                _ => sent.push(self.part(settled, at)),
            }
        }
        for part in &mut sent {
            let Some(owned) = self.shards.get_mut(&part.shard) else { continue };
            owned.n_untrimmed += part.frames.len();
            part.trims = TRIM_EVERY <= owned.n_untrimmed;
            if part.trims {
                owned.n_untrimmed = 0;
            }
        }
        let mut commands = Pipeline::new();
        let mut sizes = Vec::new();
        let is_cluster = self.post.is_cluster;
        for sent in sent.chunk_by(|a, b| !is_cluster || a.shard == b.shard) {
            let parts: Vec<Part<'_>> = sent.iter().map(|sent| self.as_part(sent, batch)).collect();
            sizes.push(sent.iter().map(|sent| sent.frames.len()).collect());
            commands.add_command(self.common.form.command(&parts, self.fence_of(&sent[0])));
        }
        (sent, sizes, commands)
    }

    /// What proves that a part's shard is ours, and in one command with it those of others.
    fn fence_of(&self, part: &Sent) -> Fence {
        let shards = &self.common.shards;
        if self.post.is_cluster {
            Fence { key: shards.lease(part.shard), value: Arc::clone(&part.token) }
        } else {
            Fence { key: shards.fence(), value: self.fence.clone().unwrap_or_default() }
        }
    }

    fn part(&self, settled: &Settled, at: usize) -> Sent {
        let owned = self.shards.get(&settled.shard);
        Sent {
            shard: settled.shard,
            stream: settled.stream,
            token: owned.map_or_else(|| "".into(), |owned| Arc::clone(&owned.token)),
            frames: at..at + 1,
            trims: false,
        }
    }

    fn as_part<'a>(&'a self, sent: &'a Sent, batch: &'a [Settled]) -> Part<'a> {
        let stream = self.streams.get(&sent.stream);
        Part {
            shard: sent.shard,
            stream: stream.map_or("", |stream| &stream.key),
            settled: stream.map_or("", |stream| &stream.settled),
            frames: &batch[sent.frames.clone()],
            trims: sent.trims,
        }
    }

    /// A commit came back.
    pub(super) fn has_committed(&mut self, committed: Committed) {
        let Committed { link, batch, parts, replies, began } = committed;
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
        self.common.flow.commit_time.took(now - began, 1);
        let wall = now_ms();
        let (mut refused, mut unsent, mut fenced) = (Vec::new(), Vec::new(), Vec::new());
        let mut frames = batch.into_iter();
        for (part, reply) in parts.into_iter().zip(replies) {
            let frames = frames.by_ref().take(part.frames.len());
            match reply {
                Reply::Fenced if self.post.is_cluster => {
                    frames.for_each(drop);
                    fenced.push((part.shard, part.token));
                }
                // Some shard changed hands, perhaps none of these.
                Reply::Fenced => {
                    self.fence = None;
                    unsent.extend(frames);
                }
                Reply::Frames(states) => {
                    let n_lost = states.iter().filter(|state| **state == State::Lost).count();
                    if 0 < n_lost
                        && let Some(stream) = self.streams.get(&part.stream)
                    {
                        self.losses.note(&stream.key, n_lost as u64, now);
                    }
                    for (frame, state) in frames.zip(states) {
                        if let (State::Settled, Verdict::Result { camera, taken_ms, .. }) =
                            (&state, &frame.verdict)
                        {
                            self.common.sightings.result(camera);
                            let age = Duration::from_millis(wall.saturating_sub(*taken_ms));
                            self.common.flow.latency.took(age, 1);
                        }
                        self.ended(frame, state, &mut refused);
                    }
                }
            }
        }
        if !refused.is_empty() {
            self.commit_at = now + self.commit_breaker.fail(rand::random());
            self.put_back(refused, now);
        }
        if !unsent.is_empty() {
            self.put_back(unsent, now);
        }
        self.fenced(&fenced);
    }

    fn ended(&mut self, frame: Settled, state: State, refused: &mut Vec<Settled>) {
        let ending = match state {
            State::Settled => frame.verdict.ending(),
            // The answer to an earlier commit was lost, not the commit.
            State::SettledBefore if frame.standing == Standing::Uncertain => frame.verdict.ending(),
            State::SettledBefore => Ending::Duplicate,
            State::Lost => Ending::Lost,
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
            settled.standing = Standing::Uncertain;
        }
        self.put_back(batch, now);
        if matches!(fault, Fault::Broken(_) | Fault::Timeout(_)) {
            self.doubt();
        }
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

    /// Shards are not ours under these tokens; unless they were taken again since, they are forgotten.
    pub(super) fn fenced(&mut self, shards: &[(ShardId, Arc<str>)]) {
        let is_known = |(shard, token): &&(ShardId, Arc<str>)| {
            self.shards.get(shard).is_some_and(|owned| owned.token == *token)
        };
        let lost: Vec<_> = shards.iter().filter(is_known).cloned().collect();
        // Once for all: a node that was stopped for long may have lost every one.
        if let Some((first, _)) = lost.first() {
            tracing::warn!(
                shards = lost.len(),
                %first,
                "other nodes own shards now; their frames are left to them"
            );
        }
        for (shard, token) in lost {
            self.forget(shard);
            self.report(Report::Fenced(shard, token));
        }
    }
}

async fn send(
    mut link: Link,
    commands: &Pipeline,
    sizes: &[Vec<usize>],
) -> (Option<Link>, Result<Vec<Reply>, Fault>) {
    match link.ask_for(commands, Duration::ZERO).await {
        Ok(values) => {
            let mut all = Vec::new();
            for (value, sizes) in values.into_iter().zip(sizes) {
                match commit::reply(value, sizes) {
                    Ok(replies) => all.extend(replies),
                    Err(fault) => return (None, Err(fault)),
                }
            }
            (Some(link), Ok(all))
        }
        Err(fault) => (None, Err(fault)),
    }
}

#[cfg(test)]
mod tests;
