//! What becomes of a reply of Redis: entries that arrive, groups that are gone, keys that are no
//! streams, connections that broke.

use std::{sync::atomic::Ordering, time::Duration};

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::{
    Doubts, Report, Worker,
    asking::Piece,
    reading::{BROKEN_FOR, CLUSTER_IDLE, Phase, Read, Request, ask},
};
use crate::{
    commit::{Settled, Standing, Verdict},
    common::now_ms,
    credit::Held,
    entry::{self, Data, EntryError, EntryId, Origin},
    ledger::{Ending, Reason},
    line::Waiting,
    link::{self, Fault, Refusal},
    pace::{Reply, Step},
    unsettled::Span,
};

/// An entry's names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// An entry that came.
struct Delivered {
    id: EntryId,
    fields: Fields,
    /// How often it was delivered before.
    tries: u32,
    standing: Standing,
}

impl Worker {
    /// A reply came, or did not.
    pub(super) fn has_read(&mut self, Read { request, link, values }: Read) {
        let now = Instant::now();
        let was_reading = std::mem::take(&mut self.reading_of);
        match link {
            Ok(link) => {
                self.read_link = Some(link);
                self.read_at = now;
                self.has_replied(request, values, now);
                if self.doubts == Doubts::OpenWhileReading {
                    // It may have come from a Redis that is gone.
                    self.doubt();
                }
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
        self.read_at = now + self.read_breaker.fail(rand::random());
        self.note_problem(fault, self.read_breaker.n_failures());
        // What was asked may have been done all the same: look for what nobody got first.
        self.doubt();
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
            Request::LookUp(spans) => {
                for ((number, span), value) in spans.into_iter().zip(values) {
                    self.looked_up(number, &span, value, now);
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
                    let had_one = !self.grouped.insert(stream.key.clone());
                    if made == 1 && had_one {
                        tracing::error!(
                            stream = stream.key,
                            "the consumer group was gone: Redis lost data or somebody removed it"
                        );
                        self.common.health.update(|health| health.n_resets += 1);
                    }
                    stream.phase = Phase::recovery();
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

    fn looked_up(&mut self, number: u64, span: &Span, value: Value, now: Instant) {
        if let Value::ServerError(error) = &value {
            self.refused(&[number], error, now);
            return;
        }
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Some(page) = span.found(value) else {
            self.read_at = now + self.read_breaker.fail(rand::random());
            let fault = Fault::Nonsense("a look for unsettled frames with something else");
            self.note_problem(&fault, self.read_breaker.n_failures());
            return;
        };
        if !self.grouped.contains(&stream.key) {
            self.grouped.insert(stream.key.clone());
        }
        if 0 < page.n_lost {
            self.losses.note(&stream.key, page.n_lost, now);
            // What is held and gone is counted here when its commit says so.
            if stream.held.is_empty() {
                self.common.ledger.take(page.n_lost);
                self.common.ledger.end(Ending::Lost, page.n_lost);
            }
        }
        let Phase::Recovery { after, found, is_last_page } = &mut stream.phase else { return };
        *after = page.until.unwrap_or(*after);
        *is_last_page = page.until.is_none();
        let settled = &self.settled_meanwhile;
        let is_ended = |id: &EntryId| stream.held.contains(id) || settled.contains(&(number, *id));
        found.extend(page.frames.into_iter().filter(|(id, _)| !is_ended(id)));
        let was_doubtful = std::mem::take(&mut stream.is_doubtful);
        let is_older = |(id, _): &(EntryId, u32)| stream.held.iter().any(|held| id < held);
        if was_doubtful && found.first().is_some_and(is_older) {
            let shard = stream.shard;
            tracing::warn!(
                stream = stream.key,
                "Redis has frames again that were settled; what came after them begins anew"
            );
            self.start_over(shard);
            return;
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
        let (mut n, mut bytes) = (0, 0);
        for entry in entries {
            let Some((id, fields)) = entry_of(entry) else { continue };
            n += 1;
            bytes += weight(&fields);
            let tries = ids.iter().find(|(asked, _)| *asked == id).map_or(1, |(_, n)| *n);
            self.arrived(number, Delivered { id, fields, tries, standing: Standing::Claimed });
        }
        self.pace.weighed(n, bytes);
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
        let mut newest_ms = None;
        for (streams, value) in commands.iter().zip(values) {
            if let Value::ServerError(error) = &value {
                is_refused = true;
                self.refused(streams, error, now);
                continue;
            }
            for stream in link::list(value).unwrap_or_default() {
                let Some((number, entries)) = self.stream_of(stream) else { continue };
                // A shard that was lost and taken again since begins with what is not settled, and
                // this is among it.
                if !streams.contains(&number) {
                    continue;
                }
                reply.is_full |= count <= entries.len();
                for entry in entries {
                    let Some((id, fields)) = entry_of(entry) else { continue };
                    reply.frames += 1;
                    reply.bytes += weight(&fields);
                    newest_ms = newest_ms.max(Some(id.millis));
                    // A group that was made anew delivers again what was worked on meanwhile.
                    if !self.settled_meanwhile.contains(&(number, id)) {
                        let standing = Standing::Fresh;
                        self.arrived(number, Delivered { id, fields, tries: 0, standing });
                    }
                }
            }
        }
        let lag_ms = newest_ms.map_or(0, |newest| now_ms().saturating_sub(newest));
        self.common.flow.lag_ms.store(lag_ms, Ordering::Relaxed);
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
                        stream.phase = Phase::NoGroup;
                    }
                }
            }
            Refusal::WrongType if 1 < streams.len() => self.check_types(streams),
            Refusal::WrongType => self.broken(streams, now),
            refusal @ (Refusal::Moved | Refusal::ReadOnly | Refusal::Later | Refusal::Other) => {
                let fault = Fault::of(error);
                if refusal == Refusal::ReadOnly {
                    // Another server may be at this address by now, and this connection stays with the
                    // old one.
                    self.read_link = None;
                }
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
    fn arrived(&mut self, number: u64, delivered: Delivered) {
        let Delivered { id, fields, tries, standing } = delivered;
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
        let weight = weight(&fields);
        let origin = Origin { id, camera: stream.camera.as_deref(), max_bytes };
        let is_shared = stream.camera.is_none();
        let read = entry::read(origin, fields).and_then(|frame| {
            if is_shared && common.shards.of(&frame.camera) != shard {
                return Err(EntryError::WrongStream(entry::clip(&frame.camera)));
            }
            Ok(frame)
        });
        // A frame in shared memory is copied here once it is begun.
        let elsewhere = read.as_ref().map_or(0, |frame| match &frame.payload.data {
            Data::Shared(_) => frame.payload.len(),
            Data::Inline(_) => 0,
        });
        let held = common.credit.charge(weight + elsewhere);
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
                common.sightings.frame(&frame.camera, id.millis);
                let policy = common.policies.of(&frame.camera);
                let camera = frame.camera.clone();
                let waiting = Waiting {
                    taken_ms: frame.taken_ms,
                    bytes: held.bytes(),
                    body: Piece { stream: number, shard, id, frame, tries, standing, held },
                };
                let mut dropped = Vec::new();
                if policy.is_stale(waiting.taken_ms, now_ms()) {
                    dropped.push((waiting.body, Reason::Stale));
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
                let settled = Settled { stream: number, shard, id, verdict, _held: held, standing };
                self.settle(settled);
            }
            (Err(_), None) => {}
        }
    }
}

/// What a frame weighs whose payload is gone already.
pub(super) fn light(held: &Held) -> Held {
    held.lighter(64)
}

fn weight(fields: &Fields) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn entry_of(value: Value) -> Option<(EntryId, Fields)> {
    let mut parts = link::list(value)?.into_iter();
    let id = link::text(parts.next()?)?.parse().ok()?;
    Some((id, link::pairs(parts.next()?)?))
}

#[cfg(test)]
mod tests;
