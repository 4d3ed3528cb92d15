//! Which shard a camera belongs to, and what a shard's keys are called.
//!
//! A shard is a number below [`Shards::count`]. A camera belongs to the shard
//! `SipHash-1-3(key = 0, 0; camera id in UTF-8) mod count`, whoever asks: producers, every node, and
//! the next version of this program. The hash is fixed and is tested with known answers.
//!
//! All keys of shard 17 hold the hash tag `{s017}`, so in a Redis Cluster they live in one slot and
//! one script may touch all of them.

use std::{fmt, hash::Hasher as _, num::NonZeroU16};

use siphasher::sip::SipHasher13;

/// One shard's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// Most shards there may be.
pub const MAX_SHARDS: u16 = 4096;

impl ShardId {
    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{:03}", self.0)
    }
}

/// How many shards there are, and what their keys begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards {
    prefix: String,
    count: NonZeroU16,
}

impl Shards {
    /// `count` shards whose keys begin with `prefix`.
    #[must_use]
    pub const fn new(prefix: String, count: NonZeroU16) -> Self {
        Self { prefix, count }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.count.get())
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.count.get()).map(ShardId)
    }

    /// The shard a camera belongs to.
    #[must_use]
    pub fn of(&self, camera: &str) -> ShardId {
        let place = stable_hash(camera.as_bytes()) % u64::from(self.count.get());
        ShardId(u16::try_from(place).unwrap_or(0))
    }

    /// The stream that producers add a shard's frames to.
    #[must_use]
    pub fn frames(&self, shard: ShardId) -> String {
        self.key(shard, "frames")
    }

    /// The stream that a shard's results are added to.
    #[must_use]
    pub fn results(&self, shard: ShardId) -> String {
        self.key(shard, "results")
    }

    /// The stream of a shard's dead letters.
    #[must_use]
    pub fn dead(&self, shard: ShardId) -> String {
        self.key(shard, "dead")
    }

    /// Who owns a shard: `node:epoch`, gone when the owner stops renewing it.
    #[must_use]
    pub fn lease(&self, shard: ShardId) -> String {
        self.key(shard, "lease")
    }

    /// How many owners a shard has had.
    #[must_use]
    pub fn epoch(&self, shard: ShardId) -> String {
        self.key(shard, "epoch")
    }

    /// What became of frames so far, a hash of counts. A commit over several shards counts in one.
    #[must_use]
    pub fn ledger(&self, shard: ShardId) -> String {
        self.key(shard, "ledger")
    }

    /// One more than how many frames of a shard's stream were settled, or of the own stream of a
    /// camera.
    #[must_use]
    pub fn settled(&self, shard: ShardId, camera: Option<&str>) -> String {
        let key = self.key(shard, "settled");
        camera.map_or_else(|| key.clone(), |camera| format!("{key}:{camera}"))
    }

    /// Which lease was taken last, where all shards are on one server: while it stays the same, no
    /// shard has changed hands.
    #[must_use]
    pub fn fence(&self) -> String {
        format!("{}:fence", self.prefix)
    }

    /// The nodes that are alive, a sorted set by when each is given up.
    #[must_use]
    pub fn nodes(&self) -> String {
        format!("{}:nodes", self.prefix)
    }

    fn key(&self, shard: ShardId, kind: &str) -> String {
        format!("{}:{{{shard}}}:{kind}", self.prefix)
    }
}

/// The one hash that places cameras and nodes. Never change it: frames that are waiting would be
/// looked for in other streams.
#[must_use]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    hasher.write(bytes);
    hasher.finish()
}

/// The slot of a key in a Redis Cluster: CRC16 (XMODEM) of its hash tag, of 16384.
#[must_use]
pub fn slot(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    let mut crc = 0_u16;
    for &byte in tag.unwrap_or(key).as_bytes() {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shards(count: u16) -> Shards {
        Shards::new("paceline".to_owned(), NonZeroU16::new(count).unwrap())
    }

    #[test]
    fn a_camera_is_where_it_always_was() {
        let shards = shards(256);
        let places: Vec<u16> = ["cam-0", "cam-1", "door", "Straße 7"]
            .iter()
            .map(|camera| shards.of(camera).0)
            .collect();

        assert_eq!(places, [142, 229, 186, 7]);
        assert_eq!(shards.frames(ShardId(17)), "paceline:{s017}:frames");
    }

    #[test]
    fn slots_are_redis_clusters() {
        for (key, expected) in
            [("123456789", 12739), ("foo", 12182), ("{foo}x", 12182), ("a{}b", 13694)]
        {
            assert_eq!(slot(key), expected, "{key}");
        }
    }

    #[test]
    fn a_thousand_cameras_spread_over_all_shards() {
        let shards = shards(256);
        let mut counts = vec![0_u32; 256];
        for camera in 0..10_000 {
            counts[shards.of(&format!("cam-{camera}")).index()] += 1;
        }

        assert!(counts.iter().all(|&count| (15..75).contains(&count)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn a_shards_keys_share_a_slot(shard in 0_u16..4096) {
            let (shards, shard) = (shards(4096), ShardId(shard));
            let expected = slot(&shards.frames(shard));
            for key in [shards.results(shard), shards.dead(shard), shards.lease(shard),
                        shards.epoch(shard), shards.ledger(shard), shards.settled(shard, None),
                        shards.settled(shard, Some("door {3}"))] {
                prop_assert_eq!(slot(&key), expected);
            }
        }
    }
}
