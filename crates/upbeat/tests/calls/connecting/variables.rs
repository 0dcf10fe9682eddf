//! The variables of the environment that are documented: each sets what it names, in a process of its own.

use crate::common::process::{Other, input_ends, say};
use crate::common::secure::Authority;
use crate::common::work::{WorkClient, WorkHandle, WorkServer, Worker};
use crate::common::{Directory, PROGRAM, Watchdog, node, shares_memory, soon};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use upbeat::handle::HandleBuilder;
use upbeat::{Counter, Identity, Node, Waiting};

pub(crate) fn play(part: &str, place: &Path) -> bool {
    let words: Vec<&str> = part.split(' ').collect();
    match words[..] {
        ["variables", "serve", ref how @ ..] => serve(how.first().copied().unwrap_or(""), place),
        ["variables", "call", to] => {
            let work: WorkHandle = handle(place).connect(to).unwrap();
            say(&format!("called {}", work.blocking().add(1, 2).unwrap()));
        }
        ["variables", "ask"] => ask(place),
        ["variables", "build"] => {
            let built = Node::builder("built").directory(place).build();
            say(&format!(
                "built {}",
                built.err().map(|error| error.to_string()).unwrap_or_default()
            ));
        }
        _ => return false,
    }
    true
}

/// Serves until the input ends, as a node that leaves open what a variable may say.
fn serve(how: &str, place: &Path) {
    let builder = Node::builder("server").directory(place);
    let node = match how {
        "plain" => builder.program(PROGRAM).insecure_plaintext(),
        "listening" => builder.program(PROGRAM).listen("127.0.0.1:0"),
        "anyone" => builder,
        _ => builder.program(PROGRAM),
    };
    let node = node.build().unwrap();
    node.serve(WorkServer::new(Worker::default())).unwrap();
    let quit = input_ends();
    let at = node.listens_at().map_or_else(|| "nowhere".to_owned(), |at| at.to_string());
    say(&format!("serving {at}"));
    node.block_on(quit);
}

/// Calls a node of this process with an argument that does not fit into a slot, and says how often room was asked for.
fn ask(place: &Path) {
    let server = node("asked", place, Waiting::Adaptive);
    server.serve(WorkServer::new(Worker::default())).unwrap();
    let name = "asked".to_owned();
    let directory = place.to_owned();
    let asking = std::thread::spawn(move || {
        let client = node("asking", &directory, Waiting::Adaptive);
        let work: WorkClient = client.block_on(client.connect(&name)).unwrap();
        assert_eq!(client.block_on(work.bytes(vec![7; 4096])).unwrap().len(), 4096);
        client.counted(Counter::RoomAsked)
    });
    server.block_on(async {
        while !asking.is_finished() {
            upbeat::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    say(&format!("asked {}", asking.join().unwrap()));
}

fn handle(place: &Path) -> HandleBuilder {
    upbeat::handle::builder().program(PROGRAM).directory(place)
}

/// Starts a part under these variables, and under no others of Upbeat's.
fn start(variables: &[&str], part: &str, place: &Path) -> Other {
    let mut env = Command::new("env");
    for name in
        ["LISTEN", "IDENTITY", "SHARED_MEMORY", "CONSERVATIVE", "PROGRAM", "SAMPLING", "EXECUTION"]
    {
        env.arg(format!("--unset=UPBEAT_{name}"));
    }
    env.args(variables);
    Other::start_under(env, part, place)
}

/// Writes an identity of the test's program.
fn identity(directory: &Directory) -> PathBuf {
    let path = directory.path().with_extension("identity");
    let text = Authority::new().lasting(&[&format!("upbeat://{PROGRAM}/*")]);
    let mut options = File::options();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path
}

/// Returns whether variables choose how sessions go: a carrier that a run has for all of them comes before.
fn chooses() -> bool {
    shares_memory("variables choose how sessions go")
}

#[test]
fn upbeat_listen_makes_a_node_listen() {
    let _watchdog = Watchdog::new("UPBEAT_LISTEN");
    if !chooses() {
        return;
    }
    let (directory, elsewhere) = (Directory::new(), Directory::new());
    let mut deaf = start(&[], "variables serve plain", &directory.path());
    assert_eq!(deaf.expect("serving"), "nowhere");
    deaf.end();
    let listen = ["UPBEAT_LISTEN=127.0.0.1:0"];
    let mut server = start(&listen, "variables serve plain", &directory.path());
    let to = format!("server@{}", server.expect("serving"));
    let builder = handle(&elsewhere.path()).insecure_plaintext();
    let work: WorkHandle = builder.connect(&to).unwrap();
    assert_eq!(work.blocking().add(1, 2), Ok(3));
    server.end();
}

#[test]
fn upbeat_identity_is_that_of_nodes_and_handles() {
    let _watchdog = Watchdog::new("UPBEAT_IDENTITY");
    if !chooses() {
        return;
    }
    let (directory, elsewhere) = (Directory::new(), Directory::new());
    let path = identity(&directory);
    let variable = format!("UPBEAT_IDENTITY={}", path.display());
    let mut server = start(&[&variable], "variables serve listening", &directory.path());
    let to = format!("server@{}", server.expect("serving"));
    // A handle that is given the identity reaches the node, and so does one that has it from the environment.
    let given = handle(&elsewhere.path()).identity(Identity::load(&path).unwrap());
    let work: WorkHandle = given.connect(&to).unwrap();
    assert_eq!(work.blocking().add(1, 2), Ok(3));
    let mut caller = start(&[&variable], &format!("variables call {to}"), &elsewhere.path());
    assert_eq!(caller.expect("called"), "3");
    server.end();
    // Without the file a node is not built, and the error names the file.
    let missing = ["UPBEAT_IDENTITY=/nowhere/upbeat.pem"];
    let mut other = start(&missing, "variables build", &directory.path());
    let error = other.expect("built");
    assert!(error.contains("/nowhere/upbeat.pem"), "{error}");
}

#[test]
fn upbeat_shared_memory_forbids_it() {
    let _watchdog = Watchdog::new("UPBEAT_SHARED_MEMORY");
    if !chooses() {
        return;
    }
    for (variable, shares) in [("UPBEAT_SHARED_MEMORY=0", false), ("UPBEAT_SHARED_MEMORY=1", true)]
    {
        let directory = Directory::new();
        let mut server = start(&[variable], "variables serve", &directory.path());
        server.expect("serving");
        let node = node("client", &directory.path(), Waiting::Adaptive);
        node.block_on(async {
            let work: WorkClient = soon(node.connect("server")).await.unwrap();
            assert_eq!(soon(work.add(1, 2)).await, Ok(3));
        });
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.child.id())).unwrap();
        assert_eq!(maps.contains("upbeat-lane"), shares, "{variable}");
        server.end();
    }
}

#[test]
fn upbeat_conservative_has_requests_ask_for_room() {
    let _watchdog = Watchdog::new("UPBEAT_CONSERVATIVE");
    for (variable, asks) in [("UPBEAT_CONSERVATIVE=0", false), ("UPBEAT_CONSERVATIVE=1", true)] {
        let directory = Directory::new();
        let mut asking = start(&[variable], "variables ask", &directory.path());
        assert_eq!(asking.expect("asked") != "0", asks, "{variable}");
    }
}

#[test]
fn upbeat_program_is_that_of_nodes_which_name_none() {
    let _watchdog = Watchdog::new("UPBEAT_PROGRAM");
    if !chooses() {
        return;
    }
    let directory = Directory::new();
    let variable = format!("UPBEAT_PROGRAM={PROGRAM}");
    let mut server = start(&[&variable], "variables serve anyone", &directory.path());
    server.expect("serving");
    let work: WorkHandle = handle(&directory.path()).connect("server").unwrap();
    assert_eq!(work.blocking().add(1, 2), Ok(3));
    server.end();
}

#[test]
fn variables_that_say_nothing_end_the_building_of_a_node() {
    let _watchdog = Watchdog::new("wrong variables");
    if !chooses() {
        return;
    }
    for variable in ["UPBEAT_SAMPLING=often", "UPBEAT_EXECUTION=soon", "UPBEAT_PROGRAM=a/b"] {
        let directory = Directory::new();
        let error = start(&[variable], "variables build", &directory.path()).expect("built");
        let (name, value) = variable.split_once('=').unwrap();
        // A program that cannot be is told by its text alone, since most are named in the source.
        let named = error.contains(name) || name == "UPBEAT_PROGRAM";
        assert!(named && error.contains(value), "{variable}: {error}");
    }
}
