use super::*;
use std::thread;

fn listed(roster: &WakeQueue) -> Vec<TaskId> {
    let mut all = Vec::new();
    roster.take(|task| all.push(task));
    all
}

/// Returns whether the doorbell was rung, and takes the wake-up off it.
fn is_rung(roster: &WakeQueue) -> bool {
    rustix::io::read(&roster.bell, &mut [0u8; 8]).is_ok()
}

#[test]
fn a_task_stands_in_the_list_once_until_it_is_polled() {
    let roster = WakeQueue::new().unwrap();
    let wakeup = Wakeup::of(&roster, 7);
    let waker = wakeup.waker();
    (0..3).for_each(|_| waker.wake_by_ref());
    assert!(roster.any());
    assert_eq!(listed(&roster), [7]);
    assert!(!roster.any());
    waker.wake_by_ref();
    assert!(listed(&roster).is_empty(), "its flag is set already");
    wakeup.begin_poll();
    waker.wake_by_ref();
    assert_eq!(listed(&roster), [7]);
}

#[test]
fn a_wake_before_a_future_becomes_a_task_is_not_lost() {
    let roster = WakeQueue::new().unwrap();
    let wakeup = Wakeup::unnamed(&roster);
    wakeup.waker().wake();
    assert!(listed(&roster).is_empty());
    wakeup.name(3);
    assert_eq!(listed(&roster), [3]);
    wakeup.begin_poll();
    wakeup.unname();
    wakeup.waker().wake();
    assert!(listed(&roster).is_empty(), "the future is no longer a task");
}

#[test]
fn the_list_tells_the_highest_priority_and_the_ready_tasks() {
    let roster = WakeQueue::new().unwrap();
    let task = |priority| name(Key { index: 1, generation: 1 }, priority);
    let above = |priority| roster.any_above(priority);
    roster.push(task(Priority::Low));
    assert!(roster.any() && !above(Priority::Low));
    roster.push(task(Priority::High));
    roster.push(task(Priority::Normal));
    assert!(above(Priority::Normal) && !above(Priority::High));
    assert_eq!(listed(&roster).len(), 3);
    assert!(!roster.any());
    roster.keep(Priority::Normal);
    assert!(above(Priority::Low) && !above(Priority::Normal) && !roster.may_sleep());
}

#[test]
fn a_stamped_wake_tells_its_time() {
    let roster = WakeQueue::new().unwrap();
    let wakeup = Wakeup::of(&roster, 7);
    let before = ticks();
    assert!(!wakeup.ask());
    wakeup.on_wake();
    let woken = wakeup.woken();
    assert!(woken >= before && woken <= ticks());
    assert_eq!(wakeup.woken(), 0, "the time was taken");
    assert!(wakeup.ask(), "the task was woken before");
    assert_eq!(wakeup.woken(), 0, "the task was not woken since");
    wakeup.begin_poll();
    assert!(!wakeup.ask());
    assert_eq!(wakeup.woken(), 0, "the task was not woken");
    wakeup.on_wake();
    assert_eq!((wakeup.woken(), listed(&roster).len()), (0, 2));
}

#[test]
fn a_task_that_starts_ready_is_not_listed_again() {
    let roster = WakeQueue::new().unwrap();
    let wakeup = Wakeup::unnamed(&roster);
    wakeup.name_ready(9);
    wakeup.on_wake();
    assert_eq!((listed(&roster).len(), wakeup.task()), (0, 9));
    wakeup.leave_alone();
    wakeup.begin_poll();
    wakeup.on_wake();
    assert_eq!(listed(&roster), [9], "flags are no part of the identity");
    wakeup.unname();
    assert!(!wakeup.is_alone());
}

#[test]
fn only_a_sleeping_node_is_woken() {
    let roster = WakeQueue::new().unwrap();
    roster.push(1);
    assert!(!is_rung(&roster) && !roster.may_sleep());
    assert_eq!(listed(&roster), [1]);
    roster.awake(false);
    assert!(roster.may_sleep());
    roster.push(2);
    assert!(is_rung(&roster));
    roster.awake(true);
    roster.push(3);
    assert!(!is_rung(&roster));
}

#[test]
fn the_end_of_a_computation_wakes_a_sleeping_node_once() {
    let roster = WakeQueue::new().unwrap();
    roster.computation_begins();
    roster.computation_begins();
    assert!(roster.may_sleep() && roster.is_computing());
    roster.computation_ends();
    roster.nudge();
    assert!(is_rung(&roster) && roster.is_computing());
    roster.computation_ends();
    roster.nudge();
    assert!(!is_rung(&roster), "the node is about to read the list");
    assert!(!roster.is_computing());
    assert!(listed(&roster).is_empty(), "no task was woken");
}

#[test]
fn a_node_never_sleeps_through_a_wake() {
    const WAKES: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let roster = WakeQueue::new().unwrap();
    let wakeup = Wakeup::of(&roster, 5);
    let told = Arc::new(AtomicU64::new(0));
    let (waker, telling) = (wakeup.waker(), Arc::clone(&told));
    let other = thread::spawn(move || {
        for number in 1..=WAKES {
            telling.store(number, Ordering::Relaxed);
            waker.wake_by_ref();
            // The next wake waits until this one was seen, so that each has to wake the node by itself.
            while telling.load(Ordering::Relaxed) != 0 {
                thread::yield_now();
            }
        }
    });
    for number in 1..=WAKES {
        while told.load(Ordering::Relaxed) == 0 || listed(&roster).is_empty() {
            if !roster.may_sleep() {
                roster.awake(false);
                continue;
            }
            let mut polled =
                [rustix::event::PollFd::new(&roster.bell, rustix::event::PollFlags::IN)];
            let limit = rustix::event::Timespec { tv_sec: 30, tv_nsec: 0 };
            assert_eq!(
                rustix::event::poll(&mut polled, Some(&limit)),
                Ok(1),
                "the node slept through a wake"
            );
            roster.awake(true);
        }
        wakeup.begin_poll();
        assert_eq!(told.swap(0, Ordering::Relaxed), number);
    }
    other.join().unwrap();
}

#[test]
fn a_wake_by_the_nodes_own_thread_needs_no_lock() {
    let (roster, other) = (WakeQueue::new().unwrap(), WakeQueue::new().unwrap());
    let [wakeup, second] = [(&roster, 7), (&other, 8)].map(|(of, task)| Wakeup::of(of, task));
    let locked = roster.list();
    wakeup.on_wake();
    wakeup.on_wake();
    drop(locked);
    assert!(roster.any() && !other.any());
    // The list belongs to the first node as long as it has a task.
    second.on_wake();
    assert_eq!(other.list().woken, [8]);
    assert_eq!(listed(&other), [8]);
    assert_eq!(listed(&roster), [7]);
    assert!(!roster.any() && !other.any());
    let stranger = std::thread::spawn({
        let roster = Arc::clone(&roster);
        move || (roster.push(9), roster.list().woken.clone()).1
    });
    assert_eq!((stranger.join().unwrap(), listed(&roster)), (vec![9], vec![9]));
}

#[test]
fn a_wake_by_the_nodes_own_thread_rings_while_the_node_may_sleep() {
    let roster = WakeQueue::new().unwrap();
    assert!(roster.may_sleep());
    roster.push(7);
    assert!(is_rung(&roster));
    roster.awake(true);
    roster.push(8);
    assert!(!roster.may_sleep());
    assert_eq!(listed(&roster), [8, 7]);
}

#[test]
fn a_node_that_ends_leaves_no_tasks_to_the_next() {
    let roster = WakeQueue::new().unwrap();
    roster.push(7);
    roster.forget();
    drop(roster);
    let next = WakeQueue::new().unwrap();
    next.push(8);
    assert!(next.list().woken.is_empty());
    assert_eq!(listed(&next), [8]);
}
