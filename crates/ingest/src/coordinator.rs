//! Which shards are ours: says that this node is alive, takes, renews and gives back leases, and
//! tells workers what to read.
//!
//! Every node works out from the list of live nodes which shards should be its own. A shard changes
//! hands only through its lease: who should not have it any more finishes what it read and gives it
//! back; who died loses it when the lease ends. The next owner claims what is not settled before it
//! reads on, so order holds, and the fence keeps late commits of the last owner out.

mod leases;
mod streams;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use paceline_frames::ring;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Layout,
    backoff::Breaker,
    check::check,
    common::Common,
    link::{Fault, HEARTBEAT, Link, list, text},
    rendezvous,
    shard::ShardId,
    topology::Topology,
    worker::{NewStream, Order, Post, Report, Worker},
};

/// How often rings of dead producers are looked for.
const TIDY_EVERY: Duration = Duration::from_mins(1);
/// Orders that wait for a worker.
const ORDERS: usize = 1024;

struct Lease {
    token: Arc<str>,
    home: String,
    /// Since when it is to be given back.
    draining_since: Option<Instant>,
}

pub(crate) struct Coordinator {
    common: Arc<Common>,
    topology: Option<Topology>,
    topology_at: Instant,
    links: HashMap<String, Link>,
    breaker: Breaker,
    members: Vec<String>,
    leases: BTreeMap<ShardId, Lease>,
    /// The first round takes back what an earlier process of the same name still holds.
    is_first: bool,
    workers: HashMap<(String, usize), mpsc::Sender<Order>>,
    tasks: JoinSet<()>,
    reports: (mpsc::Sender<Report>, mpsc::Receiver<Report>),
    /// Camera streams by shard, as workers know them.
    streams: BTreeMap<ShardId, BTreeSet<String>>,
}

impl Coordinator {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        Self {
            common,
            topology: None,
            topology_at: Instant::now(),
            links: HashMap::new(),
            breaker: Breaker::default(),
            members: Vec::new(),
            leases: BTreeMap::new(),
            is_first: true,
            workers: HashMap::new(),
            tasks: JoinSet::new(),
            reports: mpsc::channel(ORDERS),
            streams: BTreeMap::new(),
        }
    }

    /// Runs until told to stop, then finishes what was read and gives everything back.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        self.streams = self.wanted_streams();
        let mut beat_at = Instant::now();
        let mut discover_at = Instant::now();
        let mut tidy_at = Instant::now();
        let discovers = self.common.config.layout == Layout::Camera;
        loop {
            let common = Arc::clone(&self.common);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(report) = self.reports.1.recv() => {
                    self.hear(report).await;
                    continue;
                }
                Some(ended) = self.tasks.join_next() => {
                    // One that was let go ends well.
                    if let Err(error) = ended {
                        self.replace_workers(&error).await;
                    }
                    continue;
                }
                () = common.roster.changed() => {
                    self.tell_streams().await;
                    continue;
                }
                () = sleep_until(discover_at), if discovers => {
                    discover_at = Instant::now() + common.config.discover;
                    if let Err(fault) = self.discover_cameras().await {
                        tracing::debug!(%fault, "cameras were not looked for");
                    }
                    continue;
                }
                () = sleep_until(tidy_at) => {
                    tidy_at = Instant::now() + TIDY_EVERY;
                    tidy_rings(common).await;
                    continue;
                }
                () = sleep_until(beat_at) => {}
            }
            beat_at = Instant::now() + self.beat_or_back_off().await;
        }
        self.stop().await;
    }

    /// One round; how long to wait for the next.
    async fn beat_or_back_off(&mut self) -> Duration {
        let lease = self.common.config.lease;
        match self.beat().await {
            Ok(()) => {
                self.breaker.succeed();
                let n_shards = self.leases.len();
                let nodes = self.members.clone();
                self.common.health.update(|health| {
                    health.is_up = true;
                    health.is_circuit_open = false;
                    health.n_shards = n_shards;
                    health.nodes = nodes;
                });
                // Shards that are on their way here are asked for more often.
                let is_settled = self.wanted().len() == self.leases.len();
                if is_settled { lease / 3 } else { lease / 10 }
            }
            Err(fault) => {
                let pause = self.breaker.fail(rand::random());
                let n_failures = self.breaker.n_failures();
                if n_failures == 1 || self.breaker.is_open() {
                    tracing::warn!(%fault, n_failures, "cameras: Redis cannot be used now");
                }
                let is_open = self.breaker.is_open();
                self.common.health.update(|health| {
                    health.is_up = false;
                    health.is_circuit_open = is_open;
                    health.problem = Some(fault.to_string());
                });
                self.links.clear();
                self.topology_at = Instant::now();
                pause.min(lease / 3)
            }
        }
    }

    async fn beat(&mut self) -> Result<(), Fault> {
        self.look_around().await?;
        self.members = self.heartbeat(self.common.config.lease * 2).await?;
        let wanted = self.wanted();
        self.renew(&wanted).await?;
        self.is_first = false;
        self.give_back(&wanted).await?;
        self.count_unread().await
    }

    /// Finds out which servers there are, where that is not known or may have changed.
    async fn look_around(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        if self.topology.is_some() && now < self.topology_at {
            return Ok(());
        }
        let (config, address) = (&self.common.config, &self.common.address);
        let found = Topology::discover(address, self.topology.as_ref(), config.timeout).await;
        let found = match found {
            Ok(found) => found,
            // Who is connected to the master can do without Sentinels.
            Err(fault) if address.is_guided() && !self.links.is_empty() => {
                tracing::warn!(%fault, "cameras: going on with the master that is known");
                self.topology_at = now + config.lease;
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        let needs_tag = found.is_cluster && config.layout == Layout::Camera;
        if needs_tag && !config.camera_key.contains("<shard>") {
            return Err(Fault::Refused(
                "a Cluster needs `<shard>` in cameras.camera_key, so that a camera's frames lie \
                 beside its results"
                    .to_owned(),
            ));
        }
        // A Cluster changes, and so does who is the master; one server does not.
        let changes = found.is_cluster || address.is_guided();
        self.topology_at = now + if changes { config.lease } else { Duration::from_hours(1) };
        let known = self.topology.replace(found);
        self.follow_moves().await;
        let servers = self.addresses();
        if known.is_none_or(|known| !known.servers.keys().eq(&servers)) {
            self.leave_others(&servers);
            self.check_settings(servers).await?;
        }
        Ok(())
    }

    /// Lets go of servers that are none of ours any more, so that nobody works on one that was the
    /// master once.
    fn leave_others(&mut self, servers: &[String]) {
        self.links.retain(|address, _| servers.contains(address));
        self.workers.retain(|(home, _), _| servers.contains(home));
    }

    async fn check_settings(&mut self, servers: Vec<String>) -> Result<(), Fault> {
        let mut warnings = Vec::new();
        for address in servers {
            let link = self.link(&address).await?;
            warnings.extend(check(link).await?);
        }
        warnings.dedup();
        for warning in &warnings {
            tracing::warn!(warning, "cameras: frames can be lost");
        }
        self.common.health.update(|health| health.warnings = warnings);
        Ok(())
    }

    /// Shards whose slot is served by another server now are worked on there.
    async fn follow_moves(&mut self) {
        let Some(topology) = &self.topology else { return };
        let mut moved = Vec::new();
        for (shard, lease) in &self.leases {
            let home = topology.home(&self.common.shards.lease(*shard));
            if let Some(home) = home.filter(|home| *home != lease.home) {
                moved.push((*shard, home.to_owned()));
            }
        }
        for (shard, home) in moved {
            let Some(lease) = self.leases.remove(&shard) else { continue };
            self.send(&lease.home, shard, Order::Forget(shard)).await;
            tracing::info!(%shard, from = lease.home, to = home, "a shard moved");
            self.leases.insert(shard, Lease { home: home.clone(), ..lease });
            self.grant(shard).await;
        }
    }

    async fn heartbeat(&mut self, lasts: Duration) -> Result<Vec<String>, Fault> {
        let key = self.common.shards.nodes();
        let home = self.home(&key)?;
        let mut call = HEARTBEAT.call(&[&key]);
        call.arg(&self.common.config.node).arg(lasts.as_millis().to_string());
        let reply = self.link(&home).await?.ask_one(call).await?;
        Ok(list(reply).unwrap_or_default().into_iter().filter_map(text).collect())
    }

    /// Shards that should be ours.
    fn wanted(&self) -> BTreeSet<ShardId> {
        let own = Some(&*self.common.config.node);
        let is_ours = |shard: &ShardId| rendezvous::owner(*shard, &self.members) == own;
        self.common.shards.all().filter(is_ours).collect()
    }

    async fn hear(&mut self, report: Report) {
        match report {
            Report::Drained(shard) => {
                if let Err(fault) = self.release(shard).await {
                    // It ends by itself soon.
                    tracing::debug!(%fault, %shard, "a lease was not given back");
                }
            }
            Report::Fenced(shard, token) => {
                if self.leases.get(&shard).is_some_and(|lease| lease.token == token) {
                    self.lose(shard).await;
                }
            }
            Report::Moved => {
                let soon = Instant::now() + self.common.config.lease / 10;
                self.topology_at = self.topology_at.min(soon);
            }
        }
    }

    /// Hands a shard to the worker that is to read it.
    async fn grant(&mut self, shard: ShardId) {
        let Some(lease) = self.leases.get(&shard) else { return };
        let (home, token) = (lease.home.clone(), Arc::clone(&lease.token));
        let streams = match self.common.config.layout {
            Layout::Shard => {
                vec![NewStream { key: self.common.shards.frames(shard), camera: None }]
            }
            Layout::Camera => {
                let cameras = self.streams.get(&shard).into_iter().flatten();
                cameras.map(|camera| self.camera_stream(shard, camera)).collect()
            }
        };
        self.send(&home, shard, Order::Grant { shard, token, streams }).await;
    }

    /// Sends an order to the worker that reads a shard on a server.
    async fn send(&mut self, home: &str, shard: ShardId, order: Order) {
        let config = &self.common.config;
        let place = (home.to_owned(), shard.index() % config.readers);
        if !self.workers.contains_key(&place) {
            let Some(post) = self.post(home) else { return };
            let (sender, orders) = mpsc::channel(ORDERS);
            let worker =
                Worker::new(Arc::clone(&self.common), post, orders, self.reports.0.clone());
            self.tasks.spawn(worker.run());
            self.workers.insert(place.clone(), sender);
        }
        if self.workers[&place].send(order).await.is_err() {
            tracing::debug!(home, "an order came too late");
        }
    }

    /// What a worker on a server is to do.
    fn post(&self, home: &str) -> Option<Post> {
        let (config, topology) = (&self.common.config, self.topology.as_ref()?);
        let server = topology.servers.get(home)?.clone();
        let n_workers = config.readers * topology.servers.len();
        Some(Post::new(config, n_workers, server, topology.is_cluster))
    }

    /// A reading task ended though nobody told it to, which only a mistake in it can do: another
    /// takes its shards and claims what was not settled.
    async fn replace_workers(&mut self, error: &tokio::task::JoinError) {
        tracing::error!(%error, "a reading task is gone; another takes its shards");
        self.workers.retain(|_, worker| !worker.is_closed());
        let is_orphan = |shard: ShardId, lease: &Lease| {
            let place = (lease.home.clone(), shard.index() % self.common.config.readers);
            !self.workers.contains_key(&place)
        };
        let orphans: Vec<ShardId> = self
            .leases
            .iter()
            .filter(|(shard, lease)| is_orphan(**shard, lease))
            .map(|(shard, _)| *shard)
            .collect();
        for shard in orphans {
            self.grant(shard).await;
        }
    }

    /// Finishes what was read, gives all shards back and leaves.
    async fn stop(mut self) {
        let config = &self.common.config;
        let until = Instant::now() + config.lease * 2;
        let renew_every = config.lease / 3;
        let mut renew_at = Instant::now() + renew_every;
        if let Err(fault) = self.heartbeat(Duration::ZERO).await {
            tracing::warn!(%fault, "cameras: left without saying so");
        }
        self.members.clear();
        if let Err(fault) = self.give_back(&BTreeSet::new()).await {
            tracing::debug!(%fault, "some shards were not given back");
        }
        while !self.leases.is_empty() && Instant::now() < until {
            tokio::select! {
                Some(report) = self.reports.1.recv() => self.hear(report).await,
                () = sleep_until(renew_at) => {
                    renew_at += renew_every;
                    if let Err(fault) = self.renew(&BTreeSet::new()).await {
                        tracing::debug!(%fault, "leases were not renewed");
                        self.links.clear();
                    }
                }
                () = sleep_until(until) => {}
            }
        }
        let left: Vec<ShardId> = self.leases.keys().copied().collect();
        for shard in left {
            if let Err(fault) = self.release(shard).await {
                tracing::debug!(%fault, "leases were not given back; they end by themselves");
                break;
            }
        }
        self.workers.clear();
        while self.tasks.join_next().await.is_some() {}
    }

    fn addresses(&self) -> Vec<String> {
        let servers = self.topology.iter().flat_map(|topology| topology.servers.keys());
        servers.cloned().collect()
    }

    fn home(&self, key: &str) -> Result<String, Fault> {
        let home = self.topology.as_ref().and_then(|topology| topology.home(key));
        let missing = || Fault::Refused("CLUSTERDOWN nobody serves the slot".to_owned());
        home.map(str::to_owned).ok_or_else(missing)
    }

    async fn link(&mut self, address: &str) -> Result<&mut Link, Fault> {
        if !self.links.contains_key(address) {
            let server = self.topology.as_ref().and_then(|topology| topology.servers.get(address));
            let missing = || Fault::Refused("CLUSTERDOWN the server is gone".to_owned());
            let server = server.ok_or_else(missing)?;
            let link = Link::open(server, self.common.config.timeout).await?;
            self.links.insert(address.to_owned(), link);
        }
        self.links.get_mut(address).ok_or(Fault::Nonsense("nothing"))
    }
}

/// Removes rings whose producers are gone, and lets go of those that were removed.
async fn tidy_rings(common: Arc<Common>) {
    let tidied = tokio::task::spawn_blocking(move || {
        ring::sweep(&common.config.ring_folder);
        common.payloads.close_rings();
    });
    if let Err(error) = tidied.await {
        tracing::warn!(%error, "cameras: rings in shared memory were not looked over");
    }
}
