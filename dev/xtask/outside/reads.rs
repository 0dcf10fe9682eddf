//! Reads of another process's variables, in memory that both processes map.
//!
//! The owner is a child process that exports a [`Table`] and sleeps while it is read. What is counted is a function that
//! a user would write: it reads one part, and returns the value or the error.

use super::{Directory, Others, Outcome, Remote, Side, TURNS_MAX};
use std::cell::RefCell;
use std::error::Error;
use std::hint::black_box;
use std::rc::Rc;
use upbeat::export::ReadError;
use upbeat::{Export, Import, Shared};

/// The reads that count.
const READS: u64 = 1000;
const NUMBERS: usize = 1000;
const NUMBER: u64 = 7;

/// The variable that is exported.
#[derive(Shared)]
pub(super) struct Table {
    number: u64,
    numbers: [u64; NUMBERS],
    row: Row,
}

#[derive(Clone, Copy, Debug, PartialEq, Shared)]
struct Row {
    first: u64,
    second: u64,
    third: u64,
}

const ROW: Row = Row { first: 11, second: 12, third: 13 };

/// Returns the element at an index, which no two elements share.
fn element(index: usize) -> u64 {
    3 * index as u64 + 1
}

/// Exports the table from a node.
pub(super) fn export(owner: &Side) -> Outcome<Export<Table>> {
    let table = Table { number: NUMBER, numbers: std::array::from_fn(element), row: ROW };
    Ok(owner.node.export("table", table)?)
}

/// Reads a part of the owner's table.
pub(super) fn measure(part: &str) -> Outcome<()> {
    let directory = Directory::new()?;
    let own = Side::new("reader", Some(&directory.0))?;
    let mut owner = Others::There(Remote::new("owner", &directory.0)?);
    let table = imported(&own, &mut owner)?;
    match part {
        "number" => count(|_| measured_number(&table), |_| NUMBER),
        "element" => count(|index| measured_element(&table, index), element),
        _ => count(|_| measured_row(&table), |_| ROW),
    }
}

/// Imports the table from the owner, which turns beside the reader.
fn imported(own: &Side, owner: &mut Others) -> Outcome<Import<Table>> {
    let table = Rc::new(RefCell::new(None));
    let (node, place) = (own.node.clone(), Rc::clone(&table));
    drop(own.node.spawn(async move {
        let imported = node.import::<Table>("owner/table").await;
        *place.borrow_mut() = Some(imported);
    }));
    for _ in 0..TURNS_MAX {
        own.node.turn();
        owner.turn()?;
        if let Some(table) = table.borrow_mut().take() {
            return Ok(table?);
        }
    }
    Err(format!("nothing was imported in {TURNS_MAX} rounds of turns").into())
}

/// Makes the reads that count, and compares each value.
fn count<T: PartialEq>(
    read: impl Fn(usize) -> Result<T, ReadError>,
    meant: impl Fn(usize) -> T,
) -> Outcome<()> {
    for at in 0..READS {
        let index = at as usize % NUMBERS;
        if read(black_box(index))? != meant(index) {
            return Err(Box::<dyn Error>::from("a read has found another value"));
        }
    }
    println!("{READS}");
    Ok(())
}

#[inline(never)]
fn measured_number(table: &Import<Table>) -> Result<u64, ReadError> {
    table.number().try_read()
}

#[inline(never)]
fn measured_element(table: &Import<Table>, index: usize) -> Result<u64, ReadError> {
    table.numbers().index(index).try_read()
}

#[inline(never)]
fn measured_row(table: &Import<Table>) -> Result<Row, ReadError> {
    table.row().try_read()
}
