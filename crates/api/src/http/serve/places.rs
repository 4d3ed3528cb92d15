//! How many connections there may be, in all and from one address.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one or more listeners.
#[derive(Debug)]
pub struct Places {
    free: Arc<Semaphore>,
    per_address: usize,
    /// Who has how many; those who have none are not in it.
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection's place, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    share: Share,
}

impl Place {
    /// Who has it: all of a neighbourhood are one.
    pub(super) const fn address(&self) -> IpAddr {
        self.share.address
    }
}

/// One of what an address may have.
#[derive(Debug)]
struct Share {
    address: IpAddr,
    places: Arc<Places>,
}

impl Places {
    /// So many in all, and so many from one address.
    #[must_use]
    pub fn new(total: usize, per_address: usize) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(total.min(Semaphore::MAX_PERMITS)));
        Arc::new(Self { free, per_address, taken: Mutex::default() })
    }

    /// A place, once there is one; `None` where this address has all that it may have.
    pub(super) async fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let share = self.share(neighbourhood(peer))?;
        let permit = Arc::clone(&self.free).acquire_owned().await.ok()?;
        Some(Place { _permit: permit, share })
    }

    fn share(self: &Arc<Self>, address: IpAddr) -> Option<Share> {
        let mut taken = self.taken.lock();
        let count = taken.get(&address).copied().unwrap_or_default();
        if count >= self.per_address {
            return None;
        }
        taken.insert(address, count + 1);
        Some(Share { address, places: Arc::clone(self) })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// Who an address belongs to. One household has a whole /64 of IPv6.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn one_address_has_its_share_and_others_have_theirs() {
        let places = Places::new(3, 2);
        let take = |address: &str| places.take(address.parse().unwrap()).now_or_never();
        let first = take("10.0.0.1").unwrap().unwrap();
        let _second = take("::ffff:10.0.0.1").unwrap().unwrap();
        assert!(take("10.0.0.1").unwrap().is_none(), "it is the same address in another form");
        let third = take("10.0.0.2").unwrap().unwrap();
        assert!(take("10.0.0.3").is_none(), "all are taken: wait");

        drop(first);
        assert!(take("10.0.0.3").unwrap().is_some());
        drop(third);
        assert!(take("10.0.0.1").unwrap().is_some());
        assert_eq!(places.taken.lock().len(), 1, "who is gone is forgotten");
    }

    #[test]
    fn a_household_of_ipv6_is_one() {
        let places = Places::new(9, 1);
        let take = |address: &str| places.take(address.parse().unwrap()).now_or_never().unwrap();
        let _held = take("2001:db8:0:1::1").unwrap();
        assert!(take("2001:db8:0:1:ffff::2").is_none());
        assert!(take("2001:db8:0:2::1").is_some());
    }
}
