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
mod memory;
mod mutual;
mod orphans;
mod turn;
mod unread;
mod values;

/// The other processes' parts. Without one this is a test of nothing.
#[test]
fn other() {
    common::process::play(&[depot::play, memory::play, orphans::chain::play]);
}
