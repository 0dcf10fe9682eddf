//! ZeroMQ, as libzmq's own measurements use it: request and reply for calls, push and pull for
//! messages, one I/O thread on each side, whose default settings are those for small messages.

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault};
use crate::payload::{KIB, Payload, Tally};
use crate::values::NO_READS;
use upbeat_cli::bench::timing::{Round, Work};
use zmq::{Context, Message, PULL, PUSH, REP, REQ, Socket, SocketType};

/// ZeroMQ over unix sockets, and over TCP.
pub(super) fn ways() -> Vec<Way> {
    let way = |carrier| Way {
        peer: "zeromq",
        carrier,
        mode: Mode::Sleeping,
        about: "request and reply, push and pull, one I/O thread on each side",
        absent: NO_READS,
        burst: 20_000,
        open: Open::Pair { serve, call },
    };
    vec![way("unix"), way("tcp")]
}

/// One side's ends.
struct Ends {
    calls: Socket,
    messages: Socket,
    payload: Payload,
    message: Message,
    _context: Context,
}

/// Makes a socket that is closed without waiting for anybody.
fn socket(context: &Context, kind: SocketType) -> Result<Socket, Fault> {
    let socket = context.socket(kind).map_err(fault("making a socket"))?;
    socket.set_linger(0).map_err(fault("setting up a socket"))?;
    Ok(socket)
}

impl Ends {
    fn new(
        calls: SocketType,
        messages: SocketType,
        join: impl Fn(&Socket, &str) -> Result<(), Fault>,
    ) -> Result<Ends, Fault> {
        let context = Context::new();
        let (calls, messages) = (socket(&context, calls)?, socket(&context, messages)?);
        join(&calls, "calls")?;
        join(&messages, "messages")?;
        let (payload, message) = (Payload::new(), Message::new());
        Ok(Ends { calls, messages, payload, message, _context: context })
    }
}

fn note(place: &Place<'_>, what: &str) -> String {
    format!("zmq.{}.{what}", place.carrier)
}

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let ends = Ends::new(REP, PULL, |socket, what| {
        let path = place.socket(&note(place, what));
        let address = match place.carrier {
            "unix" => format!("ipc://{}", path.display()),
            _ => "tcp://127.0.0.1:*".to_owned(),
        };
        socket.bind(&address).map_err(fault("binding a socket"))?;
        let bound = socket.get_last_endpoint().map_err(fault("asking for an address"))?;
        let bound = bound.map_err(|_| Fault::new("an address is not UTF-8"))?;
        place.tell(&note(place, what), &bound)
    })?;
    Ok(Box::new(ends))
}

impl Serve for Ends {
    fn round(&mut self, op: Op, work: Work) -> Result<(), Fault> {
        if op == Op::Stream {
            return self.count(work);
        }
        let bytes = if op == Op::Null { 0 } else { KIB };
        for _ in 0..work.total() {
            self.calls.recv(&mut self.message, 0).map_err(fault("receiving"))?;
            if self.message.len() != bytes {
                return Err(Fault::new(format!("a request of {} bytes", self.message.len())));
            }
            self.calls.send(&self.message[..], 0).map_err(fault("sending"))?;
        }
        Ok(())
    }
}

impl Ends {
    /// Receives messages, and says what came when it is asked.
    fn count(&mut self, work: Work) -> Result<(), Fault> {
        for messages in work.laps() {
            let mut tally = Tally::default();
            for _ in 0..messages {
                self.messages.recv(&mut self.message, 0).map_err(fault("receiving"))?;
                tally.add(number(&self.message)?);
            }
            self.calls.recv(&mut self.message, 0).map_err(fault("receiving"))?;
            self.calls.send(&to_bytes(tally)[..], 0).map_err(fault("sending"))?;
        }
        Ok(())
    }

    fn burst(&mut self, messages: u32) -> Result<(), Fault> {
        for n in 0..u64::from(messages) {
            self.messages.send(&n.to_le_bytes()[..], 0).map_err(fault("sending"))?;
        }
        self.calls.send("", 0).map_err(fault("sending"))?;
        self.calls.recv(&mut self.message, 0).map_err(fault("receiving"))?;
        of_bytes(&self.message)?.check(messages)
    }
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let ends = Ends::new(REQ, PUSH, |socket, what| {
        let address = place.told(&note(place, what))?;
        socket.connect(&address).map_err(fault("connecting"))
    })?;
    Ok(Box::new(ends))
}

impl Call for Ends {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        if op == Op::Stream {
            return work.try_bursts(|messages| self.burst(messages));
        }
        let Ends { calls, message, payload, .. } = self;
        work.try_run(|| {
            match op {
                Op::Null => calls.send("", 0),
                _ => calls.send(&payload.next()[..], 0),
            }
            .map_err(fault("sending"))?;
            calls.recv(message, 0).map_err(fault("receiving"))?;
            if op == Op::Null { check_nothing(message) } else { payload.check(message) }
        })
    }
}

/// A tally as it is sent.
fn to_bytes(tally: Tally) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&tally.count.to_le_bytes());
    bytes[8..].copy_from_slice(&tally.sum.to_le_bytes());
    bytes
}

/// A tally as it came.
fn of_bytes(bytes: &[u8]) -> Result<Tally, Fault> {
    match bytes.split_at_checked(8) {
        Some((count, sum)) => Ok(Tally { count: number(count)?, sum: number(sum)? }),
        None => Err(Fault::new(format!("a tally has {} bytes", bytes.len()))),
    }
}

/// The number that a message of 8 bytes is.
#[inline]
pub(crate) fn number(bytes: &[u8]) -> Result<u64, Fault> {
    match bytes.try_into() {
        Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
        Err(_) => Err(Fault::new(format!("a message of 8 bytes came with {}", bytes.len()))),
    }
}

/// Whether an answer to nothing is nothing.
#[inline]
pub(crate) fn check_nothing(came: &[u8]) -> Result<(), Fault> {
    match came.len() {
        0 => Ok(()),
        bytes => Err(Fault::new(format!("a call of nothing brought {bytes} bytes"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Tally, check_nothing, number, of_bytes, to_bytes};

    #[test]
    fn what_came_is_read_or_refused() {
        let tally = Tally { count: 3, sum: 9 };
        assert_eq!(of_bytes(&to_bytes(tally)).unwrap(), tally);
        assert!(of_bytes(&[1; 9]).is_err() && of_bytes(&[1; 7]).is_err());
        assert_eq!(number(&5u64.to_le_bytes()).unwrap(), 5);
        assert!(number(&[0; 7]).is_err());
        check_nothing(&[]).unwrap();
        assert!(check_nothing(&[1]).is_err());
    }
}
