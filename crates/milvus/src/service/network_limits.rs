//! How much of the network clients may have, and which addresses are one client.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// A request that comes more slowly is given up, and an answer that is taken more slowly.
pub(super) const LEAST_BYTES_PER_S: u64 = 32 << 10;
/// Connections where the system does not bound descriptors.
const MOST: usize = 65_536;

/// How much of the network clients may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLimits {
    /// Connections of all clients; three quarters of the descriptors unless given.
    pub connections: Option<usize>,
    /// Connections of one address; of IPv6, of one network of 64 bits.
    pub of_address: usize,
    /// How long a connection may take to begin to speak, encrypted or not.
    pub handshake: Duration,
    /// How long a connection stays that makes no call.
    pub first_call: Duration,
    /// How long a request may take to come, and an answer to be taken by the client; more by a second
    /// for each 32 KiB of it that did.
    pub request: Duration,
    /// How long a connection is busy with an answer of which its client takes nothing; then it may give way.
    pub untaken: Duration,
    /// How long a client says nothing before it is asked whether it is there.
    pub keep_alive: Duration,
}

impl Default for NetworkLimits {
    fn default() -> Self {
        Self {
            connections: None,
            of_address: 2_000,
            handshake: Duration::from_secs(10),
            first_call: Duration::from_secs(60),
            request: Duration::from_secs(30),
            untaken: Duration::from_secs(5),
            keep_alive: Duration::from_secs(60),
        }
    }
}

impl NetworkLimits {
    /// Connections of all clients.
    pub(super) fn all(&self) -> usize {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let most = (descriptors / 4).saturating_mul(3).min(MOST);
        self.connections.map_or(most, |asked| asked.min(most)).max(1)
    }
}

/// The network of an address that counts as one client: whoever has IPv6 mostly has 64 bits of it.
pub(super) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ipv6_count_by_network() {
        let network = |address: &str| network_of(address.parse().unwrap());
        assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff::7"));
        assert_ne!(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    }
}
