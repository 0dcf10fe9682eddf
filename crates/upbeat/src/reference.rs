//! References to services, which may be passed in messages and called by any holder.
//!
//! A reference is a node's name and a service. It has no session and proves nothing: passing it costs as much as a
//! text, and only a caller's connection finds out what is there. A reference that a node has made of itself also
//! has the scope of its name, the address at which other hosts reach it, and its incarnation, so that
//! the session with it is found. Invariant: whatever was passed, only a node that
//! serves the service with matching signatures gives a client.

use crate::client::{Client, OfService};
use crate::node::{Connect, Node, Origin, Whom};
use crate::wire::{Describe, Input, Output, Wire, WireError};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use upbeat_core::address::{NodeAddress, NodeAddressError};

/// A service at a node of the program, as an argument, a result, or a part of one. Its receiver can call
/// back, or pass it on.
///
/// A reference names the node, not its incarnation: after a restart under that name, calls go to the new node, if
/// it serves the service. A session between both nodes is used in either direction: a node that listens at no
/// address is called back over the session that it has opened. A node of another host with which there is no
/// session is called at the address at which it [listens](crate::Builder::listen).
///
/// ```
/// use upbeat::{Node, ServiceRef};
///
/// #[upbeat::service]
/// pub trait Listener {
///     async fn heard(&self, news: String) -> u64;
/// }
///
/// #[upbeat::service]
/// pub trait Agency {
///     /// Tells the listener all news.
///     async fn tell(&self, listener: ServiceRef<ListenerClient>) -> Result<u64, String>;
/// }
///
/// struct Desk {
///     node: Node,
/// }
///
/// impl Agency for Desk {
///     async fn tell(&self, listener: ServiceRef<ListenerClient>) -> Result<u64, String> {
///         let listener = listener.connect(&self.node).await.map_err(|error| error.to_string())?;
///         listener.heard("it rains".into()).await.map_err(|error| error.to_string())
///     }
/// }
///
/// async fn listen(node: &Node, agency: &AgencyClient) -> Result<u64, upbeat::CallError<String>> {
///     // The node serves a `Listener` itself.
///     agency.tell(ServiceRef::here(node)).await
/// }
/// ```
pub struct ServiceRef<C> {
    to: NodeAddress,
    /// The origin; none in a reference that was made from a name or an address.
    origin: Option<Origin>,
    client: PhantomData<fn() -> C>,
}

impl<C> ServiceRef<C> {
    /// Returns a reference to a service at this node, which must serve it.
    ///
    /// # Panics
    /// When the node has no name by which it could be found.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Listener {
    /// #     async fn heard(&self, news: String) -> u64;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use upbeat::{Node, ServiceRef};
    ///
    /// let node = Node::builder("doc/here").local_only().build()?;
    /// let listener = ServiceRef::<ListenerClient>::here(&node);
    /// assert_eq!(listener.to_string(), "Listener at doc/here");
    /// # Ok(()) }
    /// ```
    pub fn here(node: &Node) -> ServiceRef<C> {
        let (to, origin) = node.referred().expect("a node has a name");
        ServiceRef { to, origin: Some(origin), client: PhantomData }
    }

    /// Returns a reference to a service at a node, given as to [`Node::connect`]: by its name, which belongs to the
    /// host where the reference is used, or by its name and address, which lead to it from other hosts.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Listener {
    /// #     async fn heard(&self, news: String) -> u64;
    /// # }
    /// use upbeat::ServiceRef;
    ///
    /// assert!(ServiceRef::<ListenerClient>::at("listener/3").is_ok());
    /// assert!(ServiceRef::<ListenerClient>::at("listener/3@db1.example:7411").is_ok());
    /// assert!(ServiceRef::<ListenerClient>::at("no name").is_err());
    /// ```
    pub fn at(node: &str) -> Result<ServiceRef<C>, NodeAddressError> {
        Ok(ServiceRef { to: NodeAddress::new(node)?, origin: None, client: PhantomData })
    }

    /// Returns the name of the node.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Listener {
    /// #     async fn heard(&self, news: String) -> u64;
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = upbeat::ServiceRef::<ListenerClient>::at("listener/3")?;
    /// assert_eq!(listener.node(), "listener/3");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn node(&self) -> &str {
        self.to.node().as_str()
    }

    /// Connects a client of the service, from this node: see [`Node::connect`].
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Listener {
    /// #     async fn heard(&self, news: String) -> u64;
    /// # }
    /// use upbeat::{ConnectError, Node, ServiceRef};
    ///
    /// async fn client(
    ///     node: &Node,
    ///     listener: &ServiceRef<ListenerClient>,
    /// ) -> Result<ListenerClient, ConnectError> {
    ///     listener.connect(node).await
    /// }
    /// ```
    pub fn connect<'n>(&self, node: &'n Node) -> Connect<'n, C>
    where
        C: Client,
    {
        Connect::new(node, Ok(Whom { to: self.to.clone(), origin: self.origin }))
    }
}

impl<C> ServiceRef<C> {
    /// Returns the scope of the node's name, if it is known.
    fn names(&self) -> Option<u64> {
        self.origin.map(|origin| origin.names)
    }
}

impl<C> Clone for ServiceRef<C> {
    fn clone(&self) -> ServiceRef<C> {
        ServiceRef { to: self.to.clone(), origin: self.origin, client: PhantomData }
    }
}

impl<C> PartialEq for ServiceRef<C> {
    fn eq(&self, other: &ServiceRef<C>) -> bool {
        self.to == other.to && self.names() == other.names()
    }
}

impl<C> Eq for ServiceRef<C> {}

impl<C> Hash for ServiceRef<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.to, self.names()).hash(state);
    }
}

impl<C: OfService> fmt::Display for ServiceRef<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", C::NAME, self.to)
    }
}

impl<C: OfService> fmt::Debug for ServiceRef<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceRef({self})")
    }
}

impl<C: OfService + 'static> Wire for ServiceRef<C> {
    const BYTES_LIKELY: usize = 24;

    fn bytes_likely(&self) -> usize {
        32 + self.node().len()
    }

    fn describe(out: &mut Describe) {
        out.text("ServiceRef<");
        out.text(C::NAME);
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        let Origin { names, incarnation } = self.origin.unwrap_or_default();
        (self.to.to_string(), names, incarnation).put(out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let (text, names, incarnation) = <(String, u64, u64)>::take(input)?;
        let invalid = |_| WireError::Invalid { what: "name of a node" };
        let to = NodeAddress::new(&text).map_err(invalid)?;
        let origin = (names != 0).then_some(Origin { names, incarnation });
        Ok(ServiceRef { to, origin, client: PhantomData })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Listener;

    impl OfService for Listener {
        const NAME: &'static str = "Listener";
    }

    fn passed(name: &str) -> Result<ServiceRef<Listener>, WireError> {
        let mut out = Output::own(1 << 10);
        (name.to_owned(), 0u64, 0u64).put(&mut out)?;
        ServiceRef::take(&mut Input::own(&out.into_bytes().unwrap()))
    }

    #[test]
    fn what_is_passed_names_a_node_or_is_refused() {
        let [one, two] = ["listener/1", "listener/2"].map(|name| ServiceRef::at(name).unwrap());
        assert!(passed("listener/1").unwrap() == one && one != two);
        let to = NodeAddress::new("listener/1@[::1]:7411").unwrap();
        let origin = Some(Origin { names: 7, incarnation: 8 });
        let here: ServiceRef<Listener> = ServiceRef { to, origin, client: PhantomData };
        for reference in [one, here] {
            let mut out = Output::own(1 << 10);
            reference.put(&mut out).unwrap();
            let taken = ServiceRef::take(&mut Input::own(&out.into_bytes().unwrap())).unwrap();
            assert!(taken == reference && taken.origin == reference.origin);
        }
        let wrong =
            ["", "no name", "/", "../up", "a//b", &"a".repeat(65), "a@", "a@host:0", "@host:1"];
        for name in wrong {
            let refused = passed(name).err();
            assert_eq!(refused, Some(WireError::Invalid { what: "name of a node" }), "{name}");
        }
    }
}
