//! Tests of a node's statistics of its methods: their calls, and the outcomes.

use crate::common::process::one_test;
use crate::common::{BEGINS, Directory, Signal, Watchdog, first, node};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use upbeat::error::FailCode;
use upbeat::sync::Mutex;
use upbeat::{BuildError, CallError, Counter, MethodStatistics, Node, Statistics, Waiting};

const LONG: Duration = Duration::from_secs(3600);
/// The calls that run beyond their budget.
const LONG_CALLS: u64 = 20;

#[upbeat::service]
trait Fates {
    async fn nothing(&self);
    async fn naps(&self, ms: u64);
    async fn locks(&self);
    async fn stays(&self);
    async fn task(&self) -> u64;
    async fn never_waits(&self);
    #[oneway]
    async fn note(&self);
    /// Is sent back twice.
    #[method(nack)]
    async fn asked(&self);
    async fn begins_later(&self);
    async fn panics(&self, late: bool);
    /// Computes for so long, beyond its budget.
    async fn runs_on(&self, ms: u64);
}

#[derive(Default)]
struct Fate {
    lock: Mutex<()>,
    asked: Cell<u64>,
}

impl Fate {
    fn asks(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() > 2
    }
}

#[upbeat::service]
impl Fates for Fate {
    async fn nothing(&self) {}

    async fn naps(&self, ms: u64) {
        upbeat::sleep(Duration::from_millis(ms)).await;
    }

    async fn locks(&self) {
        let _held = self.lock.lock().await;
        upbeat::yield_now().await;
    }

    async fn stays(&self) {
        upbeat::sleep(LONG).await;
    }

    #[method(execution = "trpc")]
    async fn task(&self) -> u64 {
        7
    }

    #[method(execution = "am")]
    async fn never_waits(&self) {
        upbeat::sleep(LONG).await;
    }

    async fn note(&self) {}

    #[method(needs(self.asks()))]
    async fn asked(&self) {}

    #[method(needs(self.asked.get() > 100))]
    async fn begins_later(&self) {}

    async fn panics(&self, late: bool) {
        if late {
            upbeat::yield_now().await;
        }
        // As `panic!` does, but without a line on the screen.
        std::panic::resume_unwind(Box::new("it panics"));
    }

    #[method(execution = "trpc", budget = "1ms")]
    async fn runs_on(&self, ms: u64) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(ms) {
            std::hint::spin_loop();
        }
    }
}

/// Has a service called as the tests of this file expect, and gives what its node told at its end.
fn told(ends: impl FnOnce(Node) + Send + 'static) -> (Receiver<Statistics>, String) {
    let directory = Directory::new();
    let place = directory.path();
    let name = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let (tell, told) = channel();
    let (ready, is_ready) = channel();
    let quit = Signal::default();
    let (at, own, given) = (place.clone(), name.clone(), quit.clone());
    let server = std::thread::spawn(move || {
        let builder = Node::builder(&own).program(crate::common::PROGRAM).directory(&at);
        let builder = builder.on_statistics(move |told| tell.send(told.clone()).unwrap());
        let node = builder.build().unwrap();
        node.serve(FatesServer::new(Fate::default())).unwrap();
        ready.send(()).unwrap();
        node.block_on(given);
        ends(node);
    });
    is_ready.recv().unwrap();
    let client = node(&format!("client/{name}"), &place, Waiting::Adaptive);
    client.block_on(async {
        let fates: FatesClient = client.connect(&name).await.unwrap();
        for _ in 0..10 {
            fates.nothing().await.unwrap();
        }
        for _ in 0..3 {
            fates.note().await.unwrap();
            assert_eq!(fates.task().await, Ok(7));
        }
        fates.naps(2).await.unwrap();
        fates.naps(4).await.unwrap();
        let (one, other) = (Rc::new(fates.clone()), fates.clone());
        let waits = client.spawn(async move { one.locks().await });
        other.locks().await.unwrap();
        waits.await.unwrap().unwrap();
        let given_up = first(fates.stays(), upbeat::sleep(BEGINS)).await;
        assert!(given_up.is_err());
        let late = fates.stays().deadline(BEGINS).await;
        assert_eq!(late, Err(CallError::deadline(true)));
        assert!(matches!(fates.never_waits().await, Err(CallError::Failed { .. })));
        fates.asked().await.unwrap();
        fates.begins_later().await.unwrap();
        for late in [false, true] {
            let panicked = fates.panics(late).await;
            assert!(matches!(panicked, Err(CallError::Failed { code: FailCode::Panicked, .. })));
        }
        for _ in 0..LONG_CALLS / 2 {
            fates.runs_on(8).await.unwrap();
            fates.runs_on(2).await.unwrap();
        }
        // The cancel went before this.
        fates.nothing().await.unwrap();
    });
    quit.give();
    server.join().unwrap();
    (told, name)
}

fn of<'s>(told: &'s Statistics, method: &str) -> &'s MethodStatistics {
    told.methods.iter().find(|of| of.method == method).unwrap()
}

#[test]
fn each_method_says_what_became_of_its_calls() {
    let _watchdog = Watchdog::new("statistics");
    let (told, name) = told(|node| {
        // At any time, and again at the end, once.
        assert_eq!(of(&node.statistics(), "note").calls, 3);
        node.shut_down(Duration::from_secs(1));
        drop(node);
    });
    let all: Vec<Statistics> = told.iter().collect();
    let [told] = &all[..] else { panic!("told {} times", all.len()) };
    assert_eq!(told.node, name);
    assert_eq!(told.methods.len(), 11);
    for (method, calls, inline, tasks) in [
        ("nothing", 11, 11, 0),
        ("naps", 2, 0, 2),
        ("locks", 2, 0, 2),
        ("stays", 2, 0, 2),
        ("task", 3, 0, 3),
        ("never_waits", 1, 0, 0),
        ("note", 3, 3, 0),
        ("asked", 3, 1, 0),
        ("begins_later", 1, 0, 1),
        ("panics", 2, 0, 1),
        ("runs_on", LONG_CALLS, 0, LONG_CALLS),
    ] {
        let of = of(told, method);
        assert_eq!((of.calls, of.inline(), of.became_tasks()), (calls, inline, tasks), "{method}");
        assert_eq!(of.service, "Fates");
    }
    let counted = |method, counter| of(told, method).counted(counter);
    assert_eq!(counted("naps", Counter::PromotedByTimer), 2);
    assert_eq!(counted("task", Counter::StartedAsTasks), 3);
    assert_eq!(counted("never_waits", Counter::HandlersEnded), 1);
    // Either side may find first that the second is late.
    let expired = counted("stays", Counter::OrphansExpired);
    assert_eq!(counted("stays", Counter::OrphansEnded) + expired, 2);
    assert_eq!(counted("asked", Counter::HandlersRefused), 2);
    assert_eq!(counted("begins_later", Counter::PromotedByCondition), 1);
    // The one that panics where its message lies.
    assert_eq!(counted("panics", Counter::Panics), 1);
    // On a busy machine some of them are excused, whose thread waited for a processor.
    let over_runs = counted("runs_on", Counter::OverRuns);
    assert!((1..=LONG_CALLS).contains(&over_runs), "{over_runs}");
    // Every other one ran for longer.
    let ran = of(told, "runs_on");
    // The processor's counter and the system's clock are not the same to a microsecond.
    assert!(ran.longest >= Duration::from_micros(7_950), "{:?}", ran.longest);
    assert!((Duration::from_millis(5)..ran.longest).contains(&ran.mean), "{:?}", ran.mean);
    let text = told.to_string();
    assert!(text.contains("Fates.naps") && text.contains("timer 2"), "{text}");
    let json = told.to_json();
    let task =
        "\"method\":\"task\",\"calls\":3,\"inline\":0,\"tasks\":3,\"tasks_by\":{\"at once\":3}";
    assert!(json.contains(task), "{json}");
    let ran_on = format!("\"refused\":0,\"panics\":0,\"ended\":0,\"over_runs\":{over_runs}");
    for (method, part) in [
        ("asked", "\"refused\":2,\"panics\":0,\"ended\":0,\"over_runs\":0"),
        ("never_waits", "\"refused\":1,\"panics\":0,\"ended\":0,\"over_runs\":0"),
        ("stays", "\"refused\":0,\"panics\":0,\"ended\":2,\"over_runs\":0"),
        ("panics", "\"refused\":0,\"panics\":1,\"ended\":0,\"over_runs\":0"),
        ("runs_on", &*ran_on),
    ] {
        let (_, behind) = json.split_once(&format!("\"method\":\"{method}\"")).unwrap();
        let of = behind.split_once('}').unwrap().1.split('}').next().unwrap();
        assert!(of.contains(part), "{method}: {of}");
    }
}

/// Ends a node that was told nothing, and one that was told to say nothing; or says why it cannot.
#[test]
fn ends_a_node() {
    let build = |name| Node::builder(name).local_only();
    for builder in [build("said"), build("unsaid").statistics(false)] {
        match builder.build() {
            Ok(node) => node.serve(FatesServer::new(Fate::default())).unwrap(),
            Err(error @ BuildError::Statistics { .. }) => eprintln!("{error}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn the_environment_asks_where_the_application_does_not() {
    let _watchdog = Watchdog::new("statistics by the environment");
    let said = |asked: &str| {
        // In a process of its own: others read the environment as well.
        let mut command = one_test(concat!(module_path!(), "::ends_a_node"));
        let output = command.env("UPBEAT_STATISTICS", asked).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let text = said("1");
    assert!(text.starts_with("upbeat: what was called at `said`\nmethod "), "{text}");
    assert!(text.contains("Fates.naps ") && !text.contains("unsaid"), "{text}");
    assert!(text.lines().nth(1).unwrap().contains(" long polls "), "{text}");
    let json = said("json");
    assert!(json.starts_with("{\"node\":\"said\",\"methods\":[{\"service\":\"Fates\","), "{json}");
    assert_eq!(json.lines().count(), 1, "{json}");
    assert_eq!(said("0"), "");
    let wrong = said("yes");
    assert!(wrong.contains("UPBEAT_STATISTICS is `yes`, and not `0`, `1` or `json`"), "{wrong}");
}

#[test]
fn a_node_that_is_dropped_tells_as_well() {
    let _watchdog = Watchdog::new("statistics of a dropped node");
    let (told, _) = told(drop);
    assert_eq!(told.iter().count(), 1);
}

#[test]
fn nobody_is_told_who_did_not_ask() {
    let node = Node::builder("statistics/none").local_only().statistics(false).build().unwrap();
    node.serve(FatesServer::new(Fate::default())).unwrap();
    assert!(node.statistics().methods.is_empty());
}
