//! Dead letters: frames that will never have a result, kept with the reason.

use paceline_frames::Label;
use redis::Pipeline;

use crate::{
    common::Common,
    entry::EntryId,
    link::{Fault, Link, REPLAY, list, pairs, text},
    shard::ShardId,
    topology::Topology,
};

/// One dead letter, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The shard whose dead letter it is.
    pub shard: ShardId,
    /// Its own id, by which it is replayed.
    pub id: EntryId,
    /// The camera, where the frame named one.
    pub camera: Option<String>,
    /// The stream it came from.
    pub stream: String,
    /// The frame's id in that stream.
    pub frame: String,
    /// Why it is here.
    pub reason: String,
    /// How often it was tried.
    pub tries: u32,
    /// Bytes that are kept of it.
    pub bytes: usize,
}

impl DeadLetter {
    /// What people call it: its shard and its id.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}:{}", self.shard, self.id)
    }

    /// The shard and the id of a name.
    #[must_use]
    pub fn parse_name(name: &str) -> Option<(ShardId, EntryId)> {
        let (shard, id) = name.split_once(':')?;
        Some((ShardId(shard.strip_prefix('s')?.parse().ok()?), id.parse().ok()?))
    }
}

/// One dead letter.
pub(crate) async fn dead_letter(
    common: &Common,
    shard: ShardId,
    id: EntryId,
) -> Result<Option<DeadLetter>, Fault> {
    if common.shards.count() <= shard.index() {
        return Ok(None);
    }
    let dead = common.shards.dead(shard);
    let mut link = open(common, &dead).await?;
    let mut range = redis::cmd("XRANGE");
    range.arg(&dead).arg(id.to_string()).arg(id.to_string());
    let found = list(link.ask_one(range).await?).unwrap_or_default();
    Ok(found.into_iter().find_map(|value| letter(shard, value)))
}

/// A connection to the server on which a key lives.
async fn open(common: &Common, key: &str) -> Result<Link, Fault> {
    let config = &common.config;
    let topology = Topology::discover(&common.address, None, config.timeout).await?;
    let missing = || Fault::Refused("CLUSTERDOWN nobody serves the slot".to_owned());
    let server = topology.home(key).and_then(|home| topology.servers.get(home));
    Link::open(server.ok_or_else(missing)?, config.timeout).await
}

/// The oldest dead letters of all shards, at most `most` of each.
pub(crate) async fn dead_letters(common: &Common, most: usize) -> Result<Vec<DeadLetter>, Fault> {
    let config = &common.config;
    let topology = Topology::discover(&common.address, None, config.timeout).await?;
    let mut letters = Vec::new();
    for (address, server) in &topology.servers {
        let mut link = Link::open(server, config.timeout).await?;
        let key = |shard: &ShardId| common.shards.dead(*shard);
        let here = common.shards.all().filter(|shard| topology.home(&key(shard)) == Some(address));
        for shard in here {
            let mut range = redis::cmd("XRANGE");
            range.arg(key(&shard)).arg("-").arg("+").arg("COUNT").arg(most);
            for value in list(link.ask_one(range).await?).unwrap_or_default() {
                letters.extend(letter(shard, value));
            }
        }
    }
    letters.sort_by_key(|letter| letter.id);
    Ok(letters)
}

/// Puts a dead letter back at the end of its stream. `None` where there is no such letter any more.
pub(crate) async fn replay(common: &Common, letter: &DeadLetter) -> Result<Option<String>, Fault> {
    let dead = common.shards.dead(letter.shard);
    let mut link = open(common, &dead).await?;
    let keys = [dead, letter.stream.clone(), common.shards.ledger(letter.shard)];
    let mut call = REPLAY.call(&keys);
    call.arg(letter.id.to_string());
    let id = text(link.ask_one(call).await?).filter(|id| !id.is_empty());
    Ok(id)
}

/// Removes dead letters for good; says how many there were.
pub(crate) async fn purge(common: &Common, letters: &[DeadLetter]) -> Result<u64, Fault> {
    let config = &common.config;
    let topology = Topology::discover(&common.address, None, config.timeout).await?;
    let mut n = 0;
    for (address, server) in &topology.servers {
        let mut commands = Pipeline::new();
        for letter in letters {
            let key = common.shards.dead(letter.shard);
            if topology.home(&key) == Some(address) {
                commands.cmd("XDEL").arg(key).arg(letter.id.to_string());
            }
        }
        let mut link = Link::open(server, config.timeout).await?;
        let removed = link.ask(&commands).await?;
        n += removed.iter().filter_map(crate::link::number).sum::<u64>();
    }
    Ok(n)
}

fn letter(shard: ShardId, value: redis::Value) -> Option<DeadLetter> {
    let mut parts = list(value)?.into_iter();
    let id = text(parts.next()?)?.parse().ok()?;
    let fields = pairs(parts.next()?)?;
    let field = |name: &[u8]| {
        let found = fields.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    Some(DeadLetter {
        shard,
        id,
        camera: field(b"k")
            .and_then(|label| Some(label.parse::<Label>().ok()?.camera))
            .or_else(|| field(b"c")),
        stream: field(b"_stream")?,
        frame: field(b"_id")?,
        reason: field(b"_reason")?,
        tries: field(b"_tries")?.parse().unwrap_or(0),
        bytes: fields
            .iter()
            .filter(|(name, _)| !name.starts_with(b"_"))
            .map(|(name, value)| name.len() + value.len())
            .sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    /// A dead letter as Redis has it.
    fn entry(fields: &[(&str, &str)]) -> Value {
        let about = [("_stream", "a"), ("_id", "5-0"), ("_reason", "why"), ("_tries", "3")];
        let fields = about.iter().chain(fields).flat_map(|(name, value)| [text(name), text(value)]);
        Value::Array(vec![text("7-1"), Value::Array(fields.collect())])
    }

    #[test]
    fn a_letter_says_what_is_kept_of_its_frame() {
        let id = EntryId { millis: 7, number: 1 };
        let expected = DeadLetter {
            shard: ShardId(17),
            id,
            camera: Some("door".to_owned()),
            stream: "a".to_owned(),
            frame: "5-0".to_owned(),
            reason: "why".to_owned(),
            tries: 3,
            bytes: 0,
        };

        let labelled = letter(ShardId(17), entry(&[("k", "7 55 door"), ("d", "x")]));
        assert_eq!(labelled, Some(DeadLetter { bytes: 1 + 9 + 2, ..expected.clone() }));
        let named = letter(ShardId(17), entry(&[("c", "door"), ("d", "xyz")]));
        assert_eq!(named, Some(DeadLetter { bytes: 1 + 4 + 4, ..expected.clone() }));
        let nothing = letter(ShardId(17), entry(&[]));
        assert_eq!(nothing, Some(DeadLetter { camera: None, bytes: 0, ..expected.clone() }));
        assert_eq!(letter(ShardId(17), Value::Array(vec![text("7-1"), Value::Nil])), None);
        assert_eq!(expected.name(), "s017:7-1");
        assert_eq!(DeadLetter::parse_name(&expected.name()), Some((ShardId(17), id)));
    }

    #[test]
    fn what_is_no_name_of_a_letter_is_none() {
        for name in ["", "s017", "017:7-1", "s:7-1", "s017:7", "s99999:7-1"] {
            assert_eq!(DeadLetter::parse_name(name), None, "{name}");
        }
    }
}
