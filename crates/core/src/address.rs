//! Addresses of nodes on other hosts: `db1.example:7411`, `10.0.0.7:7411`, `[fe80::7]:7411`; and the nodes that a
//! caller names: `counter`, or `counter@db1.example:7411`.
//!
//! The runtime asks the system for the IP addresses of a host when it opens a session. Invariant: an address has a
//! port, and a host that is an IP address or a well-formed DNS name.

use crate::name::{NameError, NodeName};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::str::FromStr;

/// The largest number of bytes of the name of a host, and of one label of it.
const HOST_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A host and a port.
///
/// ```
/// use upbeat_core::address::Address;
///
/// let address: Address = "db1.example:7411".parse().unwrap();
/// assert_eq!((address.host(), address.port(), address.ip()), ("db1.example", 7411, None));
/// let address: Address = "[::1]:7411".parse().unwrap();
/// assert!(address.ip().unwrap().is_loopback());
/// assert_eq!(address.to_string(), "[::1]:7411");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The host in lower case, without brackets.
    host: Arc<str>,
    port: u16,
}

impl Address {
    /// Parses the address.
    pub fn new(text: &str) -> Result<Address, AddressError> {
        let failed = |flaw| AddressError::new(text, flaw);
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(failed(Flaw::Bracket))?;
                if host.parse::<Ipv6Addr>().is_err() {
                    return Err(failed(Flaw::Bracket));
                }
                (host, port.strip_prefix(':').ok_or(failed(Flaw::NoPort))?)
            }
            None => text.rsplit_once(':').ok_or(failed(Flaw::NoPort))?,
        };
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|_| is_number).ok_or(failed(Flaw::Port))?;
        if host.parse::<IpAddr>().is_err() {
            check_host(host).map_err(failed)?;
        } else if host.contains(':') && !text.starts_with('[') {
            return Err(failed(Flaw::Bare));
        }
        Ok(Address { host: host.to_ascii_lowercase().into(), port })
    }

    /// Returns the host: a name, or an IP address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host's IP address, if the host was given as one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

/// Checks that a text is a well-formed DNS name.
fn check_host(host: &str) -> Result<(), Flaw> {
    if host.is_empty() {
        return Err(Flaw::NoHost);
    }
    // A name may end in the dot of the DNS root.
    let labels = host.strip_suffix('.').unwrap_or(host);
    if labels.len() > HOST_BYTES_MAX {
        return Err(Flaw::HostTooLong);
    }
    let fits = |label: &str| !label.is_empty() && label.len() <= LABEL_BYTES_MAX;
    let may = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match host.chars().find(|c| !may(*c) && *c != ':') {
        Some(c) => Err(Flaw::Character(c)),
        None if host.contains(':') => Err(Flaw::Bare),
        // A text of digits and dots is an IP address, or was meant as one.
        None if labels.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => Err(Flaw::NoIp),
        None if labels.split('.').all(fits) => Ok(()),
        None => Err(Flaw::Label),
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        Address::new(text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The node that a caller names, with the address at which it listens, if there is one.
///
/// ```
/// use upbeat_core::address::NodeAddress;
///
/// let wanted: NodeAddress = "counter@db1.example:7411".parse().unwrap();
/// assert_eq!(wanted.node().as_str(), "counter");
/// assert_eq!(wanted.address().unwrap().port(), 7411);
/// assert_eq!("counter".parse::<NodeAddress>().unwrap().address(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeAddress {
    node: NodeName,
    address: Option<Address>,
}

impl NodeAddress {
    /// Parses the name, and the address if there is one.
    pub fn new(text: &str) -> Result<NodeAddress, NodeAddressError> {
        let (node, address) = match text.split_once('@') {
            Some((node, address)) => (node, Some(Address::new(address)?)),
            None => (text, None),
        };
        if let Some(address) = &address
            && address.port == 0
        {
            return Err(AddressError::new(&address.to_string(), Flaw::Port).into());
        }
        Ok(NodeAddress { node: NodeName::new(node)?, address })
    }

    /// Returns the node's name.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Returns the address at which the node listens, or none for a node that is found by its name on this host.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }
}

impl From<NodeName> for NodeAddress {
    fn from(node: NodeName) -> NodeAddress {
        NodeAddress { node, address: None }
    }
}

impl FromStr for NodeAddress {
    type Err = NodeAddressError;

    fn from_str(text: &str) -> Result<NodeAddress, NodeAddressError> {
        NodeAddress::new(text)
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => write!(f, "{}@{address}", self.node),
            None => self.node.fmt(f),
        }
    }
}

/// The text is no address of a node.
// The enum is exhaustive: the text has no third part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAddressError {
    /// The text before the `@` is no name of a node.
    Name(NameError),
    /// The text behind the `@` is no address.
    Address(AddressError),
}

impl From<NameError> for NodeAddressError {
    fn from(error: NameError) -> NodeAddressError {
        NodeAddressError::Name(error)
    }
}

impl From<AddressError> for NodeAddressError {
    fn from(error: AddressError) -> NodeAddressError {
        NodeAddressError::Address(error)
    }
}

impl fmt::Display for NodeAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeAddressError::Name(error) => error.fmt(f),
            NodeAddressError::Address(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for NodeAddressError {}

/// A text that is no address, with the reason and the allowed forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// The text, cut to a length that can be shown.
    text: Box<str>,
    flaw: Flaw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    NoHost,
    NoPort,
    Port,
    Bracket,
    Bare,
    NoIp,
    HostTooLong,
    Label,
    Character(char),
}

impl AddressError {
    fn new(text: &str, flaw: Flaw) -> AddressError {
        let end = text.floor_char_boundary(HOST_BYTES_MAX);
        AddressError { text: text[..end].into(), flaw }
    }
}

impl core::error::Error for AddressError {}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no address: ", self.text)?;
        match self.flaw {
            Flaw::NoHost => f.write_str("there is no host before the port"),
            Flaw::NoPort => f.write_str("there is no port behind the host"),
            Flaw::Port => f.write_str("the port is not a number from 1 to 65535"),
            Flaw::Bracket => f.write_str("there is no IPv6 address between the brackets"),
            Flaw::Bare => f.write_str("an IPv6 address must be in brackets"),
            Flaw::NoIp => f.write_str("the host is neither an IP address nor a name"),
            Flaw::HostTooLong => {
                write!(f, "the host's name has more than {HOST_BYTES_MAX} bytes")
            }
            Flaw::Label => write!(
                f,
                "a part of the host's name is empty, or has more than {LABEL_BYTES_MAX} bytes"
            ),
            Flaw::Character(character) => {
                write!(f, "{character:?} is not allowed in a host's name")
            }
        }?;
        f.write_str("; write `host:7411`, `10.0.0.7:7411` or `[fe80::7]:7411`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use proptest::prelude::*;

    fn flaw(text: &str) -> Flaw {
        Address::new(text).unwrap_err().flaw
    }

    #[test]
    fn addresses_of_every_form_are_taken() {
        for (text, host, port) in [
            ("localhost:1", "localhost", 1),
            ("DB1.Example:7411", "db1.example", 7411),
            ("db1.example.:65535", "db1.example.", 65535),
            ("my_host-2:80", "my_host-2", 80),
            ("10.0.0.7:7411", "10.0.0.7", 7411),
            ("[::1]:7411", "::1", 7411),
            ("[FE80::7]:0", "fe80::7", 0),
            ("3com.example:7", "3com.example", 7),
        ] {
            let address = Address::new(text).unwrap();
            assert_eq!((address.host(), address.port()), (host, port));
            assert_eq!(Address::new(&address.to_string()), Ok(address));
        }
    }

    #[test]
    fn the_flaw_of_an_address_is_named() {
        for (text, expected) in [
            ("", Flaw::NoPort),
            (":7411", Flaw::NoHost),
            ("host", Flaw::NoPort),
            ("host:", Flaw::Port),
            ("host:+80", Flaw::Port),
            ("host:65536", Flaw::Port),
            ("host:http", Flaw::Port),
            ("::1:7411", Flaw::Bare),
            ("[::1]7411", Flaw::NoPort),
            ("[::1", Flaw::Bracket),
            ("[db1]:7411", Flaw::Bracket),
            ("10.0.0:7411", Flaw::NoIp),
            ("256.0.0.1:7411", Flaw::NoIp),
            ("db1..example:7411", Flaw::Label),
            ("db 1:7411", Flaw::Character(' ')),
            ("tcp://db1:7411", Flaw::Character('/')),
        ] {
            assert_eq!(flaw(text), expected, "{text}");
        }
        assert_eq!(flaw(&[&"a".repeat(64), ":1"].concat()), Flaw::Label);
        assert_eq!(flaw(&["a.".repeat(127).as_str(), "a:1"].concat()), Flaw::HostTooLong);
    }

    #[test]
    fn a_node_address_has_a_name_and_perhaps_an_address() {
        let wanted = NodeAddress::new("worker/3@[::1]:7411").unwrap();
        assert_eq!(wanted.to_string(), "worker/3@[::1]:7411");
        assert!(matches!(NodeAddress::new("a b@host:1"), Err(NodeAddressError::Name(_))));
        assert!(matches!(NodeAddress::new("@host:1"), Err(NodeAddressError::Name(_))));
        assert!(matches!(NodeAddress::new("counter@host"), Err(NodeAddressError::Address(_))));
        let error = NodeAddress::new("counter@host:0").unwrap_err().to_string();
        assert!(error.contains("the port is not a number from 1 to 65535"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_that_can_be_parsed_again_or_an_error(text in ".{0,300}") {
            match NodeAddress::new(&text) {
                Ok(wanted) => prop_assert_eq!(NodeAddress::new(&wanted.to_string()), Ok(wanted)),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
            let cut: String = text.chars().take(40).collect();
            let _ = Address::new(&[&cut, ":1"].concat()).map(|address| address.ip());
        }
    }
}
