//! iceoryx2 over its shared memory, polling, which is how it is used where latency counts: request
//! and response for calls, publish and subscribe for messages. Payloads are written in the buffers that are
//! sent, with two ends at most, and buffers that do not overflow. Its blackboard has the values that are read.

mod blackboard;

use crate::case::{Call, Fault, Mode, Op, Open, Place, Serve, Way, fault};
use crate::payload::{KIB, Payload, Tally};
use blackboard::{Entries, Written};
use iceoryx2::node::Node;
use iceoryx2::port::backpressure_strategy::BackpressureStrategy;
use iceoryx2::port::client::Client;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::server::Server;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{LogLevel, NodeBuilder, ServiceName, ZeroCopySend, ipc, set_log_level};
use iceoryx2::service::port_factory::{publish_subscribe, request_response};
use std::fmt::Debug;
use std::hint::spin_loop;
use upbeat_cli::bench::timing::{Round, Work};

/// The most messages that wait for the subscriber.
const BUFFER: usize = 1024;

/// iceoryx2, polling.
pub(super) fn ways() -> Vec<Way> {
    vec![Way {
        peer: "iceoryx2",
        carrier: "shared",
        mode: Mode::Polling,
        about: "request-response and publish-subscribe, payloads written in place; blackboard",
        absent: &[],
        burst: 20_000,
        open: Open::Pair { serve, call },
    }]
}

/// The payload of a call without arguments, and of the request for the tally: one byte.
type Null = u8;
type Bytes = [u8; KIB];
type Sums = [u64; 2];

type Asking<A, B> = Client<ipc::Service, A, (), B, ()>;
type Answering<A, B> = Server<ipc::Service, A, (), B, ()>;

/// The services that both sides create or open. No other program uses their names.
struct Services {
    node: Node<ipc::Service>,
    scope: String,
}

impl Services {
    fn new(place: &Place<'_>) -> Result<Services, Fault> {
        set_log_level(LogLevel::Error);
        let node = NodeBuilder::new().create::<ipc::Service>().map_err(fault("making a node"))?;
        let scope = place.scratch.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Services { node, scope })
    }

    fn name(&self, what: &str) -> Result<ServiceName, Fault> {
        let name = format!("{}/{what}", self.scope);
        name.as_str().try_into().map_err(|error| fault("naming a service")(format!("{error:?}")))
    }

    fn calls<A, B>(
        &self,
        what: &str,
    ) -> Result<request_response::PortFactory<ipc::Service, A, (), B, ()>, Fault>
    where
        A: Debug + ZeroCopySend,
        B: Debug + ZeroCopySend,
    {
        self.node
            .service_builder(&self.name(what)?)
            .request_response::<A, B>()
            .enable_safe_overflow_for_requests(false)
            .enable_safe_overflow_for_responses(false)
            .max_clients(1)
            .max_servers(1)
            .open_or_create()
            .map_err(fault("opening a service"))
    }

    fn messages(&self) -> Result<publish_subscribe::PortFactory<ipc::Service, u64, ()>, Fault> {
        self.node
            .service_builder(&self.name("messages")?)
            .publish_subscribe::<u64>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(BUFFER)
            .max_publishers(1)
            .max_subscribers(1)
            .open_or_create()
            .map_err(fault("opening a service"))
    }
}

struct Answerer {
    null: Answering<Null, Null>,
    bytes: Answering<Bytes, Bytes>,
    tallies: Answering<Null, Sums>,
    messages: Subscriber<ipc::Service, u64, ()>,
    written: Written,
    _services: Services,
}

fn serve(place: &Place<'_>) -> Result<Box<dyn Serve>, Fault> {
    let services = Services::new(place)?;
    Ok(Box::new(Answerer {
        null: answering(&services, "null")?,
        bytes: answering(&services, "bytes")?,
        tallies: answering(&services, "tallies")?,
        messages: services
            .messages()?
            .subscriber_builder()
            .buffer_size(BUFFER)
            .create()
            .map_err(fault("making a subscriber"))?,
        written: Written::new(&services.node, &services.name("values")?)?,
        _services: services,
    }))
}

fn answering<A, B>(services: &Services, what: &str) -> Result<Answering<A, B>, Fault>
where
    A: Debug + ZeroCopySend,
    B: Debug + ZeroCopySend,
{
    let service = services.calls::<A, B>(what)?;
    service.server_builder().create().map_err(fault("making a server"))
}

/// Waits for a request and sends its reply.
#[inline]
fn answer<A, B>(server: &Answering<A, B>, with: impl FnOnce(&A) -> B) -> Result<(), Fault>
where
    A: Debug + ZeroCopySend,
    B: Debug + ZeroCopySend,
{
    loop {
        if let Some(request) = server.receive().map_err(fault("receiving a request"))? {
            let response = request.loan_uninit().map_err(fault("borrowing a response"))?;
            let response = response.write_payload(with(request.payload()));
            return response.send().map_err(fault("sending a response"));
        }
        spin_loop();
    }
}

impl Serve for Answerer {
    fn round(&mut self, op: Op, work: Work) -> Result<(), Fault> {
        match op {
            Op::Null => (0..work.total()).try_for_each(|_| answer(&self.null, |&byte| byte)),
            Op::KiB1 => (0..work.total()).try_for_each(|_| answer(&self.bytes, |&bytes| bytes)),
            Op::Read | Op::ReadKiB1 => {
                self.written.set();
                Ok(())
            }
            Op::Stream => {
                // A subscriber joins its publisher when it looks for samples, and the publisher waits for it only then.
                self.messages.has_samples().map_err(fault("joining the publisher"))?;
                answer(&self.tallies, |_| Sums::default())?;
                for messages in work.laps() {
                    let mut tally = Tally::default();
                    while tally.count < u64::from(messages) {
                        let message = self.messages.receive();
                        match message.map_err(fault("receiving a message"))? {
                            Some(message) => tally.add(*message),
                            None => spin_loop(),
                        }
                    }
                    answer(&self.tallies, |_| [tally.count, tally.sum])?;
                }
                Ok(())
            }
        }
    }
}

struct Caller {
    null: Asking<Null, Null>,
    bytes: Asking<Bytes, Bytes>,
    tallies: Asking<Null, Sums>,
    messages: Publisher<ipc::Service, u64, ()>,
    entries: Entries,
    payload: Payload,
    _services: Services,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let services = Services::new(place)?;
    Ok(Box::new(Caller {
        null: asking(&services, "null")?,
        bytes: asking(&services, "bytes")?,
        tallies: asking(&services, "tallies")?,
        messages: services
            .messages()?
            .publisher_builder()
            .backpressure_strategy(BackpressureStrategy::DiscardData)
            .create()
            .map_err(fault("making a publisher"))?,
        entries: Entries::new(&services.node, &services.name("values")?)?,
        payload: Payload::new(),
        _services: services,
    }))
}

fn asking<A, B>(services: &Services, what: &str) -> Result<Asking<A, B>, Fault>
where
    A: Debug + ZeroCopySend,
    B: Debug + ZeroCopySend,
{
    let service = services.calls::<A, B>(what)?;
    service.client_builder().create().map_err(fault("making a client"))
}

/// Sends a request, waits for the reply, and reads it in place.
#[inline]
fn ask<A, B, T>(
    client: &Asking<A, B>,
    request: A,
    look: impl FnOnce(&B) -> Result<T, Fault>,
) -> Result<T, Fault>
where
    A: Debug + ZeroCopySend,
    B: Debug + ZeroCopySend,
{
    let place = client.loan_uninit().map_err(fault("borrowing a request"))?;
    let pending = place.write_payload(request).send().map_err(fault("sending a request"))?;
    loop {
        if let Some(response) = pending.receive().map_err(fault("receiving a response"))? {
            return look(response.payload());
        }
        spin_loop();
    }
}

impl Call for Caller {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let Caller { null, bytes, payload, .. } = self;
        match op {
            Op::Null => work.try_run(|| {
                ask(null, 7, |&byte| match byte {
                    7 => Ok(()),
                    _ => Err(Fault::new("a call brought back another byte")),
                })
            }),
            Op::KiB1 => work.try_run(|| {
                let request = *payload.next();
                ask(bytes, request, |came| payload.check(came))
            }),
            Op::Stream => {
                ask(&self.tallies, 0, |_| Ok(()))?;
                work.try_bursts(|messages| self.burst(messages))
            }
            Op::Read | Op::ReadKiB1 => self.entries.round(op, work),
        }
    }
}

impl Caller {
    fn burst(&self, messages: u32) -> Result<(), Fault> {
        for n in 0..u64::from(messages) {
            // A message that a full buffer discards is sent again: the library's own strategy would sleep.
            while self.send(n)? == 0 {
                spin_loop();
            }
        }
        ask(&self.tallies, 0, |&[count, sum]| Tally { count, sum }.check(messages))
    }
    /// Sends a message, and returns the number of its receivers.
    fn send(&self, n: u64) -> Result<usize, Fault> {
        let place = self.messages.loan_uninit().map_err(fault("borrowing a message"))?;
        place.write_payload(n).send().map_err(fault("sending a message"))
    }
}
