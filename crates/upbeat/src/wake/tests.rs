use super::*;
use std::thread;

fn listed(roster: &Roster) -> Vec<TaskId> {
    let mut woken = roster.take(Vec::new());
    std::iter::from_fn(|| woken.next()).collect()
}

/// Whether the bell has been rung, which takes the ring down.
fn is_rung(roster: &Roster) -> bool {
    rustix::io::read(&roster.bell, &mut [0u8; 8]).is_ok()
}

#[test]
fn a_task_stands_in_the_list_once_until_it_is_polled() {
    let roster = Roster::new().unwrap();
    let wakeup = Wakeup::of(&roster, 7);
    let waker = wakeup.waker();
    (0..3).for_each(|_| waker.wake_by_ref());
    assert!(roster.any());
    assert_eq!(listed(&roster), [7]);
    assert!(!roster.any());
    waker.wake_by_ref();
    assert_eq!(listed(&roster), [], "it is to be polled already");
    wakeup.begin_poll();
    waker.wake_by_ref();
    assert_eq!(listed(&roster), [7]);
}

#[test]
fn what_woke_a_future_before_it_was_a_task_is_made_up_for() {
    let roster = Roster::new().unwrap();
    let wakeup = Wakeup::unnamed(&roster);
    wakeup.waker().wake();
    assert_eq!(listed(&roster), []);
    wakeup.name(3);
    assert_eq!(listed(&roster), [3]);
    wakeup.begin_poll();
    wakeup.unname();
    wakeup.waker().wake();
    assert_eq!(listed(&roster), [], "it is no task any more");
}

#[test]
fn what_is_not_run_goes_back() {
    let roster = Roster::new().unwrap();
    (1..=4).for_each(|task| roster.push(task));
    let mut woken = roster.take(Vec::new());
    assert_eq!((woken.next(), woken.next()), (Some(1), Some(2)));
    drop(woken);
    assert!(roster.any());
    assert_eq!(listed(&roster), [3, 4]);
    let mut woken = roster.take(Vec::with_capacity(9));
    assert_eq!(woken.next(), None);
    woken.into_empty();
    assert!(!roster.any());
}

#[test]
fn only_a_sleeper_is_rung() {
    let roster = Roster::new().unwrap();
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
fn the_end_of_a_computation_wakes_a_sleeper_once_for_nobody() {
    let roster = Roster::new().unwrap();
    roster.computation_begins();
    roster.computation_begins();
    assert!(roster.may_sleep() && roster.is_computing());
    roster.computation_ends();
    roster.nudge();
    assert!(is_rung(&roster) && roster.is_computing());
    roster.computation_ends();
    roster.nudge();
    assert!(!is_rung(&roster), "it is about to look");
    assert!(!roster.is_computing());
    assert_eq!(listed(&roster), [NO_TASK]);
}

#[test]
fn no_wake_is_slept_over() {
    const WAKES: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let roster = Roster::new().unwrap();
    let wakeup = Wakeup::of(&roster, 5);
    let told = Arc::new(AtomicU64::new(0));
    let (waker, telling) = (wakeup.waker(), Arc::clone(&told));
    let other = thread::spawn(move || {
        for number in 1..=WAKES {
            telling.store(number, Ordering::Relaxed);
            waker.wake_by_ref();
            // Not before this one was seen: each has to wake by itself.
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
            assert_eq!(rustix::event::poll(&mut polled, Some(&limit)), Ok(1), "slept over");
            roster.awake(true);
        }
        wakeup.begin_poll();
        assert_eq!(told.swap(0, Ordering::Relaxed), number);
    }
    other.join().unwrap();
}
