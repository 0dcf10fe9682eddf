//! Flow control as its users meet it: budgets, refusals, long messages, buffers that are lent.

#[path = "../common/mod.rs"]
mod common;

mod asking;
mod back;
mod budget;
mod depot;
mod forgotten;
mod full;
mod lent;
mod loans;
mod long;
mod mutual;
mod turn;
mod unread;
mod values;

/// The other process's parts. Without one this is a test of nothing.
#[test]
fn other() {
    if let Some((part, place)) = common::process::part() {
        assert!(depot::play(&part, &place), "there is no part {part}");
    }
}
