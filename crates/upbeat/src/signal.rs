//! Waiting for ctrl-c. Signals are touched only when this is asked for.

use crate::dispatch::Dispatcher;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};
use std::future::poll_fn;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::Poll;
use upbeat_environment::turns::Mutex;

/// Ends when the process is asked to stop, by SIGINT (ctrl-c) or SIGTERM.
///
/// A second signal ends the process at once, as it does by default: also while [`Node::shut_down`] waits for what is
/// under way, and where nothing polls this future. A later call of this function waits for a first signal again.
///
/// [`Node::shut_down`]: crate::Node::shut_down
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
    let node = Dispatcher::current("upbeat::ctrl_c");
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let _signals = Signals::into(&theirs)?;
    wait_readable(&node, &ours).await
}

/// The signals that ask the process to stop: each is written into a socket, until this is dropped.
pub(crate) struct Signals {
    _registered: [Registered; 2],
    _asked: Asked,
}

impl Signals {
    pub(crate) fn into(socket: &UnixStream) -> std::io::Result<Signals> {
        let _asked = Asked::new()?;
        let _registered = [Registered::new(SIGINT, socket)?, Registered::new(SIGTERM, socket)?];
        Ok(Signals { _registered, _asked })
    }
}

/// Whether a signal ends the process, as it does by default. A signal sets this, and a new wait clears it.
static ENDS: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The number of waits for a signal.
static WAITING: Mutex<usize> = Mutex::new(0);

/// A wait for a signal. After the last wait has ended, signals have their default effect.
struct Asked(Arc<AtomicBool>);

impl Asked {
    fn new() -> std::io::Result<Asked> {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = match ENDS.get() {
            Some(ends) => Arc::clone(ends),
            None => {
                let ends = Arc::<AtomicBool>::default();
                for signal in [SIGINT, SIGTERM] {
                    // In this order: the first signal sets the word, and the second one finds it set.
                    flag::register_conditional_default(signal, Arc::clone(&ends))?;
                    flag::register(signal, Arc::clone(&ends))?;
                }
                Arc::clone(ENDS.get_or_init(|| ends))
            }
        };
        *waiting += 1;
        ends.store(false, Ordering::SeqCst);
        Ok(Asked(ends))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting -= 1;
        if *waiting == 0 {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

/// A signal that is written into a socket, until this is dropped.
struct Registered(SigId);

impl Registered {
    fn new(signal: i32, to: &UnixStream) -> std::io::Result<Registered> {
        pipe::register(signal, to.try_clone()?).map(Registered)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        unregister(self.0);
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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Counter, Node, Waiting};
    use std::future::Future;
    use std::io::{Read, Write};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};
    use std::time::Duration;

    #[test]
    fn a_wait_that_is_polled_no_more_keeps_no_node_awake() {
        let node = Node::builder("signals").local_only().waiting(Waiting::Sleeping).build();
        let node = node.unwrap();
        node.block_on(async {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let also_ours = ours.try_clone().unwrap();
            let dispatcher = Dispatcher::current("test");
            let mut wait = pin!(wait_readable(&dispatcher, &also_ours));
            let mut waits = async || {
                poll_fn(|context| Poll::Ready(wait.as_mut().poll(context).is_pending())).await
            };
            assert!(waits().await);
            theirs.write_all(&[1]).unwrap();
            let before = node.counted(Counter::Sleeps);
            crate::sleep(Duration::from_millis(50)).await;
            let slept = node.counted(Counter::Sleeps) - before;
            assert!(slept < 10, "it slept {slept} times");
            // Another reader takes the byte, and the wait goes on.
            ours.read_exact(&mut [0]).unwrap();
            assert!(waits().await);
            theirs.write_all(&[2]).unwrap();
            crate::within(Duration::from_secs(20), wait).await.unwrap().unwrap();
        });
    }

    /// The epoll tells an event of a descriptor of the application once; here, before the main future panics.
    #[test]
    fn an_event_that_a_panic_has_left_is_attended() {
        let node = Node::builder("left").local_only().waiting(Waiting::Sleeping).build().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let wait = node.spawn(async move {
            wait_readable(&Dispatcher::current("test"), &ours).await.unwrap();
        });
        node.block_on(crate::yield_now());
        assert!(node.may_wait());
        theirs.write_all(&[1]).unwrap();
        let panics = || node.block_on(async { panic!("it goes through") });
        catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        // A loop of the application does not sleep over it.
        assert!(!node.may_wait());
        let waits = async { crate::within(Duration::from_secs(20), wait).await.is_ok() };
        assert!(node.block_on(waits));
    }

    #[crate::service]
    trait Last {
        #[oneway]
        async fn word(&self, panics: bool);
    }

    struct Hears;

    impl Last for Hears {
        async fn word(&self, panics: bool) {
            if panics {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }
    }

    /// The epoll tells of the end of a session, and then of a descriptor of the application. The turn before takes over
    /// 32 of the session's messages; the last one panics where the end is attended.
    #[test]
    fn an_event_behind_the_end_of_a_session_of_which_a_message_panics_is_attended() {
        let node = |name| Node::builder(name).waiting(Waiting::Sleeping).build().unwrap();
        let (server, client) = (node("signal/last"), node("signal/words"));
        server.serve(LastServer::new(Hears)).unwrap();
        let to = client.clone();
        let mut last = client.spawn(async move { to.connect::<LastClient>("signal/last").await });
        let last = loop {
            server.turn();
            client.turn();
            if let Poll::Ready(last) =
                Pin::new(&mut last).poll(&mut Context::from_waker(Waker::noop()))
            {
                break last.unwrap().unwrap();
            }
        };
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let wait = server.spawn(async move {
            wait_readable(&Dispatcher::current("test"), &ours).await.unwrap();
        });
        while !server.may_wait() {
            server.turn();
        }
        client.block_on(async {
            for at in 0..=40 {
                last.word(at == 40).await.unwrap();
            }
        });
        client.shut_down(Duration::ZERO);
        theirs.write_all(&[1]).unwrap();
        server.turn();
        assert_eq!((server.counted(Counter::Panics), server.sessions()), (1, 1));
        let waits = async { crate::within(Duration::from_secs(20), wait).await.is_ok() };
        assert!(server.block_on(waits));
    }
}
