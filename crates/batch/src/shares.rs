//! Who holds how much of a full queue, and whose items give way.
//!
//! A queue is never full for everybody: where one client waits with most of it, the newest of its
//! items give way to those of whoever waits with less. First between clients; and where nobody
//! waits with more than the client itself, between its own keys. So whoever floods is refused, and
//! nobody else is.
//!
//! Kept only while it is needed: made when a queue is full, forgotten once it is half empty.

use rustc_hash::FxHashMap;

use crate::{Key, Limits, slot::ItemId, sorted::Sorted};

#[derive(Debug)]
pub(crate) struct Shares {
    queue_items: u64,
    queue_bytes: u64,
    clients: FxHashMap<u64, Client>,
    most: Sorted<(u64, u64)>,
}

/// One client's part of the queue.
#[derive(Debug)]
struct Client {
    load: u64,
    keys: FxHashMap<Key, Share>,
    most: Sorted<(u64, Key)>,
}

/// What of it has one key.
#[derive(Debug)]
struct Share {
    load: u64,
    /// By age, the oldest first.
    items: Sorted<ItemId>,
}

/// An item as it counts here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) client: u64,
    pub(crate) key: Key,
    pub(crate) bytes: usize,
}

impl Shares {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            queue_items: limits.queue_items.max(1) as u64,
            queue_bytes: limits.queue_bytes.max(1) as u64,
            clients: FxHashMap::default(),
            most: Sorted::new(),
        }
    }

    /// What an item takes of the queue: of its places and of its memory.
    pub(crate) fn weight(&self, bytes: usize) -> u64 {
        const WHOLE: u64 = 1 << 32;
        let memory = u128::from(WHOLE) * bytes as u128 / u128::from(self.queue_bytes);
        WHOLE / self.queue_items + u64::try_from(memory).unwrap_or(WHOLE)
    }

    pub(crate) fn enter(&mut self, id: ItemId, part: Part) {
        let weight = self.weight(part.bytes);
        let client = self.clients.entry(part.client).or_insert_with(Client::new);
        rank(&mut self.most, &mut client.load, part.client, |load| load + weight);
        let share = client.keys.entry(part.key).or_insert_with(Share::new);
        rank(&mut client.most, &mut share.load, part.key, |load| load + weight);
        share.items.insert(id);
    }

    pub(crate) fn leave(&mut self, id: ItemId, part: Part) {
        let weight = self.weight(part.bytes);
        let Some(client) = self.clients.get_mut(&part.client) else { return };
        rank(&mut self.most, &mut client.load, part.client, |load| load - weight);
        let Some(share) = client.keys.get_mut(&part.key) else { return };
        rank(&mut client.most, &mut share.load, part.key, |load| load - weight);
        share.items.remove(&id);
        if share.load == 0 {
            client.keys.remove(&part.key);
        }
        if client.load == 0 {
            self.clients.remove(&part.client);
        }
    }

    /// Whose items give way to a new one, the newest first, and how much of them may: afterwards
    /// they still have no less than the new one's. `None` where nobody waits with so much more.
    pub(crate) fn who_gives_way(
        &self,
        new: Part,
    ) -> Option<(impl Iterator<Item = ItemId> + '_, u64)> {
        let weight = self.weight(new.bytes);
        let &(theirs, name) = self.most.last()?;
        let own = self.clients.get(&new.client);
        let mine = own.map_or(0, |client| client.load) + weight;
        let client = self.clients.get(&name)?;
        let (client, excess) = match theirs.checked_sub(mine) {
            Some(excess) if name != new.client => (client, excess),
            _ => {
                let own = own?;
                let mine = own.keys.get(&new.key).map_or(0, |share| share.load) + weight;
                (own, own.most.last()?.0.checked_sub(mine)?)
            }
        };
        let share = client.keys.get(&client.most.last()?.1)?;
        Some((share.items.newest(), excess))
    }
}

impl Client {
    fn new() -> Self {
        Self { load: 0, keys: FxHashMap::default(), most: Sorted::new() }
    }
}

impl Share {
    const fn new() -> Self {
        Self { load: 0, items: Sorted::new() }
    }
}

/// Changes a load, and keeps the ranking true. Whoever has nothing is in no ranking.
fn rank<N: Ord + Copy>(
    most: &mut Sorted<(u64, N)>,
    load: &mut u64,
    name: N,
    change: impl FnOnce(u64) -> u64,
) {
    if *load != 0 {
        most.remove(&(*load, name));
    }
    *load = change(*load);
    if *load != 0 {
        most.insert((*load, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    #[test]
    fn an_item_weighs_its_part_of_the_places_and_of_the_memory() {
        let settings = Settings {
            max_items: Some(4),
            queue_items: Some(8),
            queue_bytes: Some(100),
            ..Settings::default()
        };
        let shares = Shares::new(&settings.validate().unwrap());
        let place = shares.weight(0);

        assert_eq!(shares.weight(100), place + 8 * place, "all of the memory is all of the places");
        assert_eq!(shares.weight(25), place + 2 * place);
    }
}
