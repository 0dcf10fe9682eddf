//! Arguments by reference: the caller passes what it has, and the callee reads memory that is kept.

mod forms;
mod kept;
mod lies;
mod service;

use crate::common::process::{Other, input_ends, say};
use crate::common::server::{KINDS, Kind, Server};
use crate::common::{Directory, Signal, node};
use service::{Shelf, StoreServer};
use std::path::{Path, PathBuf};
use upbeat::{Node, Waiting};

/// Plays a part of the tests here. False if it is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    match part {
        "store Adaptive" => serve(place, Waiting::Adaptive, input_ends(), &|| say("serving")),
        "store Polling" => serve(place, Waiting::Polling, input_ends(), &|| say("serving")),
        "count Local" => kept::count(Kind::Local, place),
        "count Shared" => kept::count(Kind::Shared, place),
        _ => return false,
    }
    true
}

fn serve(place: &Path, waiting: Waiting, quit: Signal, ready: &dyn Fn()) {
    let node = node(&name("store", place), place, waiting);
    node.serve(StoreServer::new(Shelf::default())).unwrap();
    ready();
    node.block_on(quit);
}

/// The name of a node, which no other test of this process has.
fn name(of: &str, place: &Path) -> String {
    let own = place.parent().and_then(Path::file_name).unwrap();
    format!("{of}-{}", own.display())
}

/// A server of the store in a directory, in another thread or process.
fn server(kind: Kind, place: &Path, waiting: Waiting) -> Server {
    let at = place.to_owned();
    let local = move |quit: Signal, ready: &dyn Fn()| serve(&at, waiting, quit, ready);
    Server::of(kind, || Other::start(&format!("store {waiting:?}"), place), local)
}

/// Does something beside each kind of server.
fn with_each(act: impl Fn(&Node, PathBuf)) {
    for kind in KINDS {
        let directory = Directory::new();
        let _server = server(kind, &directory.path(), Waiting::Adaptive);
        let client = name("client", &directory.path());
        act(&node(&client, &directory.path(), Waiting::Adaptive), directory.path());
    }
}
