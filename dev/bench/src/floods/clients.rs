//! The honest clients: one that connects again and again, and one that was there before.

use super::desk::{Door, GreeterHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::refused;

/// The pause of a client between two acts.
const PAUSE: Duration = Duration::from_millis(5);

/// The acts of a client.
#[derive(Debug, Default)]
pub(super) struct Acts {
    /// How long each took that succeeded.
    pub(super) took: Vec<Duration>,
    /// The errors of the others.
    pub(super) failed: Vec<String>,
}

impl Acts {
    /// Counts an act.
    fn add(&mut self, act: impl FnOnce() -> Result<(), String>) {
        let began = Instant::now();
        match act() {
            Ok(()) => self.took.push(began.elapsed()),
            Err(error) => self.failed.push(error),
        }
    }
}

/// A thread of a client.
pub(super) struct Client {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Acts>,
}

impl Client {
    fn start(mut act: impl FnMut() -> Result<(), String> + Send + 'static) -> Client {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut acts = Acts::default();
            while !told.load(Relaxed) {
                acts.add(&mut act);
                std::thread::sleep(PAUSE);
            }
            acts
        });
        Client { over, thread }
    }

    /// Ends the client after its last act.
    pub(super) fn stop(self) -> Acts {
        self.over.store(true, Relaxed);
        match self.thread.join() {
            Ok(acts) => acts,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Connects, calls, and disconnects.
fn visit(door: &Door) -> Result<(), String> {
    let builder = door.client().map_err(|error| error.to_string())?;
    let client: GreeterHandle = builder.connect(&door.name()).map_err(|error| error.to_string())?;
    client.blocking().null().map_err(|error| error.to_string())
}

/// Connects once and calls. Returns how long that took.
pub(super) fn connect(door: &Door) -> Acts {
    let mut acts = Acts::default();
    acts.add(|| visit(door));
    acts
}

/// A client that connects again and again.
pub(super) struct Honest;

impl Honest {
    pub(super) fn start(door: &Door) -> Client {
        let door = door.clone();
        Client::start(move || visit(&door))
    }
}

/// A client whose session stands before the strangers come.
pub(super) struct Old;

impl Old {
    pub(super) fn start(door: &Door) -> Result<Client, BenchError> {
        let client: GreeterHandle =
            door.client()?.connect(&door.name()).map_err(refused("connecting"))?;
        client.blocking().null().map_err(refused("calling"))?;
        let call = move || client.blocking().null().map_err(|error| error.to_string());
        Ok(Client::start(call))
    }
}
