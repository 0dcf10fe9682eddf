//! A network between two nodes that breaks on request: a thread that passes bytes on.

use super::framing::{Fault, Faults, Framing};
use crate::common::Random;
use rustix::net::sockopt::set_socket_linger;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// More bytes than a caller sends in the handshake of a connection, also under TLS.
const HANDSHAKE_BYTES_MAX: usize = 8 << 10;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Both sides read its end.
    End,
    /// Both sides get the error of a reset connection.
    Reset,
    /// Only the caller reads the end of the connection; the listener notices nothing.
    HalfOpen,
}

/// The orders to the proxy.
#[derive(Default)]
struct Told {
    over: AtomicBool,
    /// Whether bytes stay where they are.
    stalls: AtomicBool,
    /// Whether nobody is let through.
    refuses: AtomicBool,
    /// Whether the queue of connections stays full.
    is_deaf: AtomicBool,
    /// Connections that were passed on so far, and those of them that were cut.
    passed: AtomicU64,
    cut: AtomicU64,
    /// The last of them whose sockets are closed.
    closed: AtomicU64,
    /// Connections that were cut after the caller had sent more than its handshake: a session lost its connection.
    cut_late: AtomicU64,
    /// How many of them are to be cut, and how.
    wanted: Mutex<(u64, Option<How>)>,
    /// Breaks at random bytes: how many are left until then, and how many breaks are wanted.
    random: Mutex<Option<Breaks>>,
    /// The faults to make at the boundaries of records.
    faults: Mutex<Option<Faults>>,
}

struct Breaks {
    random: Random,
    left: usize,
    breaks: u64,
}

impl Breaks {
    /// The bytes until the next break: few, or many.
    fn draw(&mut self) -> usize {
        let bits = 5 + self.random.below(17);
        (1 + self.random.below(1 << bits)) as usize
    }
}

/// Passes on what is sent to it.
pub(crate) struct Proxy {
    pub(crate) at: SocketAddr,
    listener: TcpListener,
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Passes on to the node that listens there.
    pub(crate) fn to(at: &str) -> Proxy {
        Proxy::framed(at, Framing::Lost)
    }

    /// Passes on to the node that listens there, one record after the other. This is how a connection begins.
    pub(crate) fn framed(at: &str, framing: Framing) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (own, to) = (listener.local_addr().unwrap(), at.parse().unwrap());
        let told = Arc::<Told>::default();
        let thread = std::thread::spawn({
            let (told, listener) = (Arc::clone(&told), listener.try_clone().unwrap());
            move || accept(&listener, to, framing, &told)
        });
        Proxy { at: own, listener, told, thread: Some(thread) }
    }

    /// Cuts the connection that stands, or the next.
    pub(crate) fn cut(&self, how: How) {
        let passed = self.told.passed.load(SeqCst);
        *self.told.wanted.lock().unwrap() = (passed, Some(how));
        let done = if how == How::HalfOpen { &self.told.cut } else { &self.told.closed };
        while done.load(SeqCst) < passed {
            std::thread::yield_now();
        }
    }

    /// Cuts so many connections, each behind a random number of bytes.
    pub(crate) fn break_often(&self, breaks: u64, seed: u64) {
        let mut breaks = Breaks { random: Random::new(seed), left: 0, breaks };
        breaks.left = breaks.draw();
        *self.told.random.lock().unwrap() = Some(breaks);
    }

    /// Does something at the boundaries of records, so many times.
    pub(crate) fn do_often(&self, fault: Fault, times: u64, seed: u64) {
        *self.told.faults.lock().unwrap() = Some(Faults::new(fault, times, seed));
    }

    /// Whether all that was done, or cut.
    pub(crate) fn has_broken(&self) -> bool {
        let faults = self.told.faults.lock().unwrap();
        faults.as_ref().is_none_or(|faults| faults.left == 0)
            && self.told.random.lock().unwrap().is_none()
    }

    /// Returns how many connections were cut that had carried a session.
    pub(crate) fn cut_late(&self) -> u64 {
        self.told.cut_late.load(SeqCst)
    }

    /// Lets nobody through, or everybody again.
    pub(crate) fn refuse(&self, refuses: bool) {
        self.told.refuses.store(refuses, SeqCst);
    }

    /// Has the system drop what asks for a connection, as a network does that drops everything: the queue of connections
    /// is full. Returns what fills it; the proxy hears again when that is dropped.
    pub(crate) fn deafen(&self) -> Deaf<'_> {
        self.told.is_deaf.store(true, SeqCst);
        rustix::net::listen(&self.listener, 0).unwrap();
        // One connection fits into a queue of that length, and the first attempt that is not answered shows it.
        let mut fillers = Vec::new();
        while let Ok(filler) = TcpStream::connect_timeout(&self.at, Duration::from_millis(100)) {
            assert!(fillers.len() < 1000, "the queue is never full");
            fillers.push(filler);
        }
        Deaf { proxy: self, _fillers: fillers }
    }

    /// Passes nothing on, and drops nothing.
    pub(crate) fn stall(&self, stalls: bool) {
        self.told.stalls.store(stalls, SeqCst);
    }
}

/// A proxy that hears nobody.
pub(crate) struct Deaf<'p> {
    proxy: &'p Proxy,
    _fillers: Vec<TcpStream>,
}

impl Drop for Deaf<'_> {
    fn drop(&mut self) {
        rustix::net::listen(&self.proxy.listener, 128).unwrap();
        self.proxy.told.is_deaf.store(false, SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.told.over.store(true, SeqCst);
        let _ = self.thread.take().unwrap().join();
    }
}

fn accept(listener: &TcpListener, to: SocketAddr, framing: Framing, told: &Arc<Told>) {
    let mut links: Vec<JoinHandle<()>> = Vec::new();
    while !told.over.load(SeqCst) {
        let accepted = (!told.is_deaf.load(SeqCst)).then(|| listener.accept());
        let Some(Ok((near, _))) = accepted else {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        };
        if told.refuses.load(SeqCst) {
            reset(&near);
            continue;
        }
        // The proxy refuses for a server that is not there.
        let Ok(far) = TcpStream::connect(to) else {
            reset(&near);
            continue;
        };
        let (number, told) = (told.passed.fetch_add(1, SeqCst) + 1, Arc::clone(told));
        links.push(std::thread::spawn(move || Link::new(near, far, framing).pass(number, &told)));
    }
    links.into_iter().for_each(|link| drop(link.join()));
}

fn reset(stream: &TcpStream) {
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
}

/// Two connections, and what has come over each and has not gone over the other.
struct Link {
    ends: [TcpStream; 2],
    /// The bytes that go next.
    held: [Vec<u8>; 2],
    /// The bytes behind them: records that are not whole, or more records.
    come: [Vec<u8>; 2],
    framing: [Framing; 2],
    /// The bytes that have gone.
    gone: [usize; 2],
}

impl Link {
    fn new(near: TcpStream, far: TcpStream, framing: Framing) -> Link {
        for end in [&near, &far] {
            end.set_nonblocking(true).unwrap();
            end.set_nodelay(true).unwrap();
        }
        let (held, come) = Default::default();
        Link { ends: [near, far], held, come, framing: [framing; 2], gone: [0; 2] }
    }

    fn pass(mut self, number: u64, told: &Told) {
        while !told.over.load(SeqCst) {
            let (of, wanted) = *told.wanted.lock().unwrap();
            if let Some(how) = wanted.filter(|_| of >= number) {
                told.cut.fetch_max(number, SeqCst);
                return self.end(how, number, told);
            }
            if told.stalls.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            match self.step(told) {
                Ok(0) => std::thread::sleep(Duration::from_micros(50)),
                Ok(_) => {}
                Err(how) => {
                    told.cut.fetch_max(number, SeqCst);
                    told.cut_late.fetch_add(u64::from(self.gone[0] > HANDSHAKE_BYTES_MAX), SeqCst);
                    return self.end(how, number, told);
                }
            }
        }
    }

    /// Passes on what there is: how many bytes, or how it ends.
    fn step(&mut self, told: &Told) -> Result<usize, How> {
        let mut moved = 0;
        for from in [0, 1] {
            if self.held[from].is_empty() {
                self.take_record(from, told)?;
            }
            if self.held[from].is_empty() {
                let mut bytes = [0; 16 << 10];
                let most = told.random.lock().unwrap().as_ref().map_or(usize::MAX, |of| of.left);
                let most = most.min(bytes.len());
                match (&self.ends[from]).read(&mut bytes[..most]) {
                    Ok(0) => return Err(How::End),
                    Ok(read) => self.come[from].extend_from_slice(&bytes[..read]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => return Err(How::Reset),
                }
                self.take_record(from, told)?;
            }
            if self.held[from].is_empty() {
                continue;
            }
            match (&self.ends[1 - from]).write(&self.held[from]) {
                Ok(written) => {
                    drop(self.held[from].drain(..written));
                    moved += written;
                    self.gone[from] += written;
                    if let Some(how) = spend(told, written) {
                        return Err(how);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return Err(How::Reset),
            }
        }
        Ok(moved)
    }

    /// Has the next record go, if it is whole, and something done to it.
    fn take_record(&mut self, from: usize, told: &Told) -> Result<(), How> {
        let Some(whole) = self.framing[from].whole(&self.come[from]) else { return Ok(()) };
        let rest = self.come[from].split_off(whole.bytes());
        self.held[from] = std::mem::replace(&mut self.come[from], rest);
        let mut faults = told.faults.lock().unwrap();
        match faults.as_mut().and_then(|faults| faults.next(whole, &mut self.held[from])) {
            Some(how) => Err(how),
            None => Ok(()),
        }
    }

    fn end(self, how: How, number: u64, told: &Told) {
        let [near, far] = self.ends;
        match how {
            How::End => {}
            How::Reset => [&near, &far].into_iter().for_each(reset),
            How::HalfOpen => {
                drop(near);
                while !told.over.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                drop(far);
                return;
            }
        }
        for end in [&near, &far] {
            if how == How::End {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        drop((near, far));
        told.closed.fetch_max(number, SeqCst);
    }
}

/// So many bytes have gone. Gives how the connection ends if it breaks here.
fn spend(told: &Told, bytes: usize) -> Option<How> {
    let mut random = told.random.lock().unwrap();
    let breaks = random.as_mut()?;
    breaks.left = breaks.left.saturating_sub(bytes);
    if breaks.left > 0 {
        return None;
    }
    breaks.breaks -= 1;
    breaks.left = breaks.draw();
    let how = if breaks.random.below(2) == 0 { How::End } else { How::Reset };
    if breaks.breaks == 0 {
        *random = None;
    }
    Some(how)
}
