//! Why a service cannot be served.

use super::debug_as_text;
use std::fmt;

/// Why a node does not serve a service that it was given.
///
/// ```
/// # #[upbeat::service]
/// # pub trait Echo {
/// #     async fn same(&self, n: u64) -> u64;
/// # }
/// # struct Voice;
/// # impl Echo for Voice {
/// #     async fn same(&self, n: u64) -> u64 {
/// #         n
/// #     }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use upbeat::{Node, ServeError};
///
/// let node = Node::builder("doc/served").local_only().build()?;
/// node.serve(EchoServer::new(Voice))?;
/// let error = node.serve(EchoServer::new(Voice)).unwrap_err();
/// assert!(matches!(error, ServeError::AlreadyServed { service: "Echo", .. }));
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeError {
    /// The node serves a service of this name already.
    AlreadyServed {
        /// The service.
        service: &'static str,
        /// The node.
        node: String,
    },
    /// The methods of the node's services would be more than a session can number.
    TooManyMethods {
        /// The service.
        service: &'static str,
        /// The number of methods with this service.
        methods: usize,
        /// The most methods of a node.
        most: usize,
    },
    /// The node has been shut down.
    ShutDown {
        /// The service.
        service: &'static str,
    },
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::AlreadyServed { service, node } => write!(
                f,
                "the node `{node}` serves `{service}` already: call `serve` once for each service; a second \
                 `{service}` needs a node of its own, or another name: `#[upbeat::service(name = \"…\")]` over its \
                 trait"
            ),
            ServeError::TooManyMethods { service, methods, most } => write!(
                f,
                "with `{service}` the services of this node would have {methods} methods, and a node has at \
                 most {most}: serve `{service}` on another node"
            ),
            ServeError::ShutDown { service } => write!(
                f,
                "the node has been shut down and cannot serve `{service}`: build another node and serve there"
            ),
        }
    }
}

impl std::error::Error for ServeError {}

debug_as_text!(ServeError { AlreadyServed, TooManyMethods, ShutDown });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Node;
    use crate::service::{Methods, Rules, Serve, Wraps};
    use std::future::ready;
    use upbeat_core::limits::METHODS_PER_SESSION_MAX;

    /// Stands for a service of so many methods.
    struct Wide(usize);

    impl Serve for Wide {
        const SERVICE: &'static str = "Wide";

        fn methods<W: Wraps>(self, methods: &mut Methods<'_, W>) {
            for _ in 0..self.0 {
                methods.call::<(), (), _>("method", Rules::NONE.of("method"), |()| ready(()));
            }
        }
    }

    #[test]
    fn a_service_with_more_methods_than_a_session_numbers_is_refused_and_leaves_nothing() {
        let node = Node::builder("serve/wide").local_only().statistics(true).build().unwrap();
        let most = METHODS_PER_SESSION_MAX - 1;
        let error = node.serve(Wide(most + 1)).unwrap_err();
        assert_eq!(error, ServeError::TooManyMethods { service: "Wide", methods: most + 1, most });
        assert_eq!(node.statistics().methods.len(), 0);
        assert_eq!(node.serve(Wide(most)), Ok(()));
        assert_eq!(node.statistics().methods.len(), most);
    }
}
