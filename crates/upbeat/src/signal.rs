//! Waiting for ctrl-c. Signals are touched only when this is asked for.

use crate::dispatch::Dispatcher;
use std::future::poll_fn;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::Poll;

/// Ends when the process is asked to stop, by SIGINT (ctrl-c) or SIGTERM.
///
/// # Panics
/// Outside of a node's tasks and handlers.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::new("counter")?;
/// node.block_on(upbeat::ctrl_c())?;
/// node.shut_down(std::time::Duration::from_secs(1));
/// # Ok(()) }
/// ```
pub async fn ctrl_c() -> std::io::Result<()> {
    let node = Dispatcher::current();
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let _signals = Signals::into(&theirs)?;
    wait_readable(&node, &ours).await
}

/// The signals that ask the process to stop: each is written into a socket, until this is dropped.
pub(crate) struct Signals {
    _registered: [Registered; 2],
}

impl Signals {
    pub(crate) fn into(socket: &UnixStream) -> std::io::Result<Signals> {
        let _registered = [
            Registered::new(signal_hook::consts::SIGINT, socket)?,
            Registered::new(signal_hook::consts::SIGTERM, socket)?,
        ];
        Ok(Signals { _registered })
    }
}

/// A signal that is written into a socket, until this is dropped.
struct Registered(signal_hook::SigId);

impl Registered {
    fn new(signal: i32, to: &UnixStream) -> std::io::Result<Registered> {
        signal_hook::low_level::pipe::register(signal, to.try_clone()?).map(Registered)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        signal_hook::low_level::unregister(self.0);
    }
}

async fn wait_readable(node: &Rc<Dispatcher>, socket: &UnixStream) -> std::io::Result<()> {
    let waiting = node.watch_descriptor(socket)?;
    poll_fn(|context| {
        let mut byte = [0; 1];
        match std::io::Read::read(&mut &*socket, &mut byte) {
            Ok(_) => Poll::Ready(Ok(())),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                waiting.wake_by(context.waker());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    })
    .await
}
