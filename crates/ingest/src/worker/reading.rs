//! What is read next, and what becomes of the reply.
//!
//! A stream begins in recovery: what was delivered and is not settled (by this node before it died,
//! by the shard's last owner, in a reply that never arrived) is looked up and claimed, oldest first,
//! before anything new is read. So order holds, and nothing that was delivered is forgotten. After
//! every time-out and every broken connection all streams begin again; what is being worked on is not
//! claimed twice.
//!
//! A Redis that was killed may come back without its last seconds, and a copy that takes its place may
//! never have had them: what was settled then is not. So nothing is committed after a connection broke
//! until its stream was looked over, and where something older turns up than what is being worked on,
//! that is given up and begins again behind it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use paceline_frames::Address;
use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::{Boxed, Doubts, Worker};
use crate::{
    common::Common,
    credit::Held,
    entry::EntryId,
    fence,
    link::{self, Fault, GROUP, Link},
    pace::Step,
    shard::ShardId,
    unsettled::{PAGE, Span},
};

/// Most streams in one command.
const MAX_STREAMS: usize = 64;
/// How long a blocked read lasts at most.
const BLOCK: Duration = Duration::from_millis(250);
/// Where nothing can block, how long an idle reader waits.
pub(super) const CLUSTER_IDLE: Duration = Duration::from_millis(50);
/// How often all streams are looked over.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// How long a key that is no stream is left alone.
pub(super) const BROKEN_FOR: Duration = Duration::from_secs(10);

/// How a stream stands.
#[derive(Debug)]
pub(super) enum Phase {
    /// What is not settled is being claimed.
    Recovery {
        /// What comes after this was not looked up yet.
        after: EntryId,
        /// Found and not claimed yet, with how often each was delivered.
        found: Vec<(EntryId, u32)>,
        is_last_page: bool,
    },
    /// New entries are read.
    Live,
    /// It has no group; one is to be made.
    NoGroup,
    /// Somebody put something else there; looked at again then.
    Broken(Instant),
}

impl Phase {
    pub(super) const fn recovery() -> Self {
        let after = EntryId { millis: 0, number: 0 };
        Self::Recovery { after, found: Vec::new(), is_last_page: false }
    }
}

/// What was asked.
pub(super) enum Request {
    Open,
    /// Which shards are still ours, by the tokens they were granted with.
    Verify(Vec<(ShardId, Arc<str>)>),
    MakeGroups(Vec<u64>),
    LookUp(Vec<(u64, Span)>),
    Claim {
        claims: Vec<(u64, Vec<(EntryId, u32)>)>,
        reserved: Held,
    },
    Fresh {
        commands: Vec<Vec<u64>>,
        count: usize,
        reserved: Held,
    },
    /// One key each, to find the one that is no stream.
    Types(Vec<u64>),
}

/// A reply.
pub(super) struct Read {
    pub(super) request: Request,
    pub(super) link: Result<Link, Fault>,
    pub(super) values: Vec<Value>,
}

impl Worker {
    /// Begins a read, if one is due and something may be read.
    pub(super) fn start_read(&mut self) {
        let now = Instant::now();
        if self.reading.is_some() || now < self.read_at || self.shards.is_empty() {
            if self.shards.is_empty() {
                self.read_at = self.read_at.max(now + self.common.config.linger);
            }
            return;
        }
        let Some(link) = self.read_link.take() else {
            let (common, server) = (Arc::clone(&self.common), self.post.server.clone());
            self.reading = Some(Box::pin(async move {
                let link = open(&common, &server).await;
                Read { request: Request::Open, link, values: Vec::new() }
            }));
            return;
        };
        let Some((request, commands, longer)) = self.next_request(now) else {
            self.read_link = Some(link);
            self.read_at = now + self.common.config.linger;
            return;
        };
        self.reading_of = self.shards_of(&request);
        self.settled_meanwhile.clear();
        self.reading = Some(ask(link, request, commands, longer));
    }

    fn next_request(&mut self, now: Instant) -> Option<(Request, Pipeline, Duration)> {
        if self.must_verify {
            return Some(self.verify());
        }
        self.sweep(now);
        if let Some(request) = self.make_groups(now) {
            return Some(request);
        }
        self.recovers_next = !self.recovers_next;
        if self.recovers_next {
            self.recover(now).or_else(|| self.read_fresh(now))
        } else {
            self.read_fresh(now).or_else(|| self.recover(now))
        }
    }

    /// A connection that was made again may have been closed because the shards are somebody
    /// else's by now; and so may they be when a commit met another fence. The fence is read first: if
    /// a shard changes hands after that, commits meet another one.
    fn verify(&self) -> (Request, Pipeline, Duration) {
        let mut commands = Pipeline::new();
        let keys = &self.common.shards;
        if !self.post.is_cluster {
            commands.cmd("GET").arg(keys.fence());
        }
        for shard in self.shards.keys() {
            commands.cmd("GET").arg(keys.lease(*shard));
        }
        let owned = |(shard, owned): (&ShardId, &super::Owned)| (*shard, Arc::clone(&owned.token));
        (Request::Verify(self.shards.iter().map(owned).collect()), commands, Duration::ZERO)
    }

    pub(super) fn verified(&mut self, shards: Vec<(ShardId, Arc<str>)>, values: Vec<Value>) {
        let is_error = |value: &Value| matches!(value, Value::ServerError(_));
        self.must_verify = values.iter().any(is_error);
        let mut values = values.into_iter();
        let fence = if self.post.is_cluster { None } else { values.next() };
        let (mut seen, mut lost) = (HashSet::new(), Vec::new());
        for ((shard, token), value) in shards.into_iter().zip(values) {
            if is_error(&value) {
                continue;
            }
            if link::text(value).as_deref() == Some(&*token) {
                seen.insert((shard, token));
            } else {
                lost.push((shard, token));
            }
        }
        self.fenced(&lost);
        if let Some(fence) = fence.filter(|fence| !is_error(fence)) {
            // One that was granted meanwhile may have been lost again before the fence was read.
            let is_seen = |(shard, owned): (&ShardId, &super::Owned)| {
                seen.contains(&(*shard, Arc::clone(&owned.token)))
            };
            if self.shards.iter().all(is_seen) {
                self.fence = Some(link::text(fence).unwrap_or_default().into());
            } else {
                self.must_verify = true;
            }
        }
    }

    /// Now and then every stream is looked over for entries that were delivered and nobody works on:
    /// a reply can get lost long after the connection did.
    fn sweep(&mut self, now: Instant) {
        let is_due = self.sweep_at <= now;
        if is_due {
            self.sweep_at = now + SWEEP_EVERY;
        }
        for stream in self.streams.values_mut() {
            match stream.phase {
                Phase::Live if is_due => stream.phase = Phase::recovery(),
                Phase::Broken(until) if until <= now => stream.phase = Phase::recovery(),
                _ => {}
            }
        }
    }

    fn make_groups(&mut self, now: Instant) -> Option<(Request, Pipeline, Duration)> {
        let wanted = self.pick(now, MAX_STREAMS, |phase| matches!(phase, Phase::NoGroup));
        if wanted.is_empty() {
            return None;
        }
        let mut commands = Pipeline::new();
        for number in &wanted {
            let mut call = GROUP.call(&[&self.streams[number].key]);
            call.arg(&self.common.config.group);
            commands.add_command(call);
        }
        Some((Request::MakeGroups(wanted), commands, Duration::ZERO))
    }

    fn recover(&mut self, now: Instant) -> Option<(Request, Pipeline, Duration)> {
        let has_found =
            |phase: &Phase| matches!(phase, Phase::Recovery { found, .. } if !found.is_empty());
        // Looking costs no credit, which those may hold who wait for it.
        if self.doubts != Doubts::None
            && let Some(request) = self.look_up(now, |stream| stream.is_doubtful)
        {
            return Some(request);
        }
        let config = &self.common.config;
        let claimable = self.pick(now, MAX_STREAMS, has_found);
        if !claimable.is_empty() {
            let reserved =
                self.common.credit.reserve(self.post.reply_bytes, self.post.reply_frames)?;
            let streams = self.pace.streams(reserved.bytes()).min(claimable.len());
            let page = self.pace.count(streams, reserved.bytes(), reserved.frames()).min(PAGE);
            let mut commands = Pipeline::new();
            let mut claims = Vec::new();
            for number in claimable.into_iter().take(streams) {
                let Some(stream) = self.streams.get_mut(&number) else { continue };
                let Phase::Recovery { found, .. } = &mut stream.phase else { continue };
                let ids: Vec<_> = found.drain(..page.min(found.len())).collect();
                let command = commands.cmd("XCLAIM").arg(&stream.key);
                command.arg(&config.group).arg(&config.node).arg(0);
                for (id, _) in &ids {
                    command.arg(id.to_string());
                }
                // Most are not pending yet.
                command.arg("FORCE");
                claims.push((number, ids));
            }
            return Some((Request::Claim { claims, reserved }, commands, Duration::ZERO));
        }
        self.look_up(now, |_| true)
    }

    /// Looks for what is not settled of such streams.
    fn look_up(
        &self,
        now: Instant,
        is_wanted: impl Fn(&super::Stream) -> bool,
    ) -> Option<(Request, Pipeline, Duration)> {
        let config = &self.common.config;
        let mut wanted =
            self.pick(now, usize::MAX, |phase| matches!(phase, Phase::Recovery { .. }));
        wanted.retain(|number| is_wanted(&self.streams[number]));
        wanted.truncate(MAX_STREAMS);
        if wanted.is_empty() {
            return None;
        }
        let mut commands = Pipeline::new();
        let mut spans = Vec::with_capacity(wanted.len());
        for number in wanted {
            let stream = &self.streams[&number];
            let Phase::Recovery { after, .. } = &stream.phase else { continue };
            let span = Span::new(*after, &stream.held);
            let ledger = self.common.shards.ledger(stream.shard);
            let keys = [&*stream.key, &*stream.settled, &*ledger];
            commands.add_command(span.command(keys, &config.group));
            spans.push((number, span));
        }
        Some((Request::LookUp(spans), commands, Duration::ZERO))
    }

    fn read_fresh(&mut self, now: Instant) -> Option<(Request, Pipeline, Duration)> {
        let mut live = self.pick(now, usize::MAX, |phase| matches!(phase, Phase::Live));
        if live.is_empty() {
            return None;
        }
        let config = &self.common.config;
        let reserved = self.common.credit.reserve(self.post.reply_bytes, self.post.reply_frames)?;
        // A read must not outlast the leases under which it was sent.
        let outlasts =
            |number: &u64| self.common.leases.holds(self.streams[number].shard, now + BLOCK * 2);
        let blocks = self.step == Step::Block
            && !self.post.is_cluster
            && self.is_quiet()
            && live.iter().all(outlasts);
        // Rounds that cannot ask all begin where the last one ended, so that all get their turn.
        let n = live.len();
        live.rotate_left(self.turn % n);
        if !blocks {
            live.truncate(self.pace.streams(reserved.bytes()));
        }
        self.turn = (self.turn % n) + live.len();
        let count = self.pace.count(live.len(), reserved.bytes(), reserved.frames());
        let groups = self.in_commands(live, blocks);
        let mut commands = Pipeline::new();
        for group in &groups {
            let command = commands.cmd("XREADGROUP").arg("GROUP").arg(&config.group);
            command.arg(&config.node).arg("COUNT").arg(count);
            if blocks {
                command.arg("BLOCK").arg(BLOCK.as_millis().to_string());
            }
            // What is in the stream and was delivered is not settled; Redis need not note it again.
            command.arg("NOACK").arg("STREAMS");
            for number in group {
                command.arg(&self.streams[number].key);
            }
            for _ in group {
                command.arg(">");
            }
        }
        let longer = if blocks { BLOCK } else { Duration::ZERO };
        Some((Request::Fresh { commands: groups, count, reserved }, commands, longer))
    }

    /// Streams by command: in a Cluster the streams of one shard, else as many as may be.
    fn in_commands(&self, streams: Vec<u64>, blocks: bool) -> Vec<Vec<u64>> {
        let mut commands: Vec<Vec<u64>> = Vec::new();
        for number in streams {
            let shard = self.streams[&number].shard;
            let fits = |last: &Vec<u64>| {
                let same = !self.post.is_cluster
                    || last.first().is_some_and(|first| self.streams[first].shard == shard);
                same && (blocks || last.len() < MAX_STREAMS)
            };
            match commands.last_mut() {
                Some(last) if fits(last) => last.push(number),
                _ => commands.push(vec![number]),
            }
        }
        commands
    }

    /// Streams that may be read now and are in such a phase.
    fn pick(&self, now: Instant, most: usize, wanted: impl Fn(&Phase) -> bool) -> Vec<u64> {
        let common = &self.common;
        let is_ours = |shard: ShardId| {
            self.shards.get(&shard).is_some_and(|owned| !owned.is_draining)
                && common.leases.holds(shard, now)
        };
        let may_read = |stream: &super::Stream| {
            let is_taken =
                || stream.camera.as_ref().is_none_or(|own| common.roster.refuses(own).is_none());
            !stream.is_leaving && is_ours(stream.shard) && is_taken()
        };
        self.streams
            .iter()
            .filter(|(_, stream)| wanted(&stream.phase) && may_read(stream))
            .map(|(number, _)| *number)
            .take(most)
            .collect()
    }

    /// Redis may have gone back in time: all streams are looked over before anything is committed.
    pub(super) fn doubt(&mut self) {
        let is_reading = self.reading.is_some();
        self.doubts = if is_reading { Doubts::OpenWhileReading } else { Doubts::Open };
        for stream in self.streams.values_mut() {
            stream.is_doubtful = true;
            if matches!(stream.phase, Phase::Live | Phase::Recovery { .. }) {
                stream.phase = Phase::recovery();
            }
        }
    }

    /// Whether a stream is still to be looked over before anything is committed.
    pub(super) fn is_in_doubt(&mut self, now: Instant) -> bool {
        let looked_at = self.pick(now, usize::MAX, |phase| matches!(phase, Phase::Recovery { .. }));
        let is_in_doubt = looked_at.iter().any(|number| self.streams[number].is_doubtful);
        if !is_in_doubt {
            self.doubts = Doubts::None;
        }
        is_in_doubt
    }

    /// Whether there is nothing to do but to wait for new frames.
    pub(super) fn is_quiet(&self) -> bool {
        let is_quiet =
            |stream: &super::Stream| matches!(stream.phase, Phase::Live | Phase::Broken(_));
        self.streams.values().all(is_quiet)
    }

    fn shards_of(&self, request: &Request) -> HashSet<ShardId> {
        let shard = |number: &u64| self.streams.get(number).map(|stream| stream.shard);
        match request {
            Request::Fresh { commands, .. } => {
                commands.iter().flatten().filter_map(shard).collect()
            }
            Request::Claim { claims, .. } => {
                claims.iter().filter_map(|(number, _)| shard(number)).collect()
            }
            _ => HashSet::new(),
        }
    }
}

/// A connection to read on, by whose name others know whose it is.
async fn open(common: &Common, server: &Address) -> Result<Link, Fault> {
    let mut link = Link::open(server, common.config.timeout).await?;
    let mut command = redis::cmd("CLIENT");
    command.arg("SETNAME").arg(fence::name(common));
    link.ask_one(command).await?;
    Ok(link)
}

pub(super) fn ask(
    mut link: Link,
    request: Request,
    commands: Pipeline,
    longer: Duration,
) -> Boxed<Read> {
    Box::pin(async move {
        match link.ask_for(&commands, longer).await {
            Ok(values) => Read { request, link: Ok(link), values },
            Err(fault) => Read { request, link: Err(fault), values: Vec::new() },
        }
    })
}

#[cfg(test)]
mod tests;
