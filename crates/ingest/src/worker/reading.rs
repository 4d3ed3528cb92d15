//! What is read next, and what becomes of the reply.
//!
//! A stream begins in recovery: what is pending (of this node before it died, of the shard's last
//! owner, of a reply that never arrived) is looked up and claimed, oldest first, before anything new
//! is read. So order holds, and nothing that was delivered is forgotten. After every time-out and
//! every broken connection all streams begin again; what is being worked on is not claimed twice.

use std::{collections::HashSet, sync::Arc, time::Duration};

use redis::{ConnectionInfo, Pipeline, Value};
use tokio::time::Instant;

use super::{Boxed, Report, Worker, asking::Piece};
use crate::{
    commit::{Settled, Verdict},
    common::{Common, now_ms},
    credit::Held,
    entry::{self, EntryError, EntryId, Origin},
    fence,
    ledger::Ending,
    line::Waiting,
    link::{self, Fault, GROUP, Link, Refusal},
    pace::{Reply, Step},
    shard::ShardId,
};

/// Most streams in one command.
const MAX_STREAMS: usize = 64;
/// Most pending entries looked up or claimed of one stream at once.
const PAGE: usize = 100;
/// How long a blocked read lasts at most.
const BLOCK: Duration = Duration::from_millis(250);
/// Where nothing can block, how long an idle reader waits.
const CLUSTER_IDLE: Duration = Duration::from_millis(50);
/// How often all streams are looked over.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// How long a key that is no stream is left alone.
const BROKEN_FOR: Duration = Duration::from_secs(10);

/// How a stream stands.
#[derive(Debug)]
pub(super) enum Phase {
    /// What is pending is being claimed.
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
    NoGroup {
        /// It had one before.
        had_one: bool,
    },
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
enum Request {
    Open,
    /// Which shards are still ours, by the tokens they were granted with.
    Verify(Vec<(ShardId, Arc<str>)>),
    MakeGroups(Vec<u64>),
    CountLost,
    LookUp(Vec<u64>),
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
    request: Request,
    link: Result<Link, Fault>,
    values: Vec<Value>,
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
        self.reading = Some(ask(link, request, commands, longer));
    }

    fn next_request(&mut self, now: Instant) -> Option<(Request, Pipeline, Duration)> {
        if self.must_verify {
            return Some(self.verify());
        }
        self.sweep(now);
        if !self.lost.is_empty() {
            let mut commands = Pipeline::new();
            for (shard, n) in &self.lost {
                let ledger = self.common.shards.ledger(*shard);
                commands.cmd("HINCRBY").arg(ledger).arg("lost").arg(*n);
            }
            return Some((Request::CountLost, commands, Duration::ZERO));
        }
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
    /// else's by now.
    fn verify(&self) -> (Request, Pipeline, Duration) {
        let mut commands = Pipeline::new();
        for shard in self.shards.keys() {
            commands.cmd("GET").arg(self.common.shards.lease(*shard));
        }
        let owned = |(shard, owned): (&ShardId, &super::Owned)| (*shard, Arc::clone(&owned.token));
        (Request::Verify(self.shards.iter().map(owned).collect()), commands, Duration::ZERO)
    }

    fn verified(&mut self, shards: Vec<(ShardId, Arc<str>)>, values: Vec<Value>) {
        self.must_verify = false;
        for ((shard, token), value) in shards.into_iter().zip(values) {
            if matches!(value, Value::ServerError(_)) {
                self.must_verify = true;
            } else if link::text(value).as_deref() != Some(&*token) {
                self.fenced(shard, &token);
            }
        }
    }

    /// Now and then every stream is looked over for entries that are pending and nobody works on: a
    /// reply can get lost long after the connection did.
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
        let wanted = self.pick(now, MAX_STREAMS, |phase| matches!(phase, Phase::NoGroup { .. }));
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
                claims.push((number, ids));
            }
            return Some((Request::Claim { claims, reserved }, commands, Duration::ZERO));
        }
        let wanted = self.pick(now, MAX_STREAMS, |phase| matches!(phase, Phase::Recovery { .. }));
        if wanted.is_empty() {
            return None;
        }
        let mut commands = Pipeline::new();
        for number in &wanted {
            let stream = &self.streams[number];
            let Phase::Recovery { after, .. } = &stream.phase else { continue };
            let from =
                if *after == EntryId::default() { "-".to_owned() } else { format!("({after}") };
            commands.cmd("XPENDING").arg(&stream.key).arg(&config.group);
            commands.arg(from).arg("+").arg(PAGE);
        }
        self.settled_meanwhile = Some(HashSet::new());
        Some((Request::LookUp(wanted), commands, Duration::ZERO))
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
                command.arg("BLOCK").arg(BLOCK.as_millis() as u64);
            }
            command.arg("STREAMS");
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

    /// Whether there is nothing to do but to wait for new frames.
    fn is_quiet(&self) -> bool {
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

    /// A reply came, or did not.
    pub(super) fn has_read(&mut self, Read { request, link, values }: Read) {
        let now = Instant::now();
        let was_reading = std::mem::take(&mut self.reading_of);
        match link {
            Ok(link) => {
                self.read_link = Some(link);
                self.read_at = now;
                self.has_replied(request, values, now);
            }
            Err(fault) => self.read_failed(&fault, now),
        }
        for shard in was_reading {
            self.check_drained(shard);
        }
        let leaving: Vec<u64> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.is_leaving)
            .map(|(number, _)| *number)
            .collect();
        for number in leaving {
            self.check_left(number);
        }
        self.last_read = now;
    }

    fn read_failed(&mut self, fault: &Fault, now: Instant) {
        self.read_link = None;
        self.settled_meanwhile = None;
        self.read_at = now + self.read_breaker.fail(rand::random());
        self.note_problem(fault, self.read_breaker.n_failures());
        // What was asked may have been done all the same: look at what is pending first.
        for stream in self.streams.values_mut() {
            if matches!(stream.phase, Phase::Live | Phase::Recovery { .. }) {
                stream.phase = Phase::recovery();
            }
        }
        if fault.is_moved() {
            self.report(Report::Moved);
        }
    }

    /// Says once what is wrong, and keeps it to be shown.
    pub(super) fn note_problem(&self, problem: &dyn std::fmt::Display, n_failures: u32) {
        if n_failures == 1 {
            tracing::warn!(%problem, "cameras: trying again");
        } else {
            tracing::debug!(%problem, n_failures, "cameras: trying again");
        }
        self.common.health.update(|health| {
            health.problem = Some(problem.to_string());
            health.n_faults += 1;
        });
    }

    fn has_replied(&mut self, request: Request, values: Vec<Value>, now: Instant) {
        match request {
            Request::Open => self.must_verify = true,
            Request::Verify(shards) => self.verified(shards, values),
            Request::MakeGroups(streams) => self.groups_made(&streams, values, now),
            Request::CountLost => {
                if !values.iter().any(|value| matches!(value, Value::ServerError(_))) {
                    self.lost.clear();
                }
            }
            Request::LookUp(streams) => {
                let settled = self.settled_meanwhile.take().unwrap_or_default();
                for (number, value) in streams.into_iter().zip(values) {
                    self.looked_up(number, value, &settled, now);
                }
            }
            Request::Claim { claims, reserved } => {
                drop(reserved);
                for ((number, ids), value) in claims.into_iter().zip(values) {
                    self.claimed(number, &ids, value, now);
                }
            }
            Request::Fresh { commands, count, reserved } => {
                drop(reserved);
                self.fresh(&commands, count, values, now);
            }
            Request::Types(streams) => self.typed(&streams, values, now),
        }
    }

    fn groups_made(&mut self, streams: &[u64], values: Vec<Value>, now: Instant) {
        for (number, value) in streams.iter().zip(values) {
            let made = link::list(value).and_then(|mut made| made.pop());
            let Some(stream) = self.streams.get_mut(number) else { continue };
            match made {
                Some(Value::Int(made)) => {
                    let had_one = matches!(stream.phase, Phase::NoGroup { had_one: true });
                    if made == 1 && had_one {
                        tracing::error!(
                            stream = stream.key,
                            "the consumer group was gone: Redis lost data or somebody removed it"
                        );
                        self.common.health.update(|health| health.n_resets += 1);
                    }
                    stream.phase = if made == 1 { Phase::Live } else { Phase::recovery() };
                    self.read_breaker.succeed();
                }
                Some(Value::BulkString(error)) => {
                    tracing::error!(
                        stream = stream.key,
                        error = %String::from_utf8_lossy(&error),
                        "the key cannot be read as a stream; remove what is there"
                    );
                    stream.phase = Phase::Broken(now + BROKEN_FOR);
                }
                _ => self.read_at = now + self.read_breaker.fail(rand::random()),
            }
        }
    }

    fn looked_up(
        &mut self,
        number: u64,
        value: Value,
        settled: &HashSet<(u64, EntryId)>,
        now: Instant,
    ) {
        if let Value::ServerError(error) = &value {
            self.refused(&[number], error, now);
            return;
        }
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Phase::Recovery { after, found, is_last_page } = &mut stream.phase else { return };
        let rows = link::list(value).unwrap_or_default();
        *is_last_page = rows.len() < PAGE;
        for row in rows {
            let Some((id, n)) = pending_row(row) else { continue };
            *after = id;
            if !stream.held.contains(&id) && !settled.contains(&(number, id)) {
                found.push((id, n));
            }
        }
        if found.is_empty() && *is_last_page {
            stream.phase = Phase::Live;
            self.read_breaker.succeed();
            self.common.health.update(|health| health.problem = None);
        }
    }

    fn claimed(&mut self, number: u64, ids: &[(EntryId, u32)], value: Value, now: Instant) {
        if let Value::ServerError(error) = &value {
            if let Some(stream) = self.streams.get_mut(&number) {
                stream.phase = Phase::recovery();
            }
            self.refused(&[number], error, now);
            return;
        }
        let entries = link::list(value).unwrap_or_default();
        let mut got = Vec::with_capacity(entries.len());
        let mut bytes = 0;
        for entry in entries {
            let Some((id, fields)) = entry_of(entry) else { continue };
            got.push(id);
            bytes += weight(&fields);
            let n = ids.iter().find(|(asked, _)| *asked == id).map_or(1, |(_, n)| *n);
            self.arrived(number, id, fields, n);
        }
        self.pace.weighed(got.len(), bytes);
        // What was pending and is not there was trimmed away by somebody.
        let n_lost = ids.iter().filter(|(id, _)| !got.contains(id)).count() as u64;
        if 0 < n_lost
            && let Some(stream) = self.streams.get(&number)
        {
            tracing::error!(
                stream = stream.key,
                n_lost,
                "frames were trimmed away while they were pending; do not trim streams that are kept"
            );
            self.common.ledger.take(n_lost);
            self.common.ledger.end(Ending::Lost, n_lost);
            *self.lost.entry(stream.shard).or_default() += n_lost;
        }
        if let Some(stream) = self.streams.get_mut(&number)
            && let Phase::Recovery { found, is_last_page, .. } = &stream.phase
            && found.is_empty()
            && *is_last_page
        {
            stream.phase = Phase::Live;
        }
    }

    fn fresh(&mut self, commands: &[Vec<u64>], count: usize, values: Vec<Value>, now: Instant) {
        let streams = commands.iter().map(Vec::len).sum();
        let mut reply = Reply { streams, ..Reply::default() };
        let mut is_refused = false;
        for (streams, value) in commands.iter().zip(values) {
            if let Value::ServerError(error) = &value {
                is_refused = true;
                self.refused(streams, error, now);
                continue;
            }
            for stream in link::list(value).unwrap_or_default() {
                let Some((number, entries)) = self.stream_of(stream) else { continue };
                reply.is_full |= count <= entries.len();
                for entry in entries {
                    let Some((id, fields)) = entry_of(entry) else { continue };
                    reply.frames += 1;
                    reply.bytes += weight(&fields);
                    self.arrived(number, id, fields, 0);
                }
            }
        }
        self.step = self.pace.after(reply, now - self.last_read);
        if !is_refused {
            self.read_breaker.succeed();
            self.read_at = now
                + match self.step {
                    Step::Wait(linger) => linger,
                    Step::Block if self.post.is_cluster => CLUSTER_IDLE,
                    Step::Block if self.is_quiet() => Duration::ZERO,
                    Step::Block => self.common.config.linger,
                };
        }
    }

    fn stream_of(&self, value: Value) -> Option<(u64, Vec<Value>)> {
        let mut parts = link::list(value)?.into_iter();
        let key = link::bytes(parts.next()?)?;
        Some((*self.by_key.get(&key)?, link::list(parts.next()?)?))
    }

    /// Redis refused a command that names these streams.
    fn refused(&mut self, streams: &[u64], error: &redis::ServerError, now: Instant) {
        match link::refusal(error) {
            Refusal::NoGroup => {
                for number in streams {
                    if let Some(stream) = self.streams.get_mut(number) {
                        let had_one = matches!(stream.phase, Phase::Live);
                        stream.phase = Phase::NoGroup { had_one };
                    }
                }
            }
            Refusal::WrongType if 1 < streams.len() => self.check_types(streams),
            Refusal::WrongType => self.broken(streams, now),
            Refusal::Moved | Refusal::Later | Refusal::Other => {
                let fault = Fault::of(error);
                self.read_at = now + self.read_breaker.fail(rand::random());
                self.note_problem(&fault, self.read_breaker.n_failures());
                if fault.is_moved() {
                    self.report(Report::Moved);
                }
            }
        }
    }

    /// One of these is no stream; asks each.
    fn check_types(&mut self, streams: &[u64]) {
        let Some(link) = self.read_link.take() else { return };
        let mut commands = Pipeline::new();
        for number in streams {
            commands.cmd("TYPE").arg(self.streams.get(number).map_or("", |stream| &stream.key));
        }
        let request = Request::Types(streams.to_vec());
        self.reading = Some(ask(link, request, commands, Duration::ZERO));
    }

    fn typed(&mut self, streams: &[u64], values: Vec<Value>, now: Instant) {
        for (number, value) in streams.iter().zip(values) {
            if !matches!(&value, Value::SimpleString(kind) if kind == "stream" || kind == "none") {
                self.broken(&[*number], now);
            }
        }
    }

    fn broken(&mut self, streams: &[u64], now: Instant) {
        for number in streams {
            if let Some(stream) = self.streams.get_mut(number) {
                tracing::error!(
                    stream = stream.key,
                    "the key holds no stream; it is left alone until that is gone"
                );
                stream.phase = Phase::Broken(now + BROKEN_FOR);
            }
        }
    }

    /// One entry arrived: it is checked, and then waits, or is settled at once.
    fn arrived(&mut self, number: u64, id: EntryId, fields: Vec<(Vec<u8>, Vec<u8>)>, tries: u32) {
        let common = &self.common;
        let Some(stream) = self.streams.get_mut(&number) else { return };
        // A group that was made anew delivers again what is being worked on.
        if !stream.held.insert(id) {
            return;
        }
        let shard = stream.shard;
        if let Some(owned) = self.shards.get_mut(&shard) {
            owned.n_held += 1;
        }
        common.ledger.take(1);
        let max_bytes = common.config.max_frame_bytes;
        let held = common.credit.charge(weight(&fields));
        let origin = Origin { id, camera: stream.camera.as_deref(), max_bytes };
        let is_shared = stream.camera.is_none();
        let read = entry::read(origin, fields).and_then(|frame| {
            if is_shared && common.shards.of(&frame.camera) != shard {
                return Err(EntryError::WrongStream(entry::clip(&frame.camera)));
            }
            Ok(frame)
        });
        let verdict = match &read {
            Err(error) => Some(Verdict::Dead { reason: error.to_string(), tries }),
            Ok(_) if common.config.max_tries <= tries => {
                let reason = format!("delivered {tries} times without a result");
                Some(Verdict::Dead { reason, tries })
            }
            Ok(frame) => common.roster.refuses(&frame.camera).map(Verdict::Dropped),
        };
        match (read, verdict) {
            (Ok(frame), None) => {
                let policy = common.policies.of(&frame.camera);
                let camera = frame.camera.clone();
                let waiting = Waiting {
                    taken_ms: frame.taken_ms,
                    bytes: held.bytes(),
                    body: Piece { stream: number, shard, id, frame, tries, held },
                };
                let mut dropped = Vec::new();
                if policy.is_stale(waiting.taken_ms, now_ms()) {
                    dropped.push((waiting.body, crate::ledger::Reason::Stale));
                } else {
                    self.line.arrive(&camera, (shard, policy), waiting, |piece, reason| {
                        dropped.push((piece, reason));
                    });
                }
                for (piece, reason) in dropped {
                    self.drop_piece(piece, reason);
                }
            }
            (_, Some(verdict)) => {
                let held = light(&held);
                let settled = Settled {
                    stream: number,
                    shard,
                    id,
                    verdict,
                    _held: held,
                    is_uncertain: false,
                };
                self.settle(settled);
            }
            (Err(_), None) => {}
        }
    }
}

/// A connection to read on, by whose name others know whose it is.
async fn open(common: &Common, server: &ConnectionInfo) -> Result<Link, Fault> {
    let mut link = Link::open(server, common.config.timeout).await?;
    let mut command = redis::cmd("CLIENT");
    command.arg("SETNAME").arg(fence::name(common));
    link.ask_one(command).await?;
    Ok(link)
}

/// What a frame weighs whose payload is gone already.
pub(super) fn light(held: &Held) -> Held {
    held.lighter(64)
}

fn ask(mut link: Link, request: Request, commands: Pipeline, longer: Duration) -> Boxed<Read> {
    Box::pin(async move {
        match link.ask_for(&commands, longer).await {
            Ok(values) => Read { request, link: Ok(link), values },
            Err(fault) => Read { request, link: Err(fault), values: Vec::new() },
        }
    })
}

fn weight(fields: &[(Vec<u8>, Vec<u8>)]) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn entry_of(value: Value) -> Option<(EntryId, Vec<(Vec<u8>, Vec<u8>)>)> {
    let mut parts = link::list(value)?.into_iter();
    let id = link::text(parts.next()?)?.parse().ok()?;
    Some((id, link::pairs(parts.next()?)?))
}

/// An entry's id and how often it was delivered.
fn pending_row(row: Value) -> Option<(EntryId, u32)> {
    let mut parts = link::list(row)?.into_iter();
    let id = link::text(parts.next()?)?.parse().ok()?;
    let n = link::number(&parts.nth(2)?)?;
    Some((id, u32::try_from(n).unwrap_or(u32::MAX)))
}
