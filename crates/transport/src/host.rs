//! Questions to this host's network: whether an address is the host's own, and to which network it belongs.
//!
//! Invariant: an address of which the system says nothing counts as another host's, because a connection leads to its
//! node in any case.

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use upbeat_core::hello::Listening;
use upbeat_environment::network::address_in_world;

/// The request for the route to an address (`RTM_GETROUTE`).
const GET_ROUTE: u16 = 26;
/// The reply (`RTM_NEWROUTE`).
const ROUTE: u16 = 24;
const REQUEST: u16 = 1;
/// The attribute that holds the address (`RTA_DST`).
const DESTINATION: u16 = 1;
/// The type of a route to the host itself (`RTN_LOCAL`).
const LOCAL: u8 = 2;
/// The size of a message's head, and the offset of the type in the route behind it.
const HEAD_BYTES: usize = 16;
const TYPE_OFFSET: usize = HEAD_BYTES + 7;

/// Returns whether an address is this host's own: of its loopback interface, or of another of its interfaces.
///
/// ```
/// use upbeat_transport::host::is_own;
///
/// assert!(is_own("127.0.0.1".parse().unwrap()));
/// assert!(is_own("::1".parse().unwrap()));
/// // An address reserved for documentation, which no host has.
/// assert!(!is_own("198.51.100.7".parse().unwrap()));
/// ```
pub fn is_own(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback()
        || match address_in_world() {
            Some(own) => ip == own,
            None => route_type(ip) == Ok(LOCAL),
        }
}

/// Asks the kernel for the type of the route to an address. The kernel answers at once.
fn route_type(ip: IpAddr) -> Result<u8, Errno> {
    let (family, address) = match ip {
        IpAddr::V4(ip) => (AddressFamily::INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AddressFamily::INET6, ip.octets().to_vec()),
    };
    let bits = address.len() as u8 * 8;
    // The wanted route: only the family and the length of the address are given.
    let mut body = vec![family.as_raw() as u8, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    body.extend_from_slice(&(4 + address.len() as u16).to_ne_bytes());
    body.extend_from_slice(&DESTINATION.to_ne_bytes());
    body.extend_from_slice(&address);
    let mut message = ((HEAD_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend_from_slice(&GET_ROUTE.to_ne_bytes());
    message.extend_from_slice(&REQUEST.to_ne_bytes());
    // The number of the request, and the sender's number, which the kernel fills in.
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&body);

    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 512];
    let (bytes, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match answer[..bytes].get(TYPE_OFFSET) {
        Some(of) if answer[4..6] == ROUTE.to_ne_bytes() => Ok(*of),
        _ => Err(Errno::HOSTUNREACH),
    }
}

/// Returns the number of this thread's network namespace, or None if the system does not tell it. An address has
/// another meaning in another namespace.
pub(crate) fn network() -> Option<NonZeroU64> {
    let network = std::fs::metadata("/proc/thread-self/ns/net").ok()?;
    NonZeroU64::new(network.ino())
}

/// Returns whether a connection of this thread to `at` reaches a node of this host that listens at `listening`.
pub(crate) fn reaches(at: SocketAddr, listening: Option<Listening>) -> bool {
    let takes = |listening: Listening| Some(listening.takes(at, network()?));
    listening.and_then(takes) == Some(true)
}
