//! A million tasks, and what each of them costs.

use super::{Gate, local, settle};
use crate::ALLOCATOR;
use crate::common::process::apart;
use std::future::pending;
use upbeat::{Counter, TaskEnded};

/// As many as a node may have.
const TASKS_MAX: usize = 1 << 20;
const MILLION: usize = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };

/// The most bytes that a parked task may take beside its future.
const BYTES_MAX: f64 = 64.0;

#[test]
fn a_parked_task_takes_its_future_and_64_bytes() {
    apart(concat!(module_path!(), "::a_parked_task_takes_its_future_and_64_bytes"), || {
        let (_alone, node) = local("memory");
        let park = |number: u64| async move {
            pending::<()>().await;
            number
        };
        let size = size_of_val(&park(0));
        let before = ALLOCATOR.bytes();
        for number in 0..MILLION as u64 / 2 {
            drop(node.spawn(park(number)));
        }
        settle(&node);
        let dropped = (ALLOCATOR.bytes() - before) as f64 / (MILLION / 2) as f64 - size as f64;
        let kept: Vec<_> = (0..MILLION as u64 / 2).map(|number| node.spawn(park(number))).collect();
        settle(&node);
        // The handles themselves are the application's.
        let handles = size_of_val(&*kept);
        let bytes = (ALLOCATOR.bytes() - before) as usize - handles;
        let each = bytes as f64 / MILLION as f64 - size as f64;
        println!("{dropped:.2} bytes without a handle, {each:.2} with half of them, beside {size}");
        assert!(dropped <= BYTES_MAX && each <= BYTES_MAX, "{dropped} and {each}");
        // When they have ended little is kept of them: their places, and some slots.
        kept.iter().for_each(upbeat::JoinHandle::cancel);
        drop(kept);
        let left = (ALLOCATOR.bytes() - before) as f64 / MILLION as f64;
        assert!(left < each / 2.0 + size as f64 / 2.0 + 32.0, "{left}");
    });
}

#[test]
fn a_million_tasks_wait_and_any_of_them_goes_on() {
    let (_alone, node) = local("million");
    let (gate, last) = (Gate::default(), Gate::default());
    for _ in 1..MILLION {
        let gate = gate.clone();
        drop(node.spawn(async move { gate.pass().await }));
    }
    let one = node.spawn({
        let last = last.clone();
        async move { last.pass().await }
    });
    settle(&node);
    last.open();
    assert_eq!(node.block_on(one), Ok(()));
    assert_eq!(gate.polls() as usize, MILLION - 1, "nobody else was polled");
    gate.open();
    settle(&node);
    assert_eq!(gate.polls() as usize, 2 * (MILLION - 1));
}

#[test]
fn one_more_than_there_may_be_is_refused_and_says_so() {
    let (_alone, node) = local("full");
    let tasks: Vec<_> = (0..TASKS_MAX).map(|_| node.spawn(pending::<()>())).collect();
    let refused = node.spawn(async { 1 });
    assert_eq!(node.block_on(refused), Err(TaskEnded::Full));
    assert_eq!(node.counted(Counter::TasksRefused), 1);
    tasks[7].cancel();
    let begun = node.spawn(async { 1 });
    assert_eq!(node.block_on(begun), Ok(1), "there is room for one again");
    assert_eq!(node.counted(Counter::TasksInNewSlots) as usize, TASKS_MAX + 1);
}
