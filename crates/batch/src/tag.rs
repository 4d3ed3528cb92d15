//! What the batcher is told about an item. The item itself it never looks at.

use std::time::Duration;

use crate::Key;

/// How urgent an item is, from [`HIGH`](Priority::HIGH) down to [`LOWEST`](Priority::LOWEST).
///
/// A lower level waits longer, but never for ever: each level down counts as having arrived one
/// `patience` later (see [`Limits`](crate::Limits)), so an old item overtakes newer urgent ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Before everything else.
    pub const HIGH: Self = Self(0);
    /// What an item has unless it says otherwise.
    pub const NORMAL: Self = Self(1);
    /// After normal ones.
    pub const LOW: Self = Self(2);
    /// The last level.
    pub const LOWEST: Self = Self(7);

    /// The level with this number, 0 for the highest; numbers past the last mean the last.
    #[must_use]
    pub fn level(number: u64) -> Self {
        u8::try_from(number).map_or(Self::LOWEST, |number| Self(number).min(Self::LOWEST))
    }

    /// The number of this level.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NORMAL
    }
}

/// What the batcher is told about an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// Items with different keys never share a call.
    pub key: Key,
    /// How long the item is along the axis that gets padded; 0 where nothing is padded.
    pub length: u32,
    /// How many rows of a batch the item takes; a batch's size is counted in rows.
    pub rows: u32,
    /// What the item costs, in any unit that [`max_cost`](crate::Limits) is given in.
    pub cost: u64,
    /// Memory that the item holds while it waits.
    pub bytes: usize,
    /// How urgent it is.
    pub priority: Priority,
    /// How long its answer is worth waiting for, counted from when it is accepted. `None` means
    /// the limits' default.
    pub timeout: Option<Duration>,
    /// By when its answer is wanted, counted from when it is accepted, where that is later than at
    /// once. It may wait for company until then and goes after what is wanted sooner, but it is
    /// never dropped for being late: somebody who listens would rather hear a gap than nothing.
    /// The fixed policy does not look at it.
    pub wanted: Option<Duration>,
    /// Whose item it is. Streams that wait in one queue get equal shares of it; items without a
    /// stream are each on their own.
    pub stream: Option<u64>,
    /// Who asks, where that one can be told to come again later. When there is no room, the newest
    /// item of the client that waits with most gives way to one of a client that waits with less,
    /// and likewise between one client's keys. Items without a client give way to nobody.
    pub client: Option<u64>,
}

impl Default for Tag {
    fn default() -> Self {
        Self {
            key: Key::ANY,
            length: 0,
            rows: 1,
            cost: 1,
            bytes: 0,
            priority: Priority::NORMAL,
            timeout: None,
            wanted: None,
            stream: None,
            client: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_is_its_number_up_to_the_lowest() {
        let number = |level| Priority::level(level).number();

        assert_eq!([0, 1, 2, 7, 8, 300].map(number), [0, 1, 2, 7, 7, 7]);
    }
}
