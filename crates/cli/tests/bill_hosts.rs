//! Tests `upbeat bill` with two processes that connect as hosts do: over TCP, and over TLS.

#[allow(dead_code, reason = "the made-up program is for other tests")]
mod program;

use program::{Scratch, bill, printed};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write, stderr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use upbeat::{Builder, Counter, Identity, Node};

/// The variable with the directory of the sockets, set in the server's process.
const PLACE: &str = "UPBEAT_TEST_HOSTS_PLACE";
/// The variable with the file of both sides' identity; without a file the connection is not encrypted.
const IDENTITY: &str = "UPBEAT_TEST_HOSTS_IDENTITY";
/// The variable with the name of the server.
const SERVER: &str = "UPBEAT_TEST_HOSTS_SERVER";
/// The number of samples that the test waits for.
const SAMPLES: u64 = 500;
/// The time after which the watchdog ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

#[upbeat::service]
trait Sums {
    async fn add(&self, a: u64, b: u64) -> u64;
    #[oneway]
    async fn note(&self, a: u64);
}

struct Here;

impl Sums for Here {
    async fn add(&self, a: u64, b: u64) -> u64 {
        a + b
    }

    async fn note(&self, _: u64) {}
}

fn builder(name: &str, place: &Path, identity: Option<&str>) -> Builder {
    let builder = Node::builder(name).program("demo").directory(place).shared_memory(false);
    match identity {
        None => builder.insecure_plaintext(),
        Some(path) => builder.identity(Identity::load(path).unwrap()),
    }
}

/// Runs the server. In the test's own process this function does nothing.
#[test]
fn the_server() {
    let Ok(place) = std::env::var(PLACE) else { return };
    std::thread::spawn(|| {
        // The input is closed when the test ends, even if the test panics.
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(0);
    });
    let identity = std::env::var(IDENTITY).ok();
    let builder = builder(&std::env::var(SERVER).unwrap(), place.as_ref(), identity.as_deref());
    let node = builder.listen("127.0.0.1:0").build().unwrap();
    node.serve(SumsServer::new(Here)).unwrap();
    println!("@serving {}", node.listens_at().unwrap());
    node.block_on(std::future::pending::<()>());
}

/// A server process that ends with the test.
struct Server {
    child: Child,
    at: String,
}

impl Server {
    fn start(name: &str, place: &str, identity: Option<&str>) -> Server {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_server", "--nocapture"]);
        command.env(PLACE, place).env(SERVER, name).envs(identity.map(|path| (IDENTITY, path)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let at = lines.find_map(|line| Some(line.split_once("@serving ")?.1.trim().to_owned()));
        Server { child, at: at.expect("it ended before it served") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends the process with a message if the test still holds the returned sender after `PATIENCE`.
fn watchdog(what: String) -> Sender<()> {
    let (over, ended) = channel();
    std::thread::spawn(move || {
        if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            // The message bypasses the test harness, which shows printed text only after the test.
            let _ = writeln!(stderr(), "watchdog: {what} is not done after {PATIENCE:?}");
            std::process::abort();
        }
    });
    over
}

/// Issues an identity for all nodes of the program, with the commands that a user has.
fn identity(scratch: &Scratch) -> String {
    let (authority, path) = (scratch.path("ca"), scratch.path("nodes.pem"));
    for line in [
        format!("init --program demo --dir {authority}"),
        format!("issue --program demo --dir {authority} * -o {path}"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_upbeat"));
        let output = command.arg("keys").args(line.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    path
}

/// The bills of two nodes after calls and one-way messages over a network.
struct Billed {
    /// The bill of the caller's node as text.
    text: String,
    caller: Value,
    /// The bill of the server's node, which contains the one-way messages.
    server: Value,
    /// The bill of the caller's node as a page.
    page: String,
    /// The server's address.
    at: String,
}

/// Makes calls and sends one-way messages over a network until there are samples.
fn bill_of(what: &str, is_encrypted: bool) -> Billed {
    let scratch = Scratch::new(&format!("hosts-{what}"));
    let identity = is_encrypted.then(|| identity(&scratch));
    let (server, client) = (format!("server/{what}"), format!("client/{what}"));
    let sockets = scratch.path("sockets");
    let running = Server::start(&server, &sockets, identity.as_deref());
    let node = builder(&client, sockets.as_ref(), identity.as_deref()).sampling(1);
    let node = node.build().unwrap();
    node.block_on(async {
        let sums: SumsClient = node.connect(&format!("{server}@{}", running.at)).await.unwrap();
        while node.counted(Counter::SamplesTaken) < SAMPLES {
            sums.note(1).await.unwrap();
            assert_eq!(sums.add(1, 2).await, Ok(3));
        }
    });
    let page = scratch.path("page.html");
    let text = printed(&bill(&[&client, "--seconds", "0", "--all", "--html", &page]));
    let json = |node| printed(&bill(&[node, "--seconds", "0", "--all", "--json"]));
    let [caller, server] =
        [&client, &server].map(|node| serde_json::from_str(&json(node)).unwrap());
    let page = std::fs::read_to_string(page).unwrap();
    Billed { text, caller, server, page, at: running.at.clone() }
}

/// Returns a function that looks up the mean and median of an item, and checks that the items add up to the whole.
fn items(bill: &Value, method: &str) -> impl Fn(&str, &str) -> Option<(f64, f64)> {
    let subjects = bill["subjects"].as_array().unwrap();
    let subject = subjects.iter().find(|one| one["method"] == method).expect("a method");
    let lines = subject["lines"].as_array().unwrap().clone();
    let mean = |of: &Value| of["mean"].as_f64().unwrap();
    let (sum, whole) = (lines.iter().map(mean).sum::<f64>(), mean(&subject["whole"]));
    assert!((sum - whole).abs() < 1e-9 * whole, "{sum} of {whole}");
    move |item, leg| {
        let line = lines.iter().find(|line| line["item"] == item && line["leg"] == leg)?;
        Some((mean(line), line["p50"].as_f64().unwrap()))
    }
}

/// Checks a bill: one method, over one session, whose items add up to the whole.
fn holds(what: &str, carrier: &str, is_encrypted: bool) {
    let _watchdog = watchdog(format!("the bill over {carrier}"));
    let Billed { text, caller: json, server: receiver, page, at } = bill_of(what, is_encrypted);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Sessions from to carried by samples offset of clocks"), "{text}");
    let session = format!("client/{what} server/{what} {carrier}, {at} ");
    let (_, session) = words.split_once(&session).expect(&text);
    let cells: Vec<&str> = session.split(' ').take(2).collect();
    let samples: u64 = cells[0].replace(',', "").parse().expect(&text);
    assert_eq!(cells[1], "±", "{text}");

    let subjects = json["subjects"].as_array().unwrap();
    assert_eq!(subjects.len(), 1, "{json:#}");
    let (subject, lines) = (&subjects[0], subjects[0]["lines"].as_array().unwrap());
    assert_eq!(subject["method"], "add");
    // Some samples only measure the cost of a stamp.
    let count = |of: &str| subject[of].as_u64().unwrap();
    assert!(samples == count("stories") + count("pairs") && samples > SAMPLES / 2, "{text}");
    assert_eq!(subject["carrier"], carrier.to_lowercase().as_str());
    let mean = |of: &Value| of["mean"].as_f64().unwrap();
    let whole = mean(&subject["whole"]);
    // The socket work of each side is a separate item in the leg of that side.
    let (ns, of_note) = (items(&json, "add"), items(&receiver, "note"));
    // The table of the page has a row for each item of each node.
    let rows: Vec<&str> = page.split("<tr><th scope=\"row\" title=").skip(1).collect();
    for (item, is_there) in [("write", true), ("read", true), ("encrypt", is_encrypted)] {
        for (leg, node) in [("caller", "client"), ("callee", "server")] {
            let told = ns(item, leg);
            assert_eq!(told.is_some(), is_there, "{item} of the {leg}: {text}");
            if let Some((mean, p50)) = told {
                assert!(0.0 < mean && mean <= whole && p50 > 0.0, "{item} of the {leg}: {text}");
            }
            assert_eq!(words.contains(&format!("{item} {node}/{what} ")), is_there, "{text}");
            let told = format!(">{item} <small><bdi>{node}/{what}</bdi>");
            let is_row = rows
                .iter()
                .any(|row| row.split("</th>").next().is_some_and(|head| head.contains(&told)));
            assert_eq!(is_row, is_there, "{item} of the {leg} in the page");
        }
        // The sender of a one-way message writes it, and the receiver reads it.
        let told = [of_note(item, "caller"), of_note(item, "callee")];
        let is_reading = item == "read";
        assert_eq!(
            told.map(|told| told.is_some()),
            [!is_reading && is_there, is_reading],
            "{item}"
        );
        let spent = |(mean, p50): (f64, f64)| mean > 0.0 && p50 > 0.0;
        assert!(told.into_iter().flatten().all(spent), "{item}: {receiver:#}");
    }
    // The server also has the calls that it has served.
    let theirs = receiver["subjects"].as_array().unwrap();
    let of = |method: &str| theirs.iter().find(|one| one["method"] == method).expect("a method");
    assert_eq!(of("add")["way"], "served call");
    let taken = |name: &str| of("note")[name].as_u64().unwrap();
    assert!(taken("stories") + taken("pairs") > SAMPLES / 2, "{receiver:#}");
    // The wire contains at least two system calls in each direction.
    let wire = lines.iter().filter(|line| line["leg"] == "out" || line["leg"] == "back");
    assert!(wire.map(mean).sum::<f64>() > 1_000.0, "{text}");
}

#[test]
fn the_items_of_a_call_over_tcp_add_up_to_the_whole() {
    holds("tcp", "TCP", false);
}

#[test]
fn the_items_of_a_call_under_tls_add_up_to_the_whole() {
    holds("tls", "TLS", true);
}
