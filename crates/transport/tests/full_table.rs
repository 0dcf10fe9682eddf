//! A full table of descriptors: the error names the limit, the peer is told, and the listener goes on. This is one
//! test, because the limit is the whole process's.

mod common;

use common::{Fixture, Pair, descriptors, finish};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use std::os::fd::OwnedFd;
use upbeat_core::hello::RefusalCode;
use upbeat_transport::carrier::{Kind, SocketError};
use upbeat_transport::error::{HomeError, OpenError};
use upbeat_transport::local_node::LocalNode;
use upbeat_transport::opening::{Opening, Step};
use upbeat_transport::watch::{Watch, WatchError};
use upbeat_transport::{local, shared};

const LIMIT: u64 = 100;

/// Opens descriptors until `spare` numbers are left.
fn fill(spare: usize) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    loop {
        match rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 0) {
            Ok(descriptor) => taken.push(descriptor),
            Err(Errno::MFILE) => break,
            Err(error) => panic!("{error}"),
        }
    }
    taken.truncate(taken.len() - spare);
    taken
}

fn is_full(error: &OpenError) -> bool {
    matches!(error, OpenError::Descriptors { limit: LIMIT })
}

#[test]
fn a_full_table() {
    let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    let fixture = Fixture::new(Kind::Shared, "full");
    the_caller_is_told(&fixture);
    at_any_step_of_a_handshake(&fixture);
    outside_of_handshakes(&fixture);
    segments_that_find_no_number(&fixture);
}

fn the_caller_is_told(fixture: &Fixture) {
    let mut callers: Vec<Opening> = (0..3).map(|i| fixture.connect(i, 0).unwrap()).collect();
    let mut taken = fill(0);
    for caller in &mut callers {
        let error = fixture.try_accept(1, 0).err().unwrap();
        assert!(is_full(&error), "{error}");
        assert!(error.to_string().contains("ulimit"), "{error}");
        let error = caller.step(0).err().unwrap();
        let OpenError::Refused { code, .. } = &error else { panic!("{error}") };
        assert_eq!(*code, RefusalCode::TooManyDescriptors);
        // This takes the number that the refused caller has freed.
        taken.extend(fill(0));
    }
    // No caller is left to be told, so nothing is readable and nothing spins.
    assert!(is_full(&fixture.try_accept(1, 0).err().unwrap()) || fixture.accept(1, 0).is_none());
    drop((taken, callers));
    fixture.pair(1, 2);
}

fn at_any_step_of_a_handshake(fixture: &Fixture) {
    let before = descriptors();
    let mut through = 0;
    for spare in 0..16 {
        let taken = fill(spare);
        let opened = open(fixture).map(drop);
        drop(taken);
        match opened {
            Ok(()) => through += 1,
            // One side finds the table full, and the other is refused.
            Err(OpenError::Refused { code: RefusalCode::TooManyDescriptors, .. }) => {}
            Err(error) => assert!(is_full(&error), "{spare} left: {error}"),
        }
        fixture.pair(3, 4);
        assert_eq!(descriptors(), before, "{spare} left");
    }
    assert!((5..12).contains(&through), "{through}");
}

fn open(fixture: &Fixture) -> Result<Pair, OpenError> {
    let mut near = fixture.connect(1, 0)?;
    let mut far = fixture.try_accept(2, 0)?.expect("a caller");
    finish(&mut near, &mut far)
}

fn outside_of_handshakes(fixture: &Fixture) {
    let taken = fill(0);
    let error = LocalNode::new(common::program("test"), None).err().unwrap();
    assert_eq!(error, HomeError::Descriptors { limit: LIMIT });
    let error = shared::Listener::bind(&fixture.place, &fixture.client).err().unwrap();
    assert!(error.to_string().contains("ulimit"), "{error}");
    let error = local::Listener::bind(&fixture.client).err().unwrap();
    assert!(error.to_string().contains("ulimit"), "{error}");
    let mut watch = Watch::new();
    let error = watch.watch(std::process::id()).err().unwrap();
    assert_eq!(error, WatchError::Descriptors { limit: LIMIT });
    drop(taken);
    assert!(watch.watch(std::process::id()).unwrap().is_some());
    drop(shared::Listener::bind(&fixture.place, &fixture.client).unwrap());
}

fn segments_that_find_no_number(fixture: &Fixture) {
    let Pair { near, far } = fixture.pair(1, 2);
    let (generation, bytes) = near.writer().next_growth().unwrap();
    let segment = near.make_segment("upbeat-lane", bytes).unwrap();
    near.send_segment(u32::from(generation), &segment).unwrap();
    let taken = fill(0);
    assert_eq!(far.drain().err(), Some(SocketError::Descriptors { limit: LIMIT }));
    drop(taken);

    // This listener has no number for its caller's segments.
    let mut near = fixture.connect(1, 0).unwrap();
    let mut far = fixture.accept(2, 0).unwrap();
    assert!(matches!(far.step(0), Ok(Step::Waiting)));
    assert!(matches!(near.step(0), Ok(Step::Waiting)));
    let taken = fill(1);
    assert!(is_full(&far.step(0).err().unwrap()));
    drop(taken);
    let error = near.step(0).err().unwrap();
    assert!(matches!(error, OpenError::Refused { code: RefusalCode::TooManyDescriptors, .. }));
}
