//! The ready queue: ready tasks, in the order in which they are run.

use super::TaskId;
use std::collections::VecDeque;

/// The priority of a task, which decides how soon the task is run when it is ready.
///
/// Ready tasks of a higher priority are run first. No task starves: normal tasks get at least one of 16 polls for
/// which they wait, and low tasks at least one of 64. Requests that become tasks at once, under `trpc`, run ahead of all
/// others and are not counted.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::cell::RefCell;
/// use std::rc::Rc;
/// use upbeat::{Node, Priority};
///
/// let node = Node::builder("doc/priority").local_only().build()?;
/// let order = Rc::new(RefCell::new(Vec::new()));
/// for priority in [Priority::Low, Priority::Normal, Priority::High] {
///     let order = Rc::clone(&order);
///     drop(node.spawn_with(priority, async move { order.borrow_mut().push(priority) }));
/// }
/// while node.turn() {}
/// assert_eq!(*order.borrow(), [Priority::High, Priority::Normal, Priority::Low]);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Priority {
    /// Low: run after all others, for work that may take its time.
    Low,
    /// Normal: the priority of tasks without another one, of handlers that have become tasks, and of the main future.
    #[default]
    Normal,
    /// High: run before all others.
    High,
}

impl Priority {
    const ALL: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];

    /// Starts a task ahead of the ready tasks of its priority instead of behind them.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    /// use upbeat::{Node, Priority};
    ///
    /// let node = Node::builder("doc/first").local_only().build()?;
    /// let last = Rc::new(Cell::new(0));
    /// let one = Rc::clone(&last);
    /// drop(node.spawn(async move { one.set(1) }));
    /// let two = Rc::clone(&last);
    /// drop(node.spawn_with(Priority::Normal.first(), async move { two.set(2) }));
    /// while node.turn() {}
    /// assert_eq!(last.get(), 1);
    /// # Ok(()) }
    /// ```
    pub const fn first(self) -> Start {
        Start { priority: self, first: true }
    }

    /// Returns the priority of a task.
    #[inline]
    pub(crate) fn of(task: TaskId) -> Priority {
        match task >> super::PRIORITY_SHIFT & 0b11 {
            0 => Priority::Low,
            1 => Priority::Normal,
            _ => Priority::High,
        }
    }
}

/// The start of a task: its priority, and its place among the tasks of that priority.
///
/// ```
/// use upbeat::{Priority, Start};
///
/// let behind_the_others: Start = Priority::Low.into();
/// assert_ne!(behind_the_others, Priority::Low.first());
/// assert_eq!(Start::default(), Priority::Normal.into());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    pub(crate) priority: Priority,
    pub(crate) first: bool,
}

impl From<Priority> for Start {
    fn from(priority: Priority) -> Start {
        Start { priority, first: false }
    }
}

/// The polls of other tasks after which a waiting one has its turn: of low and of normal priority.
const PATIENCE: [u8; 2] = [63, 15];
/// The most tasks for which an empty queue keeps memory.
const KEPT_MAX: usize = 1024;

/// A node's ready tasks.
#[derive(Default)]
pub(crate) struct Ready {
    /// The queues by priority, from the lowest.
    queues: [VecDeque<TaskId>; 3],
    /// The number of polls that went before tasks of low and normal priority since their last turn.
    passed: [u8; 2],
}

impl Ready {
    /// Returns the number of ready tasks.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Returns the highest priority of the ready tasks.
    #[inline]
    pub(crate) fn top(&self) -> Option<Priority> {
        let has = |priority: &&Priority| !self.queues[**priority as usize].is_empty();
        Priority::ALL.iter().rev().find(has).copied()
    }

    /// Puts a task behind the others of its priority.
    #[inline]
    pub(crate) fn push(&mut self, task: TaskId) {
        self.queues[Priority::of(task) as usize].push_back(task);
    }

    /// Puts a task ahead of the others of its priority.
    pub(crate) fn push_first(&mut self, task: TaskId) {
        self.queues[Priority::of(task) as usize].push_front(task);
    }

    /// Takes the task to be run next.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<TaskId> {
        let top = self.top()? as usize;
        let mut turn = top;
        for (lower, passed) in self.passed.iter_mut().enumerate().take(top) {
            if self.queues[lower].is_empty() {
                continue;
            }
            if *passed >= PATIENCE[lower] && turn == top {
                turn = lower;
            } else {
                *passed = passed.saturating_add(1);
            }
        }
        if let Some(passed) = self.passed.get_mut(turn) {
            *passed = 0;
        }
        let queue = &mut self.queues[turn];
        let task = queue.pop_front();
        if queue.is_empty() && queue.capacity() > KEPT_MAX {
            *queue = VecDeque::new();
        }
        task
    }
}

#[cfg(test)]
mod tests {
    use super::super::{name, place};
    use super::*;
    use upbeat_memory::pool::Key;

    fn task(index: u32, priority: Priority) -> TaskId {
        let id = name(Key { index, generation: 1 }, priority);
        assert_eq!((place(id).index, place(id).generation, Priority::of(id)), (index, 1, priority));
        id
    }

    fn order(ready: &mut Ready, polls: usize) -> Vec<Priority> {
        // Each task is ready again at once, as after a yield.
        let mut turn = || {
            let task = ready.next()?;
            ready.push(task);
            Some(Priority::of(task))
        };
        (0..polls).map_while(|_| turn()).collect()
    }

    #[test]
    fn higher_priorities_go_first_and_equals_in_order() {
        let mut ready = Ready::default();
        for index in 0..6 {
            ready.push(task(index, Priority::ALL[index as usize % 3]));
        }
        ready.push_first(task(6, Priority::Normal));
        assert_eq!((ready.len(), ready.top()), (7, Some(Priority::High)));
        let places: Vec<u32> =
            std::iter::from_fn(|| ready.next()).map(|id| place(id).index).collect();
        assert_eq!(places, [2, 5, 6, 1, 4, 0, 3]);
        assert_eq!((ready.len(), ready.top()), (0, None));
    }

    #[test]
    fn no_priority_starves_and_each_gets_its_documented_share() {
        let mut ready = Ready::default();
        for (index, priority) in (0..).zip(Priority::ALL) {
            ready.push(task(index, priority));
            ready.push(task(index + 3, priority));
        }
        let order = order(&mut ready, 6400);
        let count = |wanted| order.iter().filter(|priority| **priority == wanted).count();
        let shares = [count(Priority::Low), count(Priority::Normal), count(Priority::High)];
        assert!((99..=101).contains(&shares[0]), "{shares:?}");
        assert!((390..=401).contains(&shares[1]), "{shares:?}");
        for (priority, longest) in [(Priority::Low, 65), (Priority::Normal, 17)] {
            let waits = order.split(|other| *other == priority).map(<[Priority]>::len);
            assert!(waits.max() <= Some(longest), "{priority:?} waited too long");
        }
    }

    #[test]
    fn an_empty_queue_keeps_little_memory() {
        let mut ready = Ready::default();
        (0..100_000).for_each(|index| ready.push(task(index, Priority::Normal)));
        while ready.next().is_some() {}
        assert!(ready.queues.iter().all(|queue| queue.capacity() <= KEPT_MAX));
    }
}
