//! Which Redis server a shard lives on: the one there is, or the masters of a Cluster.

use std::{collections::BTreeMap, time::Duration};

use paceline_frames::Address;
use redis::Value;

use crate::{
    link::{Fault, Link, list, number, text},
    shard::slot,
};

/// Servers and the slots each serves.
#[derive(Debug, Clone)]
pub(crate) struct Topology {
    /// Whether it is a Cluster, in which one command may touch one slot.
    pub(crate) is_cluster: bool,
    /// By address.
    pub(crate) servers: BTreeMap<String, Address>,
    /// First slot, last slot, address.
    slots: Vec<(u16, u16, String)>,
}

impl Topology {
    /// The address of the server on which a key lives.
    pub(crate) fn home(&self, key: &str) -> Option<&str> {
        let slot = slot(key);
        let found = self.slots.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        found.map(|(_, _, address)| &**address)
    }

    /// Finds it out from any server that answers: those known before, then the one configured.
    pub(crate) async fn discover(
        configured: &Address,
        known: Option<&Self>,
        timeout: Duration,
    ) -> Result<Self, Fault> {
        let mut fault = None;
        let known = known.filter(|known| known.is_cluster);
        let candidates = known.into_iter().flat_map(|known| known.servers.values());
        for server in std::iter::once(configured).chain(candidates) {
            match Self::ask(server, timeout).await {
                Ok(topology) => return Ok(topology),
                Err(error) => fault = Some(error),
            }
        }
        Err(fault.unwrap_or(Fault::Nonsense("nothing")))
    }

    async fn ask(server: &Address, timeout: Duration) -> Result<Self, Fault> {
        let mut link = Link::open(server, timeout).await?;
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        match link.ask_one(command).await {
            Ok(value) => Self::of_slots(server, value),
            // Not a Cluster, or not allowed to ask, which no Cluster's client would be.
            Err(Fault::Refused(_)) => {
                let address = server.to_string();
                Ok(Self {
                    is_cluster: false,
                    servers: BTreeMap::from([(address.clone(), server.clone())]),
                    slots: vec![(0, 16_383, address)],
                })
            }
            Err(fault) => Err(fault),
        }
    }

    fn of_slots(asked: &Address, value: Value) -> Result<Self, Fault> {
        let nonsense = || Fault::Nonsense("slots that cannot be read");
        let mut topology = Self { is_cluster: true, servers: BTreeMap::new(), slots: Vec::new() };
        for range in list(value).ok_or_else(nonsense)? {
            let mut parts = list(range).ok_or_else(nonsense)?.into_iter();
            let mut bound = || {
                let slot = number(&parts.next()?)?;
                u16::try_from(slot).ok()
            };
            let (first, last) = (bound().ok_or_else(nonsense)?, bound().ok_or_else(nonsense)?);
            let master = parts.next().and_then(list).ok_or_else(nonsense)?;
            let mut master = master.into_iter();
            let host = master.next().and_then(text).filter(|host| !host.is_empty());
            let port = master.next().as_ref().and_then(number);
            let port = port.and_then(|port| u16::try_from(port).ok()).ok_or_else(nonsense)?;
            let server = asked.at(host, port);
            let address = server.to_string();
            topology.servers.insert(address.clone(), server);
            topology.slots.push((first, last, address));
        }
        if topology.slots.is_empty() {
            return Err(Fault::Refused("CLUSTERDOWN no slot is served".to_owned()));
        }
        Ok(topology)
    }
}
