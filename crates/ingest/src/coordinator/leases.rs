//! Leases: taken, renewed, lost and given back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use redis::Pipeline;
use tokio::time::Instant;

use super::{Coordinator, Lease};
use crate::{
    fence::close_readers_of_the_dead,
    link::{Fault, LEASE, list, text},
    shard::ShardId,
    worker::Order,
};

/// What became of a lease that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leased {
    New,
    Still,
    Lost,
    /// It is somebody else's, as before.
    Elsewhere,
}

impl Coordinator {
    /// Renews what is ours and takes what should be.
    pub(super) async fn renew(&mut self, wanted: &BTreeSet<ShardId>) -> Result<(), Fault> {
        let take = if self.is_first { "s" } else { "a" };
        let mut by_home: BTreeMap<String, Vec<(ShardId, String)>> = BTreeMap::new();
        for shard in self.common.shards.all() {
            let (home, action) = match self.leases.get(&shard) {
                Some(lease) => (lease.home.clone(), format!("r{}", lease.token)),
                None if wanted.contains(&shard) => {
                    (self.home(&self.common.shards.lease(shard))?, take.to_owned())
                }
                None => continue,
            };
            by_home.entry(home).or_default().push((shard, action));
        }
        for (home, actions) in by_home {
            let sent = Instant::now();
            let tokens = self.lease(&home, &actions).await?;
            // Not the whole time, since clocks differ a little.
            let until = sent + self.common.config.lease.mul_f64(0.9);
            let (mut taken, mut lost) = (Vec::new(), Vec::new());
            for ((shard, _), token) in actions.into_iter().zip(tokens) {
                match self.leased(&home, shard, &token, until).await {
                    Leased::New => taken.push(shard),
                    Leased::Lost => lost.push(shard),
                    Leased::Still | Leased::Elsewhere => {}
                }
            }
            // Once for all: a failover may cost every lease at a time.
            if let Some(first) = lost.first() {
                tracing::warn!(shards = lost.len(), %first, home, "cameras: leases were lost");
            }
            self.grant_all(&home, taken).await;
        }
        Ok(())
    }

    /// What became of one lease.
    pub(super) async fn leased(
        &mut self,
        home: &str,
        shard: ShardId,
        token: &str,
        until: Instant,
    ) -> Leased {
        let is_known = self.leases.contains_key(&shard);
        if token.is_empty() {
            self.lose(shard).await;
            return if is_known { Leased::Lost } else { Leased::Elsewhere };
        }
        self.common.leases.set(shard, Some(until));
        if is_known {
            return Leased::Still;
        }
        let lease = Lease { token: token.into(), home: home.to_owned(), draining_since: None };
        self.leases.insert(shard, lease);
        Leased::New
    }

    /// Hands new shards to workers, once nobody who had them before can read on.
    async fn grant_all(&mut self, home: &str, shards: Vec<ShardId>) {
        if shards.is_empty() {
            return;
        }
        let (common, alive) = (Arc::clone(&self.common), self.members.clone());
        let closed = match self.link(home).await {
            Ok(link) => close_readers_of_the_dead(link, &common, &alive).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = closed {
            tracing::warn!(
                %fault,
                "cameras: readers of dead nodes were not closed (may CLIENT LIST and CLIENT KILL be \
                 used?); one that comes back may put frames out of order"
            );
        }
        for shard in shards {
            self.grant(shard).await;
        }
    }

    /// Runs the lease script; one call in all, or one for each shard in a Cluster.
    async fn lease(
        &mut self,
        home: &str,
        actions: &[(ShardId, String)],
    ) -> Result<Vec<String>, Fault> {
        let common = Arc::clone(&self.common);
        let is_cluster = self.topology.as_ref().is_some_and(|topology| topology.is_cluster);
        let lasts = common.config.lease.as_millis().to_string();
        let mut commands = Pipeline::new();
        for part in actions.chunks(if is_cluster { 1 } else { actions.len().max(1) }) {
            let both = |(shard, _): &(ShardId, String)| {
                [common.shards.lease(*shard), common.shards.epoch(*shard)]
            };
            let mut keys: Vec<String> = part.iter().flat_map(both).collect();
            keys.extend((!is_cluster).then(|| common.shards.fence()));
            let mut call = LEASE.call(&keys);
            call.arg(&common.config.node).arg(&common.incarnation).arg(&lasts);
            for (_, action) in part {
                call.arg(action);
            }
            commands.add_command(call);
        }
        let mut tokens = Vec::with_capacity(actions.len());
        for value in self.link(home).await?.ask(&commands).await? {
            if let redis::Value::ServerError(error) = &value {
                return Err(Fault::of(error));
            }
            tokens.extend(list(value).unwrap_or_default().into_iter().filter_map(text));
        }
        if tokens.len() == actions.len() { Ok(tokens) } else { Err(Fault::Nonsense("few leases")) }
    }

    /// Begins to give back what is not to be ours any more.
    pub(super) async fn give_back(&mut self, wanted: &BTreeSet<ShardId>) -> Result<(), Fault> {
        let now = Instant::now();
        let mut overdue = Vec::new();
        let mut drain = Vec::new();
        for (shard, lease) in &mut self.leases {
            match lease.draining_since {
                None if !wanted.contains(shard) => {
                    lease.draining_since = Some(now);
                    drain.push((*shard, lease.home.clone()));
                }
                // What does not finish is left to the next owner.
                Some(since) if since + self.common.config.lease * 2 < now => overdue.push(*shard),
                _ => {}
            }
        }
        for (shard, home) in drain {
            self.send(&home, shard, Order::Drain(shard)).await;
        }
        for shard in overdue {
            tracing::warn!(%shard, "frames are left to the shard's next owner");
            self.release(shard).await?;
        }
        Ok(())
    }

    /// Gives a shard back to whoever takes it next.
    pub(super) async fn release(&mut self, shard: ShardId) -> Result<(), Fault> {
        let Some(lease) = self.leases.get(&shard) else { return Ok(()) };
        let action = (shard, format!("d{}", lease.token));
        let home = lease.home.clone();
        self.lose(shard).await;
        self.lease(&home, &[action]).await?;
        Ok(())
    }

    /// Forgets a shard that is not ours.
    pub(super) async fn lose(&mut self, shard: ShardId) {
        self.common.leases.set(shard, None);
        if let Some(lease) = self.leases.remove(&shard) {
            self.send(&lease.home, shard, Order::Forget(shard)).await;
        }
    }
}
