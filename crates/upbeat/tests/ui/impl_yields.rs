//! Borrows that last as long as a loop that yields.

use std::cell::RefCell;

#[upbeat::service]
pub trait Rows {
    async fn sum(&self) -> u64;
    async fn drain(&self) -> u64;
    async fn right(&self) -> u64;
}

struct Table(RefCell<Vec<u64>>);

#[upbeat::service]
impl Rows for Table {
    #[method(yields)]
    async fn sum(&self) -> u64 {
        let mut sum = 0;
        for row in self.0.borrow().iter() {
            sum += row;
        }
        sum
    }

    #[method(yields)]
    async fn drain(&self) -> u64 {
        let mut sum = 0;
        while let Some(row) = self.0.borrow_mut().pop() {
            sum += row;
        }
        sum
    }

    #[method(yields)]
    async fn right(&self) -> u64 {
        let mut sum = 0;
        let all = self.0.borrow().clone();
        for row in all {
            sum += row;
        }
        while !self.0.borrow().is_empty() {
            sum += { self.0.borrow_mut().pop() }.unwrap_or(0);
        }
        loop {
            let Some(row) = self.0.borrow_mut().pop() else { return sum };
            sum += row;
        }
    }
}

fn main() {}
