//! Sections that handlers and the application's tasks share: who waits, who is served, what is
//! counted, and what is reported when nobody is.

use crate::common::process::{Other, linger, one_test, say};
use crate::common::server::{KINDS, Kind};
use crate::common::{Directory, PROGRAM, Signal as Told, Watchdog};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use upbeat::sync::{Condvar, Monitor, RwLock, Semaphore, Signal};
use upbeat::{Counter, Mutex, Node, Waiting};

/// The number of the application's task in the log.
const APPLICATION: u64 = 1_000;
/// From when on waits are reported.
const STUCK: Duration = Duration::from_millis(40);

/// The sections, by number.
const SECTIONS: u8 = 4;
/// The number of conditions to wait for and to signal.
const CONDITIONS: u8 = 3;

#[upbeat::service]
trait Desk {
    /// Has the application's task go into a section, and gives when it is inside.
    async fn occupy(&self, section: u8);
    /// Has it leave.
    async fn vacate(&self);
    /// Writes its number down inside of a section.
    async fn stamp(&self, section: u8, number: u64);
    /// Enters the section and leaves the stamp, if the lock is free within the time.
    async fn stamp_within(&self, section: u8, number: u64, ms: u64) -> bool;
    /// Writes its number down when it was signalled.
    async fn when(&self, condition: u8, priority: u32, number: u64);
    #[oneway]
    async fn tell(&self, condition: u8);
    /// The numbers so far.
    async fn stamped(&self) -> Vec<u64>;
    async fn counted(&self, counter: u64) -> u64;
    /// Takes one fork, and then the other.
    async fn dine(&self, first: u8, second: u8);
    /// Returns the reports.
    async fn reports(&self) -> Vec<String>;
}

struct Inner {
    node: Node,
    mutex: Mutex<Vec<u64>>,
    lock: RwLock<Vec<u64>>,
    permits: Semaphore,
    monitor: Monitor<Vec<u64>, 1>,
    signal: Signal,
    condvar: Condvar,
    forks: [Mutex<()>; 2],
    vacate: Signal,
    stamps: RefCell<Vec<u64>>,
    reports: Rc<RefCell<Vec<String>>>,
}

impl Inner {
    /// Writes a number down inside of a section, and stays as long as `stay` does.
    async fn stamp_and(&self, section: u8, number: u64, stay: impl Future<Output = ()>) {
        let write = || self.stamps.borrow_mut().push(number);
        match section {
            0 => {
                let mut inside = self.mutex.lock().await;
                write();
                stay.await;
                inside.push(number);
            }
            1 => {
                let mut inside = self.lock.write().await;
                write();
                stay.await;
                inside.push(number);
            }
            2 => {
                let _inside = self.permits.acquire(2).await;
                write();
                stay.await;
            }
            _ => {
                let mut inside = self.monitor.enter().await;
                write();
                stay.await;
                inside.push(number);
            }
        }
    }
}

struct Served(Rc<Inner>);

impl Desk for Served {
    async fn occupy(&self, section: u8) {
        let (inside, is_inside) = upbeat::sync::oneshot();
        let inner = Rc::clone(&self.0);
        let application = self.0.node.spawn(async move {
            let stay = async {
                let _ = inside.send(());
                inner.vacate.wait(0).await;
            };
            inner.stamp_and(section, APPLICATION, stay).await;
        });
        drop(application);
        is_inside.await.expect("it goes in");
    }

    async fn vacate(&self) {
        assert!(self.0.vacate.signal());
    }

    async fn stamp(&self, section: u8, number: u64) {
        self.0.stamp_and(section, number, async {}).await;
    }

    async fn stamp_within(&self, section: u8, number: u64, ms: u64) -> bool {
        let stamp = self.0.stamp_and(section, number, async {});
        upbeat::within(Duration::from_millis(ms), stamp).await.is_ok()
    }

    async fn when(&self, condition: u8, priority: u32, number: u64) {
        match condition {
            0 => self.0.signal.wait(priority).await,
            1 => drop(self.0.condvar.wait(self.0.mutex.lock().await).await),
            _ => drop(self.0.monitor.enter().await.wait_with(0, priority).await),
        }
        self.0.stamps.borrow_mut().push(number);
    }

    async fn tell(&self, condition: u8) {
        match condition {
            0 => assert!(self.0.signal.signal()),
            1 => assert!(self.0.condvar.notify_one()),
            _ => assert!(self.0.monitor.enter().await.signal(0)),
        }
    }

    async fn stamped(&self) -> Vec<u64> {
        self.0.stamps.borrow().clone()
    }

    async fn counted(&self, counter: u64) -> u64 {
        self.0.node.counted(Counter::ALL[counter as usize])
    }

    async fn dine(&self, first: u8, second: u8) {
        let [first, second] = [first, second].map(|fork| &self.0.forks[usize::from(fork)]);
        let _first = first.lock().await;
        // The sleep lets the other task take its first lock as well.
        upbeat::sleep(Duration::from_millis(20)).await;
        let _second = second.lock().await;
    }

    async fn reports(&self) -> Vec<String> {
        self.0.reports.borrow().clone()
    }
}

fn serve(name: &str, place: &Path, quit: Told, ready: impl FnOnce()) {
    let reports: Rc<RefCell<Vec<String>>> = Rc::default();
    let reported = Rc::clone(&reports);
    let builder = Node::builder(name).program(PROGRAM).directory(place);
    let node = builder
        .stuck_after(STUCK)
        .on_stuck(move |stuck| reported.borrow_mut().push(stuck.to_string()))
        .build()
        .unwrap();
    let inner = Rc::new(Inner {
        node: node.clone(),
        mutex: Mutex::named("mutex", vec![]),
        lock: RwLock::named("lock", vec![]),
        permits: Semaphore::named("permits", 2),
        monitor: Monitor::named("monitor", vec![], ["told"]),
        signal: Signal::named("signal"),
        condvar: Condvar::named("condvar"),
        forks: ["left fork", "right fork"].map(|name| Mutex::named(name, ())),
        vacate: Signal::new(),
        stamps: RefCell::default(),
        reports,
    });
    node.serve(DeskServer::new(Served(inner))).unwrap();
    ready();
    node.block_on(quit);
    node.shut_down(Duration::from_secs(1));
}

/// Plays a process that serves a desk. False if the part is another.
pub(crate) fn play(part: &str, place: &Path) -> bool {
    if !part.starts_with("desk/") {
        return false;
    }
    let quit = Told::default();
    let ended = quit.clone();
    std::thread::spawn(move || {
        linger();
        ended.give();
    });
    serve(part, place, quit, || say("serving"));
    true
}

/// Does something with a desk that another thread or another process serves.
fn at_desk(kind: Kind, work: impl AsyncFnOnce(&Node, DeskClient)) {
    let directory = Directory::new();
    let place = directory.path();
    let unique = place.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let (name, quit) = (format!("desk/{unique}"), Told::default());
    let mut other = None;
    let mut thread = None;
    match kind {
        Kind::Shared => other.insert(Other::start(&name, &place)).expect("serving"),
        Kind::Local => {
            let (name, place, quit) = (name.clone(), place.clone(), quit.clone());
            let (ready, is_ready) = std::sync::mpsc::channel();
            let run = move || serve(&name, &place, quit, || ready.send(()).unwrap());
            thread = Some(std::thread::spawn(run));
            is_ready.recv().unwrap();
            String::new()
        }
    };
    let node = crate::common::node(&format!("guest/{unique}"), &place, Waiting::Adaptive);
    node.block_on(async {
        let desk = node.connect(&name).await.unwrap();
        work(&node, desk).await;
    });
    quit.give();
    if let Some(thread) = thread {
        thread.join().unwrap();
    }
    if let Some(mut other) = other {
        other.end();
    }
}

async fn lost_to(desk: &DeskClient, counter: Counter) -> u64 {
    desk.counted(counter as u64).await.unwrap()
}

/// Waits until so many bets more were lost for this reason.
async fn are_lost(desk: &DeskClient, counter: Counter, count: u64) {
    while lost_to(desk, counter).await != count {
        upbeat::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn handlers_wait_for_the_application_give_the_processor_back_and_go_on_in_order() {
    let _watchdog = Watchdog::new("sections");
    for kind in KINDS {
        at_desk(kind, async |node, desk| {
            for section in 0..SECTIONS {
                let earlier = desk.stamped().await.unwrap();
                desk.occupy(section).await.unwrap();
                let before = lost_to(&desk, Counter::PromotedByLock).await;
                let mut calls = Vec::new();
                for number in 0..8 {
                    let desk = desk.clone();
                    let call = async move { desk.stamp(section, number).await };
                    calls.push(node.spawn(async move {
                        // One gives up where it stands, in the middle.
                        let limit = Duration::from_millis(if number == 3 { 5 } else { 60_000 });
                        upbeat::within(limit, call).await.is_ok_and(|called| called.is_ok())
                    }));
                }
                are_lost(&desk, Counter::PromotedByLock, before + 8).await;
                let given_up = calls.remove(3).await.unwrap();
                // The application goes on, and others are answered, while they wait.
                let inside = [&earlier[..], &[APPLICATION]].concat();
                assert_eq!((given_up, desk.stamped().await), (false, Ok(inside.clone())));
                desk.vacate().await.unwrap();
                for call in calls {
                    assert!(call.await.unwrap());
                }
                let order = [&inside[..], &[0, 1, 2, 4, 5, 6, 7]].concat();
                assert_eq!(desk.stamped().await, Ok(order), "section {section}");
                // A handler that finds the section free is done when it is first polled.
                let won = lost_to(&desk, Counter::HandlersInline).await;
                desk.stamp(section, 8).await.unwrap();
                assert_eq!(lost_to(&desk, Counter::HandlersInline).await, won + 2);
            }
        });
    }
}

#[test]
fn handlers_wait_for_conditions_in_the_order_of_their_priorities() {
    let _watchdog = Watchdog::new("conditions");
    for kind in KINDS {
        at_desk(kind, async |node, desk| {
            for condition in 0..CONDITIONS {
                let earlier = desk.stamped().await.unwrap();
                let before = lost_to(&desk, Counter::PromotedByCondition).await;
                let calls = [(1, 10), (7, 11), (3, 12), (7, 13)].map(|(priority, number)| {
                    let desk = desk.clone();
                    node.spawn(async move { desk.when(condition, priority, number).await })
                });
                are_lost(&desk, Counter::PromotedByCondition, before + 4).await;
                for _ in 0..4 {
                    desk.tell(condition).await.unwrap();
                }
                for call in calls {
                    assert_eq!(call.await.unwrap(), Ok(()));
                }
                // A condition of a mutex has no priorities.
                let order = if condition == 1 { [10, 11, 12, 13] } else { [11, 13, 12, 10] };
                assert_eq!(desk.stamped().await, Ok([&earlier[..], &order].concat()));
            }
        });
    }
}

#[test]
fn who_waits_too_long_is_reported_with_who_holds_what_it_waits_for() {
    let _watchdog = Watchdog::new("deadlock");
    for kind in KINDS {
        at_desk(kind, async |node, desk| {
            desk.occupy(0).await.unwrap();
            let (left, right) = (desk.clone(), desk.clone());
            let one = node.spawn(async move {
                let limit = Duration::from_millis(300);
                upbeat::within(limit, left.dine(0, 1)).await.is_ok()
            });
            let two = node.spawn(async move { right.dine(1, 0).await });
            let reports = loop {
                let mut reports = desk.reports().await.unwrap();
                reports.retain(|one| one.contains("Desk.dine"));
                if reports.len() >= 2 {
                    break reports;
                }
                upbeat::sleep(Duration::from_millis(1)).await;
            };
            for (report, fork) in reports.iter().zip(["`right fork`", "`left fork`"]) {
                let (waits, held) = report.split_once("; held by ").expect("it is held");
                assert!(waits.starts_with("the handler of `Desk.dine` of node `desk/"), "{report}");
                assert!(waits.contains(&format!("ms for the mutex {fork}, at ")), "{report}");
                assert!(held.starts_with("the handler of `Desk.dine` since "), "{report}");
                let line = |text: &str| -> u32 {
                    assert!(text.contains("execution/sync.rs:"), "{report}");
                    text.rsplit(':').nth(1).unwrap().parse().unwrap()
                };
                assert_eq!(line(waits), line(held) + 3, "{report}");
            }
            // One gives up, and the other dines.
            assert!(!one.await.unwrap());
            assert_eq!(two.await.unwrap(), Ok(()));
            // Nobody waits for the application's section, and it waits for what nobody holds.
            let reports = desk.reports().await.unwrap();
            assert!(!reports.iter().any(|one| one.contains("`mutex`")), "{reports:?}");
            let signal = reports.iter().find(|one| one.contains(" for the signal, at "));
            let signal = signal.expect("the application waits as well");
            assert!(signal.starts_with("task ") && !signal.contains("held"), "{signal}");
            desk.vacate().await.unwrap();
        });
    }
}

#[test]
fn what_is_not_watched_is_not_reported() {
    let _watchdog = Watchdog::new("no reports");
    let builder = Node::builder("unwatched").local_only().stuck_after(Duration::ZERO);
    let node = builder.on_stuck(|stuck| panic!("{stuck}")).build().unwrap();
    let mutex = Mutex::new(());
    node.block_on(async {
        let _held = mutex.lock().await;
        assert!(upbeat::within(2 * STUCK, mutex.lock()).await.is_err());
    });
}

#[test]
fn a_number_that_is_none_is_refused() {
    // In a process of its own: others read the environment as well.
    let mut command = one_test(concat!(module_path!(), "::builds"));
    let output = command.env("UPBEAT_STUCK_MS", "soon").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("UPBEAT_STUCK_MS is `soon`: give the milliseconds"), "{text}");
}

/// Builds a node, which fails only under the variable of the test above.
#[test]
fn builds() {
    let built = Node::builder("builds").local_only().build().map(drop);
    match std::env::var("UPBEAT_STUCK_MS").as_deref() {
        Ok("soon") => println!("{}", built.unwrap_err()),
        _ => built.unwrap(),
    }
}

#[test]
fn a_future_that_was_late_goes_on_where_it_stood() {
    let _watchdog = Watchdog::new("late");
    let node = Node::builder("late").local_only().build().unwrap();
    let gate = Rc::new(Signal::new());
    let begun = Rc::new(std::cell::Cell::new(0));
    node.block_on(async {
        let work = async {
            begun.set(begun.get() + 1);
            gate.wait(0).await;
            7
        };
        assert_eq!(upbeat::within(Duration::ZERO, async { 7 }).await.ok(), Some(7), "it is done");
        let late = upbeat::within(Duration::from_millis(1), work).await.unwrap_err();
        assert_eq!(late.after, Duration::from_millis(1));
        assert!(gate.has_waiters(), "it stands where it stood");
        // Held against a longer time, then dropped; and once more, awaited to its end.
        let late = upbeat::within(Duration::from_millis(1), late.pending).await.unwrap_err();
        gate.signal();
        assert_eq!((late.pending.await, begun.get()), (7, 1));
        let late = upbeat::within(Duration::from_millis(1), gate.wait(0)).await.unwrap_err();
        assert!(gate.has_waiters());
        assert_eq!(late.give_up().after, Duration::from_millis(1));
        assert!(!gate.has_waiters(), "it is dropped");
    });
}

#[test]
fn a_time_limit_that_is_kept_wakes_nobody_later() {
    let _watchdog = Watchdog::new("kept");
    let node = Node::builder("kept").local_only().build().unwrap();
    let polls = node.block_on(async {
        for ms in 5..45 {
            let yields = upbeat::within(Duration::from_millis(ms), upbeat::yield_now());
            assert!(yields.await.is_ok());
        }
        let (mut polls, mut sleep) = (0, std::pin::pin!(upbeat::sleep(Duration::from_millis(50))));
        std::future::poll_fn(|context| {
            polls += 1;
            sleep.as_mut().poll(context).map(|()| polls)
        })
        .await
    });
    assert!(polls <= 5, "it was woken {polls} times");
}

#[test]
fn a_bet_that_is_lost_within_a_time_limit_is_lost_to_what_was_awaited() {
    let _watchdog = Watchdog::new("reasons");
    at_desk(Kind::Local, async |_, desk| {
        desk.occupy(0).await.unwrap();
        assert_eq!(desk.stamp_within(0, 1, 5).await, Ok(false));
        let timers = lost_to(&desk, Counter::PromotedByTimer).await;
        assert_eq!((lost_to(&desk, Counter::PromotedByLock).await, timers), (1, 0));
        desk.vacate().await.unwrap();
    });
}
