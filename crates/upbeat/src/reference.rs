//! References to services, which may be passed in messages and called by whoever has them.
//!
//! A reference is a node's name and a service, no session and no claim: to pass one costs what a text
//! costs, and it is a caller's connection that finds out what is there. Invariant: whatever was passed,
//! a client comes of it only where the node serves the service with the signatures that both know.

use crate::client::{Client, OfService};
use crate::error::ConnectError;
use crate::node::Node;
use crate::wire::{Describe, Input, Output, Wire, WireError};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use upbeat_core::name::{NameError, NodeName};

/// A service at a node of the program, as an argument, a result, or a part of one: who gets it can call
/// back, or pass it on.
///
/// It names the node, not its incarnation: a node that was started anew under that name is called, if
/// it serves the service. A session that both nodes have is used in either direction.
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
    node: NodeName,
    client: PhantomData<fn() -> C>,
}

impl<C> ServiceRef<C> {
    /// The service at this node, which is to serve it.
    ///
    /// # Panics
    /// When the node has no name, by which it could be found.
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
        ServiceRef::at(&node.name()).expect("a node has a name")
    }

    /// The service at the node of this name.
    ///
    /// ```
    /// # #[upbeat::service]
    /// # pub trait Listener {
    /// #     async fn heard(&self, news: String) -> u64;
    /// # }
    /// use upbeat::ServiceRef;
    ///
    /// assert!(ServiceRef::<ListenerClient>::at("listener/3").is_ok());
    /// assert!(ServiceRef::<ListenerClient>::at("no name").is_err());
    /// ```
    pub fn at(node: &str) -> Result<ServiceRef<C>, NameError> {
        Ok(ServiceRef { node: NodeName::new(node)?, client: PhantomData })
    }

    /// The name of the node.
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
        self.node.as_str()
    }

    /// A client of the service, from this node: see [`Node::connect`].
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
    pub async fn connect(&self, node: &Node) -> Result<C, ConnectError>
    where
        C: Client,
    {
        node.connect(self.node()).await
    }
}

impl<C> Clone for ServiceRef<C> {
    fn clone(&self) -> ServiceRef<C> {
        ServiceRef { node: self.node.clone(), client: PhantomData }
    }
}

impl<C> PartialEq for ServiceRef<C> {
    fn eq(&self, other: &ServiceRef<C>) -> bool {
        self.node == other.node
    }
}

impl<C> Eq for ServiceRef<C> {}

impl<C> Hash for ServiceRef<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.node.hash(state);
    }
}

impl<C: OfService> fmt::Display for ServiceRef<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", C::NAME, self.node)
    }
}

impl<C: OfService> fmt::Debug for ServiceRef<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceRef({self})")
    }
}

impl<C: OfService + 'static> Wire for ServiceRef<C> {
    const BYTES_LIKELY: usize = 8;

    fn bytes_likely(&self) -> usize {
        8 + self.node().len()
    }

    fn describe(out: &mut Describe) {
        out.text("ServiceRef<");
        out.text(C::NAME);
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        (self.node().len() as u64).put(out)?;
        out.bytes(self.node().as_bytes());
        Ok(())
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let text = String::take(input)?;
        ServiceRef::at(&text).map_err(|_| WireError::Invalid { what: "name of a node" })
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
        name.to_owned().put(&mut out)?;
        ServiceRef::take(&mut Input::own(&out.into_bytes().unwrap()))
    }

    #[test]
    fn what_is_passed_names_a_node_or_is_refused() {
        let [one, two] = ["listener/1", "listener/2"].map(|name| ServiceRef::at(name).unwrap());
        assert!(passed("listener/1").unwrap() == one && one != two);
        let mut out = Output::own(1 << 10);
        one.put(&mut out).unwrap();
        assert!(ServiceRef::take(&mut Input::own(&out.into_bytes().unwrap())).unwrap() == one);
        for name in ["", "no name", "/", "../up", "a//b", &"a".repeat(65)] {
            let refused = passed(name).err();
            assert_eq!(refused, Some(WireError::Invalid { what: "name of a node" }), "{name}");
        }
    }
}
