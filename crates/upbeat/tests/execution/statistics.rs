//! What a node tells of its methods: what they were called for, and what became of that.

use crate::common::{Directory, Signal, Watchdog, first, node};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use upbeat::sync::Mutex;
use upbeat::{CallError, Counter, MethodStatistics, Node, Statistics, Waiting};

const LONG: Duration = Duration::from_secs(3600);

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
}

struct Fate(Mutex<()>);

#[upbeat::service]
impl Fates for Fate {
    async fn nothing(&self) {}

    async fn naps(&self, ms: u64) {
        upbeat::sleep(Duration::from_millis(ms)).await;
    }

    async fn locks(&self) {
        let _held = self.0.lock().await;
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
        node.serve(FatesServer::new(Fate(Mutex::new(()))));
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
        let given_up = first(fates.stays(), upbeat::sleep(Duration::from_millis(20))).await;
        assert!(given_up.is_err());
        let late = fates.stays().deadline(Duration::from_millis(20)).await;
        assert_eq!(late, Err(CallError::Deadline));
        assert!(matches!(fates.never_waits().await, Err(CallError::Failed { .. })));
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
    let _watchdog = Watchdog::new("statistics", 60);
    let (told, name) = told(|node| {
        // At any time, and again at the end, once.
        assert_eq!(of(&node.statistics(), "note").calls, 3);
        node.shut_down(Duration::from_secs(1));
        drop(node);
    });
    let all: Vec<Statistics> = told.iter().collect();
    let [told] = &all[..] else { panic!("told {} times", all.len()) };
    assert_eq!(told.node, name);
    assert_eq!(told.methods.len(), 7);
    for (method, calls, inline, tasks) in [
        ("nothing", 11, 11, 0),
        ("naps", 2, 0, 2),
        ("locks", 2, 0, 2),
        ("stays", 2, 0, 2),
        ("task", 3, 0, 3),
        ("never_waits", 1, 0, 0),
        ("note", 3, 3, 0),
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
    assert!(of(told, "naps").longest >= of(told, "naps").mean);
    let text = told.to_string();
    assert!(text.contains("Fates.naps") && text.contains("timer 2"), "{text}");
    let json = told.to_json();
    let task =
        "\"method\":\"task\",\"calls\":3,\"inline\":0,\"tasks\":3,\"tasks_by\":{\"at once\":3}";
    assert!(json.contains(task), "{json}");
}

#[test]
fn a_node_that_is_dropped_tells_as_well() {
    let _watchdog = Watchdog::new("statistics of a dropped node", 60);
    let (told, _) = told(drop);
    assert_eq!(told.iter().count(), 1);
}

#[test]
fn nobody_is_told_who_did_not_ask() {
    let node = Node::builder("statistics/none").local_only().statistics(false).build().unwrap();
    node.serve(FatesServer::new(Fate(Mutex::new(()))));
    assert!(node.statistics().methods.is_empty());
}
