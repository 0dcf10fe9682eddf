//! The settings of a handle for other hosts.

use super::builder::HandleBuilder;
use crate::remote::peer_timeout;
use std::time::Duration;
use upbeat_transport::identity::Identity;

impl HandleBuilder {
    /// Sends messages to another host under TLS, as [`Builder::identity`](crate::Builder::identity) does for a node. A
    /// handle has no name, and may use any identity of its program.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let identity = upbeat::Identity::load("client.pem")?;
    /// let builder = upbeat::handle::builder().identity(identity);
    /// let counter: CounterHandle = builder.connect("counter@10.0.0.7:7411")?;
    /// # Ok(()) }
    /// ```
    pub fn identity(mut self, identity: Identity) -> HandleBuilder {
        self.remote.identity = Some(identity);
        self
    }

    /// Permits messages to another host in plaintext, as
    /// [`Builder::insecure_plaintext`](crate::Builder::insecure_plaintext) does for a node.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = upbeat::handle::builder().insecure_plaintext();
    /// let counter: CounterHandle = builder.connect("counter@10.0.0.7:7411")?;
    /// # Ok(()) }
    /// ```
    pub fn insecure_plaintext(mut self) -> HandleBuilder {
        self.remote.plaintext = true;
        self
    }

    /// Sets the time after which a connection counts as broken if its other side does not answer, as
    /// [`Builder::peer_timeout`](crate::Builder::peer_timeout) does for a node.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let builder = upbeat::handle::builder().insecure_plaintext();
    /// let builder = builder.peer_timeout(Duration::from_secs(3));
    /// let counter: CounterHandle = builder.connect("counter@10.0.0.7:7411")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When it is less than a second.
    pub fn peer_timeout(mut self, time: Duration) -> HandleBuilder {
        self.remote.peer_timeout = Some(peer_timeout(time));
        self
    }

    /// Sets how long a session with a node of another host outlives its connection, as
    /// [`Builder::resume_within`](crate::Builder::resume_within) does for a node. A blocking call connects again in
    /// the calling thread; a handle without open calls notices a break at its next call.
    ///
    /// ```no_run
    /// # #[upbeat::service]
    /// # pub trait Counter {
    /// #     async fn add(&self, n: u64) -> u64;
    /// #     #[oneway]
    /// #     async fn reset(&self);
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let builder = upbeat::handle::builder().insecure_plaintext();
    /// let builder = builder.resume_within(Duration::from_secs(30));
    /// let counter: CounterHandle = builder.connect("counter@10.0.0.7:7411")?;
    /// # Ok(()) }
    /// ```
    pub fn resume_within(mut self, time: Duration) -> HandleBuilder {
        self.remote.resume_within = Some(time);
        self
    }
}
