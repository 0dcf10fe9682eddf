//! ipc-channel, as Servo uses it: typed channels for calls without a payload and for messages, and its channel
//! of bytes for payloads, which avoids the serializer. Blocking, and polling.

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault, unknown};
use crate::payload::{Payload, Tally};
use crate::values::NO_READS;
use ipc_channel::TryRecvError;
use ipc_channel::ipc::{
    IpcBytesReceiver, IpcBytesSender, IpcOneShotServer, IpcReceiver, IpcSender, bytes_channel,
    channel,
};
use serde::{Deserialize, Serialize};
use std::hint::spin_loop;
use std::thread::JoinHandle;
use upbeat_cli::bench::timing::{Round, Work};

/// ipc-channel, blocking and polling.
pub(super) fn ways() -> Vec<Way> {
    let way = |mode, about| Way {
        peer: "ipc-channel",
        carrier: "unix",
        mode,
        about,
        absent: NO_READS,
        burst: 5_000,
        open: Open::Pair { serve, call },
    };
    vec![
        way(Mode::Sleeping, "a channel each way, `recv`"),
        way(Mode::Polling, "a channel each way, `try_recv` in a loop"),
    ]
}

/// The ends that the serving side holds.
#[derive(Serialize, Deserialize)]
struct Ends {
    null: (IpcSender<()>, IpcReceiver<()>),
    bytes: (IpcBytesSender, IpcBytesReceiver),
    /// The receiver of one-way messages.
    messages: IpcReceiver<u64>,
    tallies: IpcSender<[u64; 2]>,
}

/// Waits for a message with `recv`, or with `try_recv` in a loop.
#[inline]
fn receive<T, E: std::fmt::Display>(
    mode: Mode,
    recv: impl Fn() -> Result<T, E>,
    try_recv: impl Fn() -> Result<T, TryRecvError>,
) -> Result<T, Fault> {
    if mode == Mode::Sleeping {
        return recv().map_err(fault("receiving"));
    }
    loop {
        match try_recv() {
            Ok(came) => return Ok(came),
            Err(TryRecvError::Empty) => spin_loop(),
            Err(error) => return Err(fault("receiving")(error)),
        }
    }
}

#[inline]
fn typed<T>(mode: Mode, from: &IpcReceiver<T>) -> Result<T, Fault>
where
    T: for<'de> Deserialize<'de> + Serialize,
{
    receive(mode, || from.recv(), || from.try_recv())
}

#[inline]
fn untyped(mode: Mode, from: &IpcBytesReceiver) -> Result<Vec<u8>, Fault> {
    receive(mode, || from.recv(), || from.try_recv())
}

fn note(mode: Mode) -> String {
    format!("ipc-channel.{}", mode.word())
}

struct Answerer {
    mode: Mode,
    /// The thread that receives the ends while the first round begins.
    coming: Option<JoinHandle<Result<Ends, Fault>>>,
    ends: Option<Ends>,
}

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let (server, name) = IpcOneShotServer::<Ends>::new().map_err(fault("a one-shot server"))?;
    place.tell(&note(place.mode), &name)?;
    let accept = || server.accept().map(|(_, ends)| ends).map_err(fault("accepting"));
    let coming = Some(std::thread::spawn(accept));
    Ok(Box::new(Answerer { mode: place.mode, coming, ends: None }))
}

impl Serve for Answerer {
    fn round(&mut self, op: Op, work: Work) -> Result<(), Fault> {
        if let Some(coming) = self.coming.take() {
            let ends = coming.join().map_err(|_| Fault::new("accepting panicked"))?;
            self.ends = Some(ends?);
        }
        let gone = || Fault::new("the channels never came");
        let (mode, ends) = (self.mode, self.ends.as_ref().ok_or_else(gone)?);
        match op {
            Op::Null => (0..work.total()).try_for_each(|_| {
                typed(mode, &ends.null.1)?;
                ends.null.0.send(()).map_err(fault("sending"))
            }),
            Op::KiB1 => (0..work.total()).try_for_each(|_| {
                let came = untyped(mode, &ends.bytes.1)?;
                ends.bytes.0.send(&came).map_err(fault("sending"))
            }),
            Op::Stream => {
                for count in work.laps() {
                    let mut tally = Tally::default();
                    for _ in 0..count {
                        tally.add(typed(mode, &ends.messages)?);
                    }
                    ends.tallies.send([tally.count, tally.sum]).map_err(fault("sending"))?;
                }
                Ok(())
            }
            Op::Read | Op::ReadKiB1 => Err(unknown(op)),
        }
    }
}

struct Caller {
    mode: Mode,
    null: (IpcSender<()>, IpcReceiver<()>),
    bytes: (IpcBytesSender, IpcBytesReceiver),
    messages: IpcSender<u64>,
    tallies: IpcReceiver<[u64; 2]>,
    payload: Payload,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let name = place.told(&note(place.mode))?;
    let server = IpcSender::<Ends>::connect(name).map_err(fault("connecting"))?;
    let to_null = channel().map_err(fault("a channel"))?;
    let of_null = channel().map_err(fault("a channel"))?;
    let to_bytes = bytes_channel().map_err(fault("a channel"))?;
    let of_bytes = bytes_channel().map_err(fault("a channel"))?;
    let messages = channel().map_err(fault("a channel"))?;
    let tallies = channel().map_err(fault("a channel"))?;
    let ends = Ends {
        null: (of_null.0, to_null.1),
        bytes: (of_bytes.0, to_bytes.1),
        messages: messages.1,
        tallies: tallies.0,
    };
    server.send(ends).map_err(fault("sending the channels"))?;
    Ok(Box::new(Caller {
        mode: place.mode,
        null: (to_null.0, of_null.1),
        bytes: (to_bytes.0, of_bytes.1),
        messages: messages.0,
        tallies: tallies.1,
        payload: Payload::new(),
    }))
}

impl Call for Caller {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Caller { mode, null, bytes, messages, tallies, payload } = self;
        match op {
            Op::Null => work.try_run(|| {
                null.0.send(()).map_err(fault("sending"))?;
                typed(*mode, &null.1)
            }),
            Op::KiB1 => work.try_run(|| {
                bytes.0.send(payload.next()).map_err(fault("sending"))?;
                payload.check(&untyped(*mode, &bytes.1)?)
            }),
            Op::Stream => work.try_bursts(|count| {
                (0..u64::from(count))
                    .try_for_each(|n| messages.send(n).map_err(fault("sending")))?;
                let [came, sum] = typed(*mode, tallies)?;
                Tally { count: came, sum }.check(count)
            }),
            Op::Read | Op::ReadKiB1 => Err(unknown(op)),
        }
    }
}
