//! A thousand tasks of a tokio runtime call one service through one handle.
//!
//! Run it with `cargo run --release -p upbeat --example tokio_tasks`.

use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use upbeat::{CallError, Wire};

type Error = Box<dyn std::error::Error + Send + Sync>;

const TASKS: u32 = 1000;
const SEATS: u32 = 600;

/// The box office of a hall.
#[upbeat::service]
pub trait BoxOffice {
    /// Books a seat and returns its number.
    async fn book(&self, customer: u32) -> Result<u32, SoldOut>;

    /// Asks a slow bank to take the price of a seat.
    async fn pay(&self, seat: u32) -> u32;

    /// Returns how many seats are free.
    async fn free(&self) -> u32;
}

/// No seat is free.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Wire)]
pub struct SoldOut;

impl fmt::Display for SoldOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all seats are taken")
    }
}

/// A node runs its handlers on one thread, so a `Cell` is enough.
struct Hall {
    booked: Cell<u32>,
}

impl BoxOffice for Hall {
    async fn book(&self, _customer: u32) -> Result<u32, SoldOut> {
        let seat = self.booked.get();
        if seat == SEATS {
            return Err(SoldOut);
        }
        self.booked.set(seat + 1);
        Ok(seat)
    }

    async fn pay(&self, seat: u32) -> u32 {
        // While one payment waits, the node serves the others.
        upbeat::sleep(Duration::from_millis(10)).await;
        100 + seat % 10
    }

    async fn free(&self) -> u32 {
        SEATS - self.booked.get()
    }
}

/// Books a seat and pays for it. Returns the seat and its price.
async fn visit(office: BoxOfficeHandle, customer: u32) -> Result<(u32, u32), CallError<SoldOut>> {
    let seat = office.book(customer).await?;
    // `pay` has no error of its own, so its error is widened to that of `book`.
    let price =
        office.pay(seat).deadline(Duration::from_secs(10)).await.map_err(CallError::widen)?;
    Ok((seat, price))
}

async fn sell(name: &str) -> Result<(), Error> {
    let office: BoxOfficeHandle = upbeat::handle::connect_async(name).await?;
    let began = Instant::now();
    let mut visits: JoinSet<_> =
        (0..TASKS).map(|customer| visit(office.clone(), customer)).collect();

    let (mut seats, mut sent_away) = (Vec::new(), 0);
    while let Some(visit) = visits.join_next().await {
        match visit? {
            Ok((seat, price)) => {
                assert_eq!(price, 100 + seat % 10, "the price of seat {seat}");
                seats.push(seat);
            }
            Err(CallError::Method(SoldOut)) => sent_away += 1,
            Err(error) => return Err(error.into()),
        }
    }
    let took = began.elapsed();
    println!(
        "{TASKS} tasks: {} seats sold, {sent_away} customers sent away, in {took:?}",
        seats.len()
    );

    seats.sort_unstable();
    assert!(seats.iter().copied().eq(0..SEATS), "a seat is missing or was sold twice");
    assert_eq!((sent_away, office.free().await?), (TASKS - SEATS, 0));
    // One after another, the payments alone would take six seconds.
    assert!(took < Duration::from_secs(6), "the tasks waited for each other");

    let late = office.pay(0).deadline(Duration::from_millis(1)).await;
    assert_eq!(late, Err(CallError::deadline(true)), "the bank takes 10 ms");
    Ok(())
}

fn main() -> Result<(), Error> {
    // The process is in the name, so two runs of this example do not meet.
    let name = format!("box-office/{}", std::process::id());
    let office =
        upbeat::serve_on(&name, 1, || BoxOfficeServer::new(Hall { booked: Cell::new(0) }))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(sell(&name))?;
    office.shut_down(Duration::from_secs(1))?;
    Ok(())
}
