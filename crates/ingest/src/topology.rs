//! Which Redis server a shard lives on: the one there is, the master that Sentinels name, or the
//! masters of a Cluster.

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
        let server = &link.server().clone();
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

    pub(crate) fn of_slots(asked: &Address, value: Value) -> Result<Self, Fault> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    /// A range of slots and its master, as `CLUSTER SLOTS` lists them.
    fn range(first: i64, last: i64, host: &str, port: i64) -> Value {
        let master = Value::Array(vec![text(host), Value::Int(port), text("an id")]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master])
    }

    fn read(ranges: Vec<Value>) -> Result<Topology, Fault> {
        let asked = Config::default().address().unwrap();
        Topology::of_slots(&asked, Value::Array(ranges))
    }

    #[test]
    fn a_key_lives_where_its_slot_is_served() {
        let ranges = vec![
            range(0, 99, "10.0.0.1", 7001),
            range(100, 12_181, "10.0.0.2", 7002),
            range(12_182, 12_182, "10.0.0.3", 7003),
            range(12_183, 16_000, "10.0.0.1", 7001),
        ];
        let topology = read(ranges).unwrap();

        assert!(topology.is_cluster);
        assert_eq!(topology.servers.len(), 3);
        // "foo" is in slot 12182, "bar" in 5061, "hello" in 866, and "a" in 15495.
        for (key, port) in [("foo", "7003"), ("bar", "7002"), ("hello", "7002"), ("a", "7001")] {
            let home = topology.home(key).unwrap();
            assert!(home.contains(port), "{key} is on {home}");
            assert_eq!(topology.servers[home].to_string(), home);
        }
        let gaps = read(vec![range(0, 12_181, "10.0.0.1", 7001)]).unwrap();
        assert_eq!(gaps.home("foo"), None, "nobody serves it");
    }

    #[test]
    fn a_server_that_does_not_say_its_host_is_the_one_that_was_asked() {
        let topology = read(vec![range(0, 16_383, "", 7001)]).unwrap();

        let home = topology.home("foo").unwrap();
        assert!(home.contains("127.0.0.1") && home.contains("7001"), "{home}");
    }

    #[test]
    fn slots_that_cannot_be_read_are_not_guessed() {
        let is_nonsense = |range| matches!(read(vec![range]), Err(Fault::Nonsense(_)));
        assert!(is_nonsense(Value::Int(1)));
        assert!(is_nonsense(Value::Array(vec![Value::Int(0), Value::Int(1)])));
        assert!(is_nonsense(range(0, 70_000, "a", 1)));
        assert!(is_nonsense(range(-1, 1, "a", 1)));
        assert!(is_nonsense(range(0, 1, "a", 70_000)));
        let down = read(Vec::new()).unwrap_err();
        assert!(down.is_moved(), "{down}");
    }
}
