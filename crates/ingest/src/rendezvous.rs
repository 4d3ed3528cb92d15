//! Which node a shard belongs to: the one with the highest hash of both. Pure.
//!
//! All nodes that see the same members agree without talking. When one joins or leaves, only
//! shards that it gains or loses move.

use crate::shard::{ShardId, stable_hash};

/// The node that should own a shard.
pub(crate) fn owner(shard: ShardId, nodes: &[String]) -> Option<&str> {
    // The name decides between equals, so that everyone decides alike.
    nodes.iter().map(|node| (weight(node, shard), &**node)).max().map(|(_, node)| node)
}

fn weight(node: &str, shard: ShardId) -> u64 {
    stable_hash(&[node.as_bytes(), &[0], &shard.0.to_le_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes(n: usize) -> Vec<String> {
        (0..n).map(|node| format!("node-{node}")).collect()
    }

    proptest! {
        #[test]
        fn a_leaver_moves_only_its_own_shards(n in 2_usize..12, leaver in 0_usize..12) {
            let all = nodes(n);
            let leaver = leaver % n;
            let left: Vec<String> =
                all.iter().enumerate().filter(|(at, _)| *at != leaver).map(|(_, n)| n.clone()).collect();
            for shard in (0..256).map(ShardId) {
                let before = owner(shard, &all).unwrap();
                if before != all[leaver] {
                    prop_assert_eq!(owner(shard, &left), Some(before));
                }
            }
        }

        #[test]
        fn the_order_of_the_nodes_does_not_matter(n in 1_usize..8, shard in 0_u16..256) {
            let mut all = nodes(n);
            let first = owner(ShardId(shard), &all).unwrap().to_owned();
            all.reverse();
            prop_assert_eq!(owner(ShardId(shard), &all), Some(&*first));
        }
    }

    #[test]
    fn nodes_share_alike() {
        let all = nodes(4);
        for node in &all {
            let n = (0..256).filter(|&shard| owner(ShardId(shard), &all) == Some(node)).count();
            assert!((40..90).contains(&n), "{node} has {n}");
        }
    }
}
