//! The address at which a node listens for other hosts, as it tells its peers on this host.
//!
//! A caller that is given an address of this host looks for a node of the right name by its socket. The two may be
//! unrelated: the address may belong to a tunnel. Invariant: a node is found at an address only if a connection to
//! that address would have reached the node's own port.

use crate::fault::Rule;
use crate::record::Fields;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::num::NonZeroU64;

/// The name of the record's field.
const FIELD: &str = "listening address";

/// The address at which a node listens for callers of other hosts.
///
/// ```
/// use std::num::NonZeroU64;
/// use upbeat_core::hello::Listening;
///
/// let network = NonZeroU64::new(7).unwrap();
/// let at = |text: &str| text.parse().unwrap();
/// let everywhere = Listening::new(at("0.0.0.0:7411"), false, network);
/// assert!(everywhere.takes(at("192.168.0.7:7411"), network));
/// assert!(!everywhere.takes(at("192.168.0.7:7412"), network), "another port");
/// let loopback = Listening::new(at("127.0.0.1:7411"), false, network);
/// assert!(!loopback.takes(at("192.168.0.7:7411"), network), "another address");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    ip: IpAddr,
    port: u16,
    /// Whether callers over IPv4 reach the port of an IPv6 address too.
    also_ipv4: bool,
    network: NonZeroU64,
}

impl Listening {
    /// Describes a socket that listens at an address in this network namespace. `also_ipv4` says whether a socket
    /// of IPv6 accepts callers over IPv4.
    pub fn new(at: SocketAddr, also_ipv4: bool, network: NonZeroU64) -> Listening {
        let also_ipv4 = also_ipv4 && at.is_ipv6();
        Listening { ip: at.ip(), port: at.port(), also_ipv4, network }
    }

    /// Returns whether a caller in this network namespace that connects to this address of its own host reaches
    /// the socket.
    pub fn takes(&self, at: SocketAddr, network: NonZeroU64) -> bool {
        let (ours, theirs) = (self.ip.to_canonical(), at.ip().to_canonical());
        let reaches = match (ours, theirs) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => ours.is_unspecified() || ours == theirs,
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => ours.is_unspecified() || ours == theirs,
            (IpAddr::V6(ours), IpAddr::V4(_)) => ours.is_unspecified() && self.also_ipv4,
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        };
        reaches && self.port == at.port() && self.network == network
    }

    /// Writes the address at which a node listens, or that there is none.
    pub(super) fn write(listening: Option<&Listening>, out: &mut Vec<u8>) {
        let Some(Listening { ip, port, also_ipv4, network }) = listening else {
            return out.push(0);
        };
        match ip {
            IpAddr::V4(ip) => {
                out.push(4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(6);
                out.extend_from_slice(&ip.octets());
                out.push(u8::from(*also_ipv4));
            }
        }
        out.extend_from_slice(&port.to_le_bytes());
        out.extend_from_slice(&network.get().to_le_bytes());
    }

    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Option<Listening>, Rule> {
        let wrong = Rule::RecordField { field: FIELD };
        let (ip, also_ipv4) = match fields.u8(FIELD)? {
            0 => return Ok(None),
            4 => (IpAddr::V4(Ipv4Addr::from(fields.u32(FIELD)?.to_le_bytes())), false),
            6 => {
                let ip = IpAddr::V6(Ipv6Addr::from(fields.u128(FIELD)?.to_le_bytes()));
                let also_ipv4 = match fields.u8(FIELD)? {
                    0 => false,
                    1 => true,
                    _ => return Err(wrong),
                };
                (ip, also_ipv4)
            }
            _ => return Err(wrong),
        };
        let port = fields.u16(FIELD)?;
        let network = NonZeroU64::new(fields.u64(FIELD)?).ok_or(wrong)?;
        Ok(Some(Listening { ip, port, also_ipv4, network }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_accepts_the_addresses_that_a_connection_would_reach() {
        let network = |number| NonZeroU64::new(number).unwrap();
        let takes = |listens: &str, also_ipv4, dialled: &str, theirs| {
            let listening = Listening::new(listens.parse().unwrap(), also_ipv4, network(1));
            listening.takes(dialled.parse().unwrap(), network(theirs))
        };
        for (listens, also_ipv4, dialled) in [
            ("127.0.0.1:7", false, "127.0.0.1:7"),
            ("0.0.0.0:7", false, "10.0.0.1:7"),
            ("0.0.0.0:7", false, "[::ffff:10.0.0.1]:7"),
            ("[::ffff:10.0.0.1]:7", false, "10.0.0.1:7"),
            ("[::1]:7", false, "[::1]:7"),
            ("[::]:7", false, "[fd00::2]:7"),
            ("[::]:7", true, "10.0.0.1:7"),
        ] {
            assert!(takes(listens, also_ipv4, dialled, 1), "{listens} {dialled}");
            assert!(!takes(listens, also_ipv4, dialled, 2), "{listens} {dialled}: another network");
            let elsewhere = dialled.replace(":7", ":8");
            assert!(!takes(listens, also_ipv4, &elsewhere, 1), "{listens} {elsewhere}");
        }
        for (listens, also_ipv4, dialled) in [
            ("127.0.0.1:7", false, "127.0.0.2:7"),
            ("127.0.0.1:7", false, "10.0.0.1:7"),
            ("127.0.0.1:7", false, "[::1]:7"),
            ("0.0.0.0:7", true, "[::1]:7"),
            ("[::1]:7", true, "127.0.0.1:7"),
            ("[::]:7", false, "127.0.0.1:7"),
        ] {
            assert!(!takes(listens, also_ipv4, dialled, 1), "{listens} {dialled}");
        }
    }
}
