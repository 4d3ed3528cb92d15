//! Every fault, by name: what it does, and what it may cause to those who did nothing wrong.

mod clients;
mod elsewhere;
mod loading;
mod models;
mod network;
mod processes;
mod redis;
mod sentinel;
mod starts;
mod storage;
mod trust;
mod workers;

use std::{pin::Pin, sync::Arc};

use crate::{
    clients::cameras::Film,
    ledger::Excuses,
    parts::{Part, Parts},
    server::Server,
};

/// What a fault works on.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) server: Arc<Server>,
    pub(crate) film: Arc<Film>,
    pub(crate) parts: Parts,
}

/// A fault under way.
type Done<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + 'a>>;

/// A way to do harm.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) excuses: Excuses,
    /// What cannot be left out for it.
    pub(crate) needs: &'static [Part],
    /// Does it, and fails where something is not as it must be.
    pub(crate) run: for<'a> fn(&'a Scene) -> Done<'a>,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// One row of the table.
macro_rules! fault {
    ($name:literal, $excuses:ident, $needs:expr, $run:path, $about:literal) => {
        Fault {
            name: $name,
            about: $about,
            excuses: Excuses::$excuses,
            needs: $needs,
            run: |scene| Box::pin($run(scene)),
        }
    };
}

const NOTHING: &[Part] = &[];
const PYTHON: &[Part] = &[Part::Python];
const REDIS: &[Part] = &[Part::Redis];
const SS: &[Part] = &[Part::Ss];
const NFT: &[Part] = &[Part::Nft];
const FAKETIME: &[Part] = &[Part::Faketime];
const CGROUP: &[Part] = &[Part::Cgroup];

/// All of them, a line each.
pub(crate) fn list() -> String {
    ALL.iter()
        .fold(String::new(), |list, fault| list + &format!("{:20}{}\n", fault.name, fault.about))
}

/// All of them.
pub(crate) const ALL: &[Fault] = &[
    fault!("worker-kill", WORKER, PYTHON, workers::kill, "SIGKILL to a Python worker"),
    fault!(
        "worker-stop",
        WORKER,
        PYTHON,
        workers::stop,
        "SIGSTOP to a Python worker; it is ended at its call's time-out"
    ),
    fault!(
        "worker-exit",
        WORKER,
        PYTHON,
        workers::exit,
        "a model that ends its process with code 0"
    ),
    fault!("worker-segv", WORKER, PYTHON, workers::segv, "a model that reads address 0"),
    fault!("worker-hang", WORKER, PYTHON, workers::hang, "a model that never returns"),
    fault!(
        "worker-memory",
        WORKER,
        PYTHON,
        workers::memory,
        "a model that wants more memory than it may have"
    ),
    fault!(
        "worker-noise",
        NONE,
        PYTHON,
        workers::noise,
        "a model that prints twenty thousand lines"
    ),
    fault!(
        "worker-raises",
        NONE,
        PYTHON,
        workers::raises,
        "a model that raises; its neighbours in the batch are answered"
    ),
    fault!("item-error", NONE, PYTHON, workers::item_error, "a model that fails one row"),
    fault!(
        "model-fails",
        NONE,
        NOTHING,
        models::fails,
        "a model that fails on a third of its rows"
    ),
    fault!(
        "model-panics",
        NONE,
        NOTHING,
        models::panics,
        "a model that panics in a tenth of its calls"
    ),
    fault!("model-reload", NONE, PYTHON, models::reload, "a model is loaded anew, again and again"),
    fault!(
        "model-broken",
        NONE,
        PYTHON,
        models::broken,
        "a new version that cannot be loaded; the old one serves on"
    ),
    fault!(
        "model-misconfigured",
        NONE,
        NOTHING,
        loading::misconfigured,
        "a model is loaded anew with settings that are wrong; it serves on with the old ones"
    ),
    fault!(
        "worker-slow-start",
        NONE,
        PYTHON,
        loading::slow_start,
        "a new version that takes seconds to load; the old one serves until it is there"
    ),
    fault!(
        "provider-missing",
        NONE,
        NOTHING,
        loading::no_provider,
        "a model that wants a device or an engine that is not there"
    ),
    fault!(
        "config-broken",
        NONE,
        NOTHING,
        starts::broken,
        "a second server with a configuration that is wrong, or with the ports of the first"
    ),
    fault!(
        "queue-full",
        NONE,
        NOTHING,
        models::overload,
        "ten times more requests than a model can take; others notice nothing"
    ),
    fault!(
        "deadlines",
        NONE,
        NOTHING,
        models::deadlines,
        "requests that can no longer be answered in time"
    ),
    fault!(
        "model-hangs",
        NONE,
        NOTHING,
        models::hangs,
        "a call that takes ten times longer than whoever waits behind it can wait"
    ),
    fault!(
        "client-reset",
        NONE,
        NOTHING,
        clients::reset,
        "clients that reset the connection while they are served"
    ),
    fault!(
        "stream-vanishes",
        NONE,
        NOTHING,
        clients::stream_vanishes,
        "streams whose client is gone in mid-sentence"
    ),
    fault!(
        "slow-head",
        NONE,
        NOTHING,
        clients::slow_head,
        "two hundred clients that never finish their request's head"
    ),
    fault!(
        "slow-body",
        NONE,
        NOTHING,
        clients::slow_body,
        "clients that never finish their request's body"
    ),
    fault!(
        "slow-reader",
        NONE,
        NOTHING,
        clients::slow_reader,
        "clients that do not read their answers"
    ),
    fault!("garbage", NONE, NOTHING, clients::garbage, "random bytes to every port"),
    fault!(
        "bad-requests",
        NONE,
        NOTHING,
        clients::bad_requests,
        "bodies that are wrong in every way"
    ),
    fault!("huge-body", NONE, NOTHING, clients::huge_body, "bodies that are larger than allowed"),
    fault!(
        "zip-bomb",
        NONE,
        NOTHING,
        clients::zip_bomb,
        "a small body that unpacks to more than is allowed"
    ),
    fault!("chunk-bomb", NONE, NOTHING, clients::chunk_bomb, "a body in a hundred thousand chunks"),
    fault!(
        "bad-audio",
        NONE,
        NOTHING,
        clients::bad_audio,
        "streams of noise that claim to be music"
    ),
    fault!("bad-frames", NONE, NOTHING, clients::bad_frames, "WebSocket frames that are none"),
    fault!(
        "stream-resets",
        NONE,
        NOTHING,
        clients::stream_resets,
        "HTTP/2 requests that are reset at once, by the thousand"
    ),
    fault!(
        "connection-kill",
        AWAY,
        SS,
        clients::connection_kill,
        "every connection to the server is reset by the system"
    ),
    fault!("redis-kill", NONE, REDIS, redis::kill, "SIGKILL to Redis, and a new start"),
    fault!(
        "redis-failover",
        NONE,
        REDIS,
        redis::failover,
        "SIGKILL to Redis; its copy takes its place"
    ),
    fault!(
        "redis-sentinel",
        AWAY,
        REDIS,
        sentinel::failover,
        "a server that asks Sentinels for Redis follows when they promote its copy"
    ),
    fault!(
        "redis-certificate",
        AWAY,
        REDIS,
        trust::certificate,
        "a server whose Redis shows a certificate that has run out, and then another"
    ),
    fault!("redis-name", AWAY, REDIS, trust::name, "a server that is told of a Redis nobody knows"),
    fault!("redis-stop", NONE, REDIS, redis::stop, "SIGSTOP to Redis for three seconds"),
    fault!("redis-clients", NONE, REDIS, redis::clients, "Redis closes every connection"),
    fault!("redis-pause", NONE, REDIS, redis::pause, "Redis answers nothing for two seconds"),
    fault!("redis-slow", NONE, REDIS, redis::slow, "Redis is busy for a second"),
    fault!("redis-full", NONE, REDIS, redis::full, "Redis has no memory left for frames"),
    fault!(
        "redis-disk-full",
        NONE,
        &[Part::Redis, Part::Mount],
        storage::disk_full,
        "the disk that Redis writes to is full for a while"
    ),
    fault!(
        "redis-loading",
        NONE,
        REDIS,
        storage::loading,
        "SIGKILL to Redis, which then reads its files for three seconds"
    ),
    fault!(
        "redis-aof-cut",
        NONE,
        REDIS,
        storage::cut,
        "SIGKILL to Redis, which comes back without the end of its file"
    ),
    fault!(
        "redis-readonly",
        NONE,
        REDIS,
        storage::read_only,
        "Redis is the copy of one that nobody reaches, and takes no writes"
    ),
    fault!("redis-group", NONE, REDIS, redis::group, "the consumer group is destroyed"),
    fault!("redis-scripts", NONE, REDIS, redis::scripts, "Redis forgets its scripts"),
    fault!(
        "poison-frames",
        NONE,
        REDIS,
        redis::poison,
        "frames that are none go to the dead letters"
    ),
    fault!(
        "redis-late",
        AWAY,
        REDIS,
        redis::late,
        "the server starts while Redis is away; everything else is answered"
    ),
    fault!("redis-flush", NONE, REDIS, redis::flush, "everything in Redis is deleted"),
    fault!(
        "redis-trim",
        NONE,
        REDIS,
        redis::trim,
        "frames are trimmed away while they are worked on, and counted as lost"
    ),
    fault!(
        "redis-cut",
        NONE,
        &[Part::Redis, Part::Nft],
        network::redis_cut,
        "Redis hears everybody and nobody hears Redis, for three seconds"
    ),
    fault!(
        "network-loss",
        LOSS,
        NFT,
        network::loss,
        "one packet in ten to and from the server gets lost"
    ),
    fault!(
        "network-slow",
        NONE,
        NOTHING,
        network::slow,
        "what clients, the server and Redis say to each other is up to half a second late"
    ),
    fault!(
        "client-silent",
        NONE,
        NFT,
        network::silent,
        "clients of which nothing arrives any more, not even that they are gone"
    ),
    fault!(
        "clock-jump",
        AWAY,
        FAKETIME,
        processes::clock_jump,
        "the server's clock goes an hour forth and two hours back"
    ),
    fault!(
        "logs-full",
        AWAY,
        NOTHING,
        processes::logs_full,
        "the server's log goes to a disk that is full"
    ),
    fault!(
        "memory-short",
        CROWD,
        CGROUP,
        processes::memory_short,
        "crowds of the largest bodies, and little memory for them"
    ),
    fault!("starved", PRESSURE, NOTHING, processes::starved, "four busy loops for two seconds"),
    fault!("server-stop", NONE, NOTHING, processes::stop, "SIGSTOP to the server for a second"),
    fault!(
        "few-descriptors",
        AWAY,
        NOTHING,
        processes::few_descriptors,
        "no descriptors left for new connections"
    ),
    fault!(
        "drain",
        AWAY,
        NOTHING,
        processes::drain,
        "SIGTERM under load: what was accepted is answered; then a new start"
    ),
    fault!(
        "two-signals",
        AWAY,
        NOTHING,
        processes::two_signals,
        "SIGTERM twice: it ends at once; then a new start"
    ),
    fault!(
        "early-signal",
        AWAY,
        NOTHING,
        processes::early_signal,
        "SIGTERM while it starts; then a new start"
    ),
    fault!(
        "server-kill",
        AWAY,
        NOTHING,
        processes::kill,
        "SIGKILL to the server; its workers end, and a new start goes on"
    ),
];
