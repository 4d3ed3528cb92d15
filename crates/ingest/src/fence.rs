//! Keeps a node that lost its shards without knowing it from reading on.
//!
//! Commits are fenced (`scripts/commit.lua`), but a read has an effect too: what was read once is not
//! read again, but has to be looked for. A process that was stopped between looking at its lease and
//! sending its read would take entries away under the next owner. So readers' connections carry a name,
//! and whoever takes a shard closes the connections of nodes that are not alive before it reads. A
//! reader that connects again looks first whether its shards are still its own.

use redis::Value;

use crate::{
    common::Common,
    link::{Fault, Link, text},
    shard::stable_hash,
};

/// The name of all connections on which this process reads.
pub(crate) fn name(common: &Common) -> String {
    format!("{}{}", of_node(common, &common.config.node), common.incarnation)
}

/// What the names of a node's connections begin with, in letters that a name may have.
fn of_node(common: &Common, node: &str) -> String {
    format!("{}{:016x}-", of_all(common), stable_hash(node.as_bytes()))
}

/// What the names of all connections that read these streams begin with.
fn of_all(common: &Common) -> String {
    let kind = format!("{}\0{}", common.config.prefix, common.config.group);
    format!("paceline-reader-{:016x}-", stable_hash(kind.as_bytes()))
}

/// Closes the reading connections of nodes that are not alive, and of earlier processes of this
/// node. One that is closed by mistake, because its node came to life just now, is opened again.
pub(crate) async fn close_readers_of_the_dead(
    link: &mut Link,
    common: &Common,
    alive: &[String],
) -> Result<(), Fault> {
    let mut command = redis::cmd("CLIENT");
    command.arg("LIST").arg("TYPE").arg("normal");
    let clients = match link.ask_one(command).await? {
        Value::VerbatimString { text, .. } => text,
        value => text(value).unwrap_or_default(),
    };
    let others = alive.iter().filter(|node| **node != common.config.node);
    let mut may_read: Vec<String> = others.map(|node| of_node(common, node)).collect();
    may_read.push(name(common));
    let all = of_all(common);
    for client in clients.lines() {
        let field = |wanted: &str| {
            client.split(' ').find_map(|field| field.strip_prefix(wanted)).unwrap_or_default()
        };
        let name = field("name=");
        if name.starts_with(&all) && !may_read.iter().any(|own| name.starts_with(own)) {
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("ID").arg(field("id="));
            link.ask_one(kill).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Config;

    fn common(node: &str, group: &str) -> Common {
        let config = Config { node: node.to_owned(), group: group.to_owned(), ..Config::default() };
        let address = config.address().unwrap();
        Common::new(config, address, Arc::default())
    }

    #[test]
    fn a_connections_name_tells_its_streams_its_node_and_its_process() {
        let (first, again) = (common("a", "g"), common("a", "g"));
        let (other, elsewhere) = (common("b", "g"), common("a", "h"));

        assert_ne!(name(&first), name(&again), "another process");
        assert!(name(&first).starts_with(&of_node(&again, "a")));
        assert!(!name(&other).starts_with(&of_node(&first, "a")), "another node");
        assert!(name(&other).starts_with(&of_all(&first)));
        assert!(!name(&elsewhere).starts_with(&of_all(&first)), "other streams");
        assert!(name(&first).starts_with("paceline-reader-"));
        assert!(name(&first).bytes().all(|byte| byte.is_ascii_graphic()));
    }
}
