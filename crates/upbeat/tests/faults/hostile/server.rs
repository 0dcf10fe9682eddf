//! A hostile server, and its callers.

use super::{TargetClient, TargetHandle, Twig};
use crate::common::process::{end_with_input, say};
use crate::common::{PROGRAM, Random};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use upbeat::{CallError, InPlace, Node, within};
use upbeat_core::bind::{BIND, BindRequest, Offered, bind};
use upbeat_core::frame::{CallNumber, Flags, Head, Kind, Placed};
use upbeat_core::limits::SLAB_GENERATION;
use upbeat_core::method::Signature;
use upbeat_core::name::ProgramId;
use upbeat_memory::region::Region;
use upbeat_memory::slab::Borrowed;
use upbeat_transport::carrier::{self, Carrier};
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::Step;
use upbeat_transport::shared::Listener;
use upbeat_transport::socket_directory::SocketDirectory;

fn wait(descriptor: BorrowedFd<'_>, ms: i64) {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    let limit = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
    let _ = poll(&mut polled, Some(&limit));
}

/// Replies to bind requests correctly, mostly, and to others at random. Runs until it is killed.
pub(crate) fn serve_garbage(name: &str, place: &Path, seed: u64) {
    end_with_input();
    let mut random = Random::new(seed);
    let honesty = |random: &mut Random| (Manner::Garbage, random.below(40));
    serve(name, place, &mut random, honesty, || say("serving"), || false);
}

/// Answers additions alone, each behind the control that it asks for: of the code that is its first number, about the
/// second. Until that is over.
pub(crate) fn serve_control(
    name: &str,
    place: &Path,
    serving: impl FnOnce(),
    is_over: impl Fn() -> bool,
) {
    serve(name, place, &mut Random::new(1), |_| (Manner::Control, u64::MAX), serving, is_over);
}

/// How it answers calls.
enum Manner {
    Garbage,
    Control,
}

fn serve(
    name: &str,
    place: &Path,
    random: &mut Random,
    honesty: impl Fn(&mut Random) -> (Manner, u64),
    serving: impl FnOnce(),
    is_over: impl Fn() -> bool,
) {
    let place = SocketDirectory::at(place).unwrap();
    let program = ProgramId::named(PROGRAM.parse().unwrap());
    let home = LocalNode::new(program, Some(name.parse().unwrap())).unwrap();
    let listener = Listener::bind(&place, &home).unwrap();
    // The polling flag of the server is cleared, so every client rings.
    home.page().clear_polling();
    serving();
    let mut sessions: Vec<Imp> = Vec::new();
    while !is_over() {
        if let Ok(Some(mut opening)) = listener.accept(&home, sessions.len() % 4000, 0) {
            loop {
                match opening.step(0) {
                    Ok(Step::Waiting) => wait(opening.as_fd(), 1000),
                    Ok(Step::Done(carrier)) => {
                        break sessions.push(Imp::new(carrier, honesty(random)));
                    }
                    Ok(_) | Err(_) => break,
                }
            }
        }
        home.page().set_polling();
        home.page().clear_polling();
        sessions.retain_mut(|imp| imp.answer(random));
        match sessions.first() {
            None => wait(listener.as_fd(), 100),
            Some(_) => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}

/// A session of the hostile server.
struct Imp {
    carrier: Carrier,
    manner: Manner,
    /// So many answers are right.
    honest: u64,
    /// The client's slabs, and segments of others.
    slabs: HashMap<u32, Arc<Borrowed>>,
    announced: u32,
    segments: Vec<carrier::Segment>,
    /// Requests that have come.
    requests: u64,
}

impl Imp {
    fn new(carrier: Carrier, (manner, honest): (Manner, u64)) -> Imp {
        let (slabs, segments) = (HashMap::new(), Vec::new());
        Imp { carrier, manner, honest, slabs, announced: 0, segments, requests: 0 }
    }

    /// False when the session is over.
    fn answer(&mut self, random: &mut Random) -> bool {
        match self.carrier.drain() {
            Ok(drained) if !drained.closed => self.segments.extend(drained.segments),
            _ => return false,
        }
        while let Ok(Some(words)) = self.carrier.reader().look() {
            let carrier = &self.carrier;
            let Ok(head) = Head::parse(words) else { return false };
            let mut payload = vec![0; head.len as usize];
            if payload.len() <= carrier.payload().room() {
                carrier.payload().read(0, &mut payload);
            }
            if self.take_over(&head, &mut payload).is_none() {
                return false;
            }
            let carrier = &self.carrier;
            carrier.reader().advance();
            if head.kind == Kind::Switch && self.follow(&head).is_none() {
                return false;
            }
            let carrier = &self.carrier;
            carrier.reader().publish_progress();
            if head.kind.is_request() && !head.flags.has(Flags::GRANTED) {
                self.requests += 1;
                carrier.reader().publish_accepted(self.requests);
            }
            match head.kind {
                Kind::Call => self.reply(&head, &payload, random),
                Kind::Reserve => self.grant(random),
                _ => {}
            }
        }
        self.carrier.ring();
        true
    }

    /// Goes on where the client's lane does.
    fn follow(&mut self, head: &Head) -> Option<()> {
        let region = self.handed(head.call.generation())?;
        self.carrier.reader().next_growth()?;
        self.carrier.reader().grow(region);
        Some(())
    }

    /// A segment that the client has handed over.
    fn handed(&mut self, generation: u32) -> Option<Region> {
        self.segments.extend(self.carrier.drain().ok()?.segments);
        let at = self.segments.iter().position(|handed| handed.generation == generation)?;
        self.segments.swap_remove(at).open().ok()
    }

    /// Takes a slab over, or the payload that lies in one.
    fn take_over(&mut self, head: &Head, payload: &mut Vec<u8>) -> Option<()> {
        let word = |payload: &[u8], at: u32| {
            u64::from_le_bytes(payload[at as usize..at as usize + 8].try_into().unwrap())
        };
        if head.kind == Kind::Slab {
            let shape = word(payload, 0);
            let region = self.handed(SLAB_GENERATION + self.announced)?;
            let returns = self.carrier.reader().returns_for(head.call.index() as usize);
            let (each, count) = (shape as u32 as usize, (shape >> 32) as u32);
            let slab = Arc::new(Borrowed::new(region, each, count, returns));
            self.announced += 1;
            self.slabs.insert(head.call.index(), slab);
        }
        if let Some(at) = head.flags.offset_of(Flags::PLACED) {
            let placed = Placed::from_u64(word(payload, at));
            let slab = self.slabs.get(&placed.slab.into())?;
            let loan = slab.take(placed.index.into(), placed.len as usize).ok()?;
            *payload = vec![0; placed.len as usize];
            loan.read(0, payload);
        }
        Some(())
    }

    /// Says something about room that was asked for.
    fn grant(&self, random: &mut Random) {
        let number = self.requests - 1;
        let grant = |number| self.frame(Head::grant(number).words(), &[]);
        match random.below(if self.honest > 0 { 60 } else { 12 }) {
            0 => {}
            1 => grant(number + random.below(3)),
            2 => self.frame(Head::nack(number).words(), &[]),
            // Accepted before it has gone, and that twice.
            3 => (0..2).for_each(|_| grant(number)),
            _ => {
                self.carrier.reader().publish_accepted(number);
                grant(number);
            }
        }
    }

    /// A lie about room and buffers.
    fn lie(&self, head: &Head, random: &mut Random) {
        let number = random.below(self.requests + 3);
        let carrier = &self.carrier;
        let placed = Placed {
            slab: random.below(3) as u16,
            index: random.below(70) as u16,
            len: [0, 8, 512, 4096, u32::MAX][random.below(5) as usize],
        };
        let reply = Head::reply(head.call, 8).with_flags(Flags::PLACED);
        let time = [0, 1, 50_000, u64::MAX][random.below(4) as usize].to_le_bytes();
        match random.below(10) {
            0 => self.frame(Head::grant(number).words(), &[]),
            1 => self.frame(Head::nack(number).words(), &[]),
            2 => self.frame(Head::withdraw(number).words(), &[]),
            3 => carrier.reader().publish_accepted([number, u64::MAX, 0][random.below(3) as usize]),
            4 => self.frame(reply.words(), &placed.as_u64().to_le_bytes()),
            5 => {
                let segment = self.carrier.make_segment("hostile", 4096).unwrap();
                // A client that is gone is found out later.
                let _ = self.carrier.send_segment(SLAB_GENERATION, &segment);
                let shape = [512, 8, 4096][random.below(3) as usize] | (1 + random.below(8)) << 32;
                self.frame(Head::slab(random.below(2) as u32).words(), &shape.to_le_bytes());
                self.frame(reply.words(), &placed.as_u64().to_le_bytes());
            }
            6 => self.frame(Head::retire(random.below(3) as u32).words(), &[]),
            // More time for what was called, over and over, and for what never was.
            7 => (0..3).for_each(|_| self.frame(Head::extend(head.call).words(), &time)),
            8 => {
                let call = CallNumber::new(head.call.index() ^ 1, head.call.generation());
                self.frame(Head::extend(call).words(), &time);
                self.frame(Head::extended(head.call).words(), &time);
            }
            _ => (0..32).for_each(|slab| {
                carrier.reader().returns_for(slab).toggle(0, random.next());
            }),
        }
    }

    fn reply(&mut self, head: &Head, payload: &[u8], random: &mut Random) {
        let call = head.call;
        if head.method == BIND && self.honest > 2 {
            let length = u64::from_le_bytes(payload[..8].try_into().unwrap()) as usize;
            let request = BindRequest::decode(&payload[8..8 + length]).unwrap();
            // Every method is there, with any signature that the caller asks for.
            let signatures = signatures();
            let offered: Vec<_> =
                (1..).zip(&signatures).map(|(number, of)| Offered::new(of, number)).collect();
            let reply = bind(&request, &offered).encode();
            let mut bytes = (reply.len() as u64).to_le_bytes().to_vec();
            bytes.extend(reply);
            return self.frame(Head::reply(call, bytes.len() as u32).words(), &bytes);
        }
        if let Manner::Control = self.manner {
            let [code, about] =
                [0, 8].map(|at| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap()));
            self.frame(Head::control(code as u16, about as u32).words(), &[]);
            let sum = code.wrapping_add(about).to_le_bytes();
            return self.frame(Head::reply(call, 8).words(), &sum);
        }
        self.honest = self.honest.saturating_sub(1);
        let noise: Vec<u8> = (0..random.below(400)).map(|_| random.next() as u8).collect();
        let len = noise.len() as u32;
        match random.below(if self.honest > 0 { 3 } else { 12 }) {
            0 => self.frame(Head::reply(call, len).words(), &noise),
            1 => self.frame(Head::failed(call, len.max(1)).words(), &noise),
            2 => self.frame(Head::reply(call, 16).words(), &[0xff; 16]),
            3 => {
                self.frame(Head::reply(call, 8).words(), &[1; 8]);
                self.frame(Head::reply(call, 8).words(), &[1; 8]);
            }
            4 => self.frame([random.next() | 0x100, random.next(), random.next()], &noise),
            5 => self.frame(Head::switch(1).words(), &[]),
            6..10 => {
                self.lie(head, random);
                self.frame(Head::reply(call, 8).words(), &[1; 8]);
            }
            10 => self.frame(Head::call(1, call, len).words(), &noise),
            // Silence.
            _ => {}
        }
    }

    fn frame(&self, words: [u64; 3], payload: &[u8]) {
        let span = upbeat_memory::ring::span_of(payload.len());
        if let Ok(mut claim) = self.carrier.writer().claim(span, 0)
            && words[0] & 0xff00 != 0
        {
            claim.write(0, payload);
            claim.commit(words, payload.len());
        }
    }
}

/// The signatures of the methods.
fn signatures() -> [Signature; 6] {
    use upbeat::wire::signature;
    type Outcome = Result<String, String>;
    [
        signature::<(u64, u64), u64>("Target", "add", false, &[]),
        signature::<(u64,), Vec<u8>>("Target", "blob", false, &[]),
        signature::<(), ()>("Target", "forever", false, &[]),
        signature::<(Vec<u8>,), Vec<u8>>("Target", "bytes", false, &[]),
        signature::<(InPlace<u8>,), InPlace<u8>>("Target", "mirror", false, &[]),
        signature::<(Twig,), Outcome>("Target", "record", false, &[]),
    ]
}

/// Connects and calls all that there is. Whether it came to that.
pub(crate) async fn call_all(node: &Node) -> bool {
    let while_ = Duration::from_millis(50);
    let connected = within(while_, node.connect::<TargetClient>("imp")).await;
    let Ok(Ok(target)) = connected else { return false };
    for round in 0..6 {
        // The next call would open another session, which the next round does.
        if node.sessions() == 0 {
            break;
        }
        let twig = Twig { name: "t".into(), twigs: Vec::new(), next: None };
        let _ = within(while_, target.add(round, 1)).await;
        for bytes in [50, 100, 3000, 30_000, 70_000] {
            if node.sessions() == 0 {
                return true;
            }
            let _ = within(while_, target.bytes(vec![1; bytes])).await;
        }
        let _ = within(while_, target.mirror(InPlace::from(vec![1; 3000]))).await;
        let _ = within(while_, target.record(twig)).await;
        let _ = target.blob(5).deadline(while_).await;
        let began = Instant::now();
        let _ = target.blob(6).deadline(while_).extendable(2 * while_).await;
        assert!(began.elapsed() < Duration::from_secs(20));
        // Answered at some time, or never, and left.
        let _ = within(Duration::from_micros(100), target.forever()).await;
    }
    true
}

/// Calls from a thread, over a session that only these calls use.
pub(crate) fn call_by_handle(place: &Path) {
    let while_ = Duration::from_millis(50);
    let handle = upbeat::handle::builder().program(PROGRAM).directory(place);
    let handle = handle.connect_within(4 * while_);
    let Ok(target) = handle.connect::<TargetHandle>("imp") else { return };
    let blocking = target.blocking().deadline(while_).extendable(2 * while_);
    for round in 0..60 {
        // The caller goes on after every other error, until the session has ended.
        if let Err(CallError::Unknown(_) | CallError::NotSent(_)) = blocking.add(round, 1) {
            break;
        }
    }
}
