//! Callers that resume a session of another node of the name than the one that has accepted them.

use crate::common::{Directory, Pair, home, step, terms, wait};
use rustix::event::PollFlags;
use std::net::Ipv4Addr;
use upbeat_core::hello::{RefusalCode, Ticket};
use upbeat_core::limits::PENDING_HANDSHAKES_MAX;
use upbeat_transport::error::OpenError;
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::remote::{Listener, ResumeRequest, Resuming, connect_again};
use upbeat_transport::shared;

/// A caller that asks a node to resume a session.
struct Asking {
    caller: Opening,
    resuming: Resuming,
}

impl Asking {
    /// Has `listener` accept a caller that asks for a session of `of`.
    fn of(of: &LocalNode, (home, listener): (&LocalNode, &Listener)) -> Asking {
        let ticket = Ticket { session: 5_000, incarnation: of.incarnation(), key: [0; 16] };
        let client = crate::common::home("client");
        let request = ResumeRequest::new(&client, ticket, 0).attempt(1);
        let name = home.name().unwrap();
        let times = [0, 1_000];
        let caller = connect_again(name, &request, listener.address(), 0, times, &terms(None));
        let mut caller = caller.unwrap();
        assert!(matches!(step(&mut caller), Ok(Step::Ready)));
        caller.ask();
        assert!(matches!(caller.step(0), Ok(Step::Waiting)));
        wait(listener, PollFlags::IN);
        let mut accepted = listener.accept(home, 0, 0).unwrap().expect("a caller");
        loop {
            match step(&mut accepted).unwrap() {
                Step::Waiting => {}
                Step::Resuming(resuming) => return Asking { caller, resuming },
                _ => panic!("a session to resume"),
            }
        }
    }
}

/// A node that does not look at its callers holds up neither the node that has accepted them nor more than a queue of
/// them. The others are told to come again.
#[test]
fn callers_of_a_stuck_node_take_no_place_of_another() {
    let directory = Directory::new();
    let (healthy, stuck) = (home("cores/1"), home("cores/1"));
    let homes = [&healthy, &stuck];
    let _names = homes.map(|home| shared::Listener::bind(&directory.place(), home).unwrap());
    let [at, other] = homes
        .map(|home| Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), home, terms(None)).unwrap());
    assert_eq!(at.address(), other.address());
    // New callers go to the other node.
    stuck.has_sessions(10_000);
    let mut waiting = Vec::new();
    for _ in 0..PENDING_HANDSHAKES_MAX {
        let Asking { mut caller, resuming } = Asking::of(&stuck, (&healthy, &at));
        at.hand_over(resuming);
        assert!(matches!(caller.step(0), Ok(Step::Waiting)));
        assert_eq!((at.pending(), other.pending()), (0, 0));
        waiting.push(caller);
    }
    let Asking { mut caller, resuming } = Asking::of(&stuck, (&healthy, &at));
    at.hand_over(resuming);
    let refused = step(&mut caller).err();
    let Some(OpenError::Refused { code, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(code, RefusalCode::NoResources, "it is worth another attempt");
    // The node looks at its callers again, and has room for others.
    let accepted = other.accept(&stuck, 0, 0).unwrap().expect("the first one");
    drop(accepted);
    let Asking { mut caller, resuming } = Asking::of(&stuck, (&healthy, &at));
    at.hand_over(resuming);
    assert!(matches!(caller.step(0), Ok(Step::Waiting)));
}

/// A listener that was busy for long resumes a session over a connection that its caller has given up by then. The
/// session waits for the caller's next attempt.
#[test]
fn a_session_outlives_an_attempt_that_its_caller_gives_up() {
    let directory = Directory::new();
    let node = home("cores/3");
    let _name = shared::Listener::bind(&directory.place(), &node).unwrap();
    let at = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), &node, terms(None)).unwrap();
    let (_stand, Pair { far, .. }) = crate::suspended();
    let Asking { mut caller, resuming } = Asking::of(&node, (&node, &at));
    assert!(matches!(step(&mut caller), Ok(Step::Waiting)), "the node has named itself");
    let error = caller.step(60_000).err().expect("a timeout");
    assert!(error.to_string().contains("has not answered"), "{error}");
    resuming.with(&far).unwrap();
    wait(far.socket().unwrap(), PollFlags::IN);
    let drained = far.drain().unwrap();
    assert!(drained.suspended && !drained.closed && drained.refusal.is_none());
}

/// A caller whose node is gone hears that there is no such session.
#[test]
fn a_caller_of_a_node_that_is_gone_is_refused() {
    let directory = Directory::new();
    let (healthy, gone) = (home("cores/2"), home("cores/2"));
    let _name = shared::Listener::bind(&directory.place(), &healthy).unwrap();
    let at = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), &healthy, terms(None)).unwrap();
    let Asking { mut caller, resuming } = Asking::of(&gone, (&healthy, &at));
    at.hand_over(resuming);
    let refused = step(&mut caller).err();
    let Some(OpenError::Refused { code, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((code, at.pending()), (RefusalCode::NoSuchSession, 0));
}
