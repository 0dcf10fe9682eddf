//! The rules that an `impl` under `#[upbeat::service]` states for its methods, and their effect.
//!
//! The stub compiler writes rules as a constant of the `impl`, and tests of a method's needs as a
//! method of it; a plain `impl` has neither. Invariant: after a test that fails, the body runs from
//! its beginning, once, or the call is refused and the body never runs.

use crate::contain::wake;
use crate::dispatch::Dispatcher;
use crate::execution::Execution;
use crate::sample::Reason;
use crate::sync::Need;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The rules of a method.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Rule {
    /// How the method's handlers are run.
    pub execution: Option<Execution>,
    /// The nanoseconds that a handler may run without a pause.
    pub budget_ns: Option<u64>,
    /// The nanoseconds that a handler may continue, as a task, after its caller is gone.
    pub outlives_ns: Option<u64>,
    /// The bytes of the longest arguments that the method accepts.
    pub max_bytes: Option<usize>,
    /// Whether the method needs locks or conditions.
    pub needs: bool,
    /// The names of the method's arguments.
    pub arguments: &'static [&'static str],
}

impl Rule {
    /// Returns the rules of a method whose arguments have these names.
    #[must_use]
    pub const fn with_arguments(self, arguments: &'static [&'static str]) -> Rule {
        Rule { arguments, ..self }
    }
}

/// The rules of a service.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Rules {
    /// Whether the service's handlers run one after another.
    pub serial: bool,
    /// The rules of some of its methods, by their names.
    pub methods: &'static [(&'static str, Rule)],
}

impl Rules {
    /// No rules.
    pub const NONE: Rules = Rules { serial: false, methods: &[] };

    /// Returns the rules of the method of this name.
    pub const fn of(&self, name: &str) -> Rule {
        let mut at = 0;
        while at < self.methods.len() {
            if is_same(self.methods[at].0.as_bytes(), name.as_bytes()) {
                return self.methods[at].1;
            }
            at += 1;
        }
        Rule {
            execution: None,
            budget_ns: None,
            outlives_ns: None,
            max_bytes: None,
            needs: false,
            arguments: &[],
        }
    }

    /// Returns whether code runs before the body of that method.
    pub const fn guards(&self, name: &str) -> bool {
        self.serial || self.of(name).needs
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Tests the needs of a method, up to the first that is not met.
#[doc(hidden)]
pub struct Needs(());

impl Needs {
    /// Returns whether a need is met.
    pub fn has(&mut self, need: &(impl Need + ?Sized)) -> bool {
        need.is_met() || {
            let unmet = need.unmet();
            Dispatcher::if_driving(|node| {
                node.waits_for_named(unmet.what.into(), unmet.name.as_ref())
            });
            false
        }
    }
}

/// The name of the rule in a message.
const NEEDS: &str = "#[upbeat(needs(…))]";

/// Ends at once if all needs of a method are met, or if the handler is a task already. Otherwise the bet
/// is lost, and this ends when the handler is polled as a task: the body begins there.
#[doc(hidden)]
pub async fn needs(all: impl FnOnce(&mut Needs) -> bool) {
    if Dispatcher::with_current(NEEDS, |node| node.runs_task()) || all(&mut Needs(())) {
        return;
    }
    let mut told = false;
    poll_fn(|_| {
        if std::mem::replace(&mut told, true) {
            return Poll::Ready(());
        }
        // The caller of this poll polls the future again.
        Dispatcher::with_current(NEEDS, |node| node.lacks_needs());
        Poll::Pending
    })
    .await;
}

/// The handlers of a service of which only so many run at once, in the order of their arrival: one after another
/// under `serial`.
#[doc(hidden)]
pub struct Series {
    name: Arc<str>,
    /// The most handlers that run at once.
    at_once: usize,
    /// The running handlers, and after them the waiting ones, in the order of their numbers.
    line: RefCell<VecDeque<(u64, Option<Waker>)>>,
    next: Cell<u64>,
}

impl Series {
    pub(super) fn new(service: &str, at_once: usize) -> Rc<Series> {
        let (line, next) = (RefCell::default(), Cell::new(0));
        let name = match at_once {
            1 => format!("{service} in series"),
            most => format!("{service}, {most} at once"),
        };
        Rc::new(Series { name: name.into(), at_once, line, next })
    }

    /// Returns the turn of a handler that has arrived.
    pub fn arrive(series: Option<&Rc<Series>>) -> Turn {
        let place = series.map(|series| {
            let number = series.next.replace(series.next.get() + 1);
            series.line.borrow_mut().push_back((number, None));
            (Rc::clone(series), number)
        });
        Turn { place }
    }
}

/// The turn of a handler, which is given up when it is dropped.
#[doc(hidden)]
pub struct Turn {
    place: Option<(Rc<Series>, u64)>,
}

impl Turn {
    /// Waits for the turn.
    pub async fn come(self) -> Turn {
        poll_fn(|context| {
            let Some((series, number)) = &self.place else { return Poll::Ready(()) };
            let waker = context.waker().clone();
            let mut line = series.line.borrow_mut();
            let Ok(at) = line.binary_search_by_key(number, |(other, _)| *other) else {
                return Poll::Ready(());
            };
            if at < series.at_once {
                return Poll::Ready(());
            }
            let before = line[at].1.replace(waker);
            drop(line);
            drop(before);
            Dispatcher::if_driving(|node| {
                node.waits_for_named(Reason::Lock, Some(&series.name));
            });
            Poll::Pending
        })
        .await;
        self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some((series, number)) = &self.place else { return };
        let mut line = series.line.borrow_mut();
        let Ok(at) = line.binary_search_by_key(number, |(other, _)| *other) else { return };
        let left = line.remove(at);
        // The first handler that waits may run now.
        let ran = at < series.at_once;
        let next = line.get_mut(series.at_once - 1).filter(|_| ran);
        let next = next.and_then(|(_, waker)| waker.take());
        drop(line);
        next.into_iter().for_each(wake);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Wake};

    /// The number of wake-ups.
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Woken {
        fn times(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn poll_by(turn: Pin<&mut impl Future<Output = Turn>>, woken: &Arc<Woken>) -> Option<Turn> {
        match turn.poll(&mut Context::from_waker(&Waker::from(Arc::clone(woken)))) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    fn poll(turn: Pin<&mut impl Future<Output = Turn>>) -> Option<Turn> {
        poll_by(turn, &Arc::default())
    }

    #[test]
    fn who_has_its_turn_next_is_woken_once_and_nobody_else() {
        let series = Series::new("Shop", 1);
        let [one, two, three, four] = [(); 4].map(|()| Series::arrive(Some(&series)));
        let (mut one, mut two) = (pin!(one.come()), Box::pin(two.come()));
        let (mut three, mut four) = (pin!(three.come()), pin!(four.come()));
        let woken: [Arc<Woken>; 3] = Default::default();
        let first = poll(one.as_mut()).unwrap();
        assert!(poll(two.as_mut()).is_none() && poll(three.as_mut()).is_none());
        assert!(poll_by(four.as_mut(), &woken[1]).is_none());
        // The last waker of a turn is woken, and a turn that was given up in the middle is passed over.
        assert!(poll_by(three.as_mut(), &woken[0]).is_none());
        assert!(poll_by(two.as_mut(), &woken[2]).is_none());
        drop(two);
        let times = || [0, 1, 2].map(|at: usize| woken[at].times());
        assert_eq!(times(), [0; 3]);
        drop(first);
        assert_eq!(times(), [1, 0, 0]);
        assert!(poll(four.as_mut()).is_none());
        let third = poll(three.as_mut()).unwrap();
        assert!(poll_by(four.as_mut(), &woken[1]).is_none());
        drop(third);
        assert_eq!(times(), [1, 1, 0]);
        assert!(poll(four.as_mut()).is_some());
        assert!(series.line.borrow().is_empty(), "nobody stands there any more");
    }

    #[test]
    fn turns_come_in_the_order_of_arrival_also_where_some_are_given_up() {
        let series = Series::new("Shop", 1);
        let [one, two, three, four] = [(); 4].map(|()| Series::arrive(Some(&series)));
        let (mut one, mut two) = (pin!(one.come()), Box::pin(two.come()));
        let (mut three, mut four) = (pin!(three.come()), pin!(four.come()));
        assert!(poll(four.as_mut()).is_none() && poll(two.as_mut()).is_none());
        let first = poll(one.as_mut()).unwrap();
        assert!(poll(two.as_mut()).is_none() && poll(three.as_mut()).is_none());
        drop(first);
        // The second gets its turn and gives it up unused.
        drop(two);
        let third = poll(three.as_mut()).unwrap();
        assert!(poll(four.as_mut()).is_none());
        drop(third);
        assert!(poll(four.as_mut()).is_some());
    }

    #[test]
    fn as_many_have_their_turn_as_may_run_at_once() {
        let series = Series::new("Shop", 2);
        let mut turns = [(); 6].map(|()| Some(Box::pin(Series::arrive(Some(&series)).come())));
        let woken: [Arc<Woken>; 6] = Default::default();
        let mut running = VecDeque::new();
        for (at, turn) in turns.iter_mut().enumerate() {
            let polled = poll_by(turn.as_mut().unwrap().as_mut(), &woken[at]);
            assert_eq!(polled.is_some(), at < 2, "{at}");
            running.extend(polled);
        }
        let times = || [2, 3, 4, 5].map(|at: usize| woken[at].times());
        // A waiting handler gives up its turn, which lets no other handler run.
        turns[3] = None;
        assert_eq!(times(), [0; 4]);
        // The second ends before the first.
        drop(running.pop_back());
        assert_eq!(times(), [1, 0, 0, 0]);
        running.extend(poll(turns[2].as_mut().unwrap().as_mut()));
        assert!(poll_by(turns[4].as_mut().unwrap().as_mut(), &woken[4]).is_none());
        drop(running);
        assert_eq!(times(), [1, 0, 1, 1]);
        assert_eq!(series.line.borrow().len(), 2);
    }

    #[test]
    fn rules_are_found_by_name() {
        const RULE: Rule = Rule {
            execution: Some(Execution::Am),
            budget_ns: None,
            outlives_ns: None,
            max_bytes: None,
            arguments: &[],
            needs: true,
        };
        const RULES: Rules = Rules { serial: false, methods: &[("buy", RULE)] };
        assert!(RULES.guards("buy") && !RULES.guards("bu") && !RULES.guards("buyy"));
        assert_eq!(RULES.of("buy").execution, Some(Execution::Am));
        assert!(!Rules::NONE.guards("buy"));
    }
}
