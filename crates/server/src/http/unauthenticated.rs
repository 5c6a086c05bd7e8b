//! Unauthenticated connections: bounded in total and per address, the oldest closed first.
//!
//! A connection is unauthenticated until it has presented a valid client certificate or sent a request with a valid
//! token. Anyone can open such connections, so a new one is always accepted, at the expense of the oldest: a flood of
//! bare TCP connections cannot keep out a client that completes its handshake promptly.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Share of the bound that one address may take: a half, since many clients may come from behind one address.
const ADDRESS_SHARE: usize = 2;

/// The unauthenticated connections that are open.
pub(super) struct UnauthenticatedConnections {
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    /// By age. Dropping the sender closes the connection.
    open: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
    /// Connections of each address, by age.
    by_address: BTreeMap<(IpAddr, u64), ()>,
    counts: BTreeMap<IpAddr, usize>,
}

impl State {
    fn remove(&mut self, id: u64) {
        let Some((address, _close)) = self.open.remove(&id) else { return };
        self.by_address.remove(&(address, id));
        if let Some(count) = self.counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&address);
            }
        }
    }
}

/// Membership of one connection. It ends when it is dropped, at the latest.
pub(super) struct Membership {
    of: Arc<UnauthenticatedConnections>,
    id: u64,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.of.state.lock().remove(self.id);
    }
}

impl UnauthenticatedConnections {
    pub fn new(max: usize) -> Arc<UnauthenticatedConnections> {
        Arc::new(UnauthenticatedConnections { max: max.max(1), state: Mutex::default() })
    }

    /// Registers a new connection, and closes the oldest of its address or of all if there are too many. The receiver
    /// resolves when the connection has to close, or when its membership ends.
    ///
    /// Returns how many connections were closed for it.
    pub fn join(
        self: &Arc<UnauthenticatedConnections>,
        address: IpAddr,
    ) -> (Membership, oneshot::Receiver<()>, u64) {
        let (close, closed) = oneshot::channel();
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        let mut evicted = 0;
        let of_address = state.counts.get(&address).copied().unwrap_or(0);
        if of_address >= (self.max / ADDRESS_SHARE).max(1) {
            let oldest = state.by_address.range((address, 0)..).next().map(|((_, id), ())| *id);
            oldest.into_iter().for_each(|oldest| state.remove(oldest));
            evicted += 1;
        } else if state.open.len() >= self.max {
            let oldest = state.open.keys().next().copied();
            oldest.into_iter().for_each(|oldest| state.remove(oldest));
            evicted += 1;
        }
        state.open.insert(id, (address, close));
        state.by_address.insert((address, id), ());
        *state.counts.entry(address).or_default() += 1;
        drop(state);
        (Membership { of: Arc::clone(self), id }, closed, evicted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn address(number: u8) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, number))
    }

    fn is_closed(closed: &mut oneshot::Receiver<()>) -> bool {
        closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn oldest_connection_of_an_address_makes_room_for_its_next() {
        let all = UnauthenticatedConnections::new(4);
        let (_other, mut other_closed, _) = all.join(address(9));
        let mut own: Vec<_> = (0..3).map(|_| all.join(ONE)).collect();
        assert!(is_closed(&mut own[0].1), "an address has two of four");
        assert!(!is_closed(&mut own[1].1) && !is_closed(&mut own[2].1) && !is_closed(&mut other_closed));
        assert_eq!(own.iter().map(|joined| joined.2).collect::<Vec<_>>(), [0, 0, 1]);
    }

    #[test]
    fn oldest_connection_of_all_makes_room_when_many_addresses_flood() {
        let all = UnauthenticatedConnections::new(4);
        let mut joined: Vec<_> = (0..6).map(|number| all.join(address(number))).collect();
        let closed: Vec<bool> = joined.iter_mut().map(|(_, closed, _)| is_closed(closed)).collect();
        assert_eq!(closed, [true, true, false, false, false, false]);
    }

    #[test]
    fn authenticated_connection_takes_no_room() {
        let all = UnauthenticatedConnections::new(4);
        for _ in 0..100 {
            let (membership, _, evicted) = all.join(ONE);
            assert_eq!(evicted, 0);
            drop(membership);
        }
        let state = all.state.lock();
        assert!(state.open.is_empty() && state.by_address.is_empty() && state.counts.is_empty());
    }
}
