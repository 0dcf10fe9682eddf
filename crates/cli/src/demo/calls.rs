//! The calls of the desk, kind by kind, and the result that each kind must have.

use crate::bench::error::BenchError;
use crate::bench::timing::{Round, Work};
use crate::demo::error::DemoError;
use crate::demo::services::{ShopClient, ShopError, StockClient, Tally};
use crate::demo::stop::Stop;
use std::time::{Duration, Instant};
use upbeat::{CallError, Node};
use upbeat_memory::ticks::{Ticks, ticks};

/// The time for which each kind is called.
const EACH: Duration = Duration::from_millis(200);
/// The largest number of calls of a kind.
const CALLS_MAX: usize = 10_000;
/// The number of one-way messages that are timed together, because one is too short to be timed.
const TOGETHER: usize = 64;
/// The duration of the delivery that completes, in microseconds.
const SOON_US: u64 = 1_000;
/// The duration of the delivery that is cancelled, in microseconds.
const LATE_US: u64 = 1_000_000;
/// The deadline after which the call is cancelled.
const DEADLINE: Duration = Duration::from_millis(2);

/// A kind of call, and its costs.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    /// The caller's node.
    pub(crate) from: &'static str,
    /// The callee's node.
    pub(crate) to: &'static str,
    /// The method, with its arguments.
    pub(crate) call: &'static str,
    /// The number of calls.
    pub(crate) count: u64,
    /// The median time, in nanoseconds.
    pub(crate) p50_ns: f64,
    /// The 99th percentile of the time, in nanoseconds.
    pub(crate) p99_ns: f64,
    /// The number of handlers that had to wait and became tasks; all others completed at their first poll.
    pub(crate) promoted: u64,
    /// The result of the calls, in words.
    pub(crate) ended: String,
}

/// The result of a call in words, or the error if the call must not end so.
type Described = Result<String, String>;

/// A node that the desk calls.
#[derive(Clone, Copy)]
enum Callee {
    Shop,
    Stock,
}

impl Callee {
    fn name(self) -> &'static str {
        match self {
            Callee::Shop => "shop",
            Callee::Stock => "stock",
        }
    }
}

/// The node that makes the calls.
pub(crate) struct Desk {
    node: Node,
    stop: Stop,
}

/// The desk's clients.
pub(crate) struct Clients {
    shop: ShopClient,
    stock: StockClient,
}

impl Desk {
    /// Creates the desk. Ctrl-c cancels its work.
    pub(crate) fn new(node: Node) -> Desk {
        let stop = Stop::on(&node);
        Desk { node, stop }
    }

    /// Returns whether ctrl-c was pressed.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_asked()
    }

    fn drive<T>(&self, act: impl Future<Output = Result<T, DemoError>>) -> Result<T, DemoError> {
        self.node.block_on(self.stop.unless(act))
    }

    /// Connects to the shop and the stock.
    pub(crate) fn connect(&self) -> Result<Clients, DemoError> {
        self.drive(async {
            let shop = self.node.connect("shop").await;
            let stock = self.node.connect("stock").await;
            let shop = shop.map_err(DemoError::runtime("connecting to the shop"))?;
            let stock = stock.map_err(DemoError::runtime("connecting to the stock"))?;
            Ok(Clients { shop, stock })
        })
    }

    /// Makes one round of null calls, timed like those of a benchmark.
    pub(crate) fn null_round(&self, clients: &Clients, work: Work) -> Result<Round, BenchError> {
        if self.stop.is_asked() {
            return Err(BenchError::PeerGone);
        }
        let round = async {
            let mut laps = work.laps();
            for calls in laps.by_ref() {
                for _ in 0..calls {
                    clients.shop.nothing().await?;
                }
            }
            Ok(laps.round())
        };
        self.node.block_on(round).map_err(|error: CallError| BenchError::Runtime {
            act: "a null call",
            text: error.to_string(),
        })
    }

    /// Makes null calls, timed like all other calls.
    pub(crate) fn null_calls(&self, clients: &Clients) -> Result<Calls, DemoError> {
        let act = async || clients.shop.nothing().await;
        self.kind(clients, Callee::Shop, "nothing()", act, |ended| match ended {
            Ok(()) => Ok("Ok".into()),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Makes all calls except null calls.
    pub(crate) fn all_others(&self, clients: &Clients) -> Result<Vec<Calls>, DemoError> {
        let mut all = self.prices(clients)?;
        all.push(self.oneways(clients)?);
        all.extend(self.orders(clients)?);
        all.extend(self.deliveries(clients)?);
        Ok(all)
    }

    /// Makes calls with a result, and calls with an error of the shop's own type.
    fn prices(&self, clients: &Clients) -> Result<Vec<Calls>, DemoError> {
        let price = async |thing: &str| clients.shop.price(thing.to_owned()).await;
        let known = self.kind(
            clients,
            Callee::Shop,
            "price(tea)",
            async || price("tea").await,
            |ended| match ended {
                Ok(cents) => Ok(format!("Ok({cents})")),
                Err(error) => Err(error.to_string()),
            },
        )?;
        let unknown = self.kind(
            clients,
            Callee::Shop,
            "price(unicorn)",
            async || price("unicorn").await,
            |ended| match ended {
                Ok(cents) => Err(format!("Ok({cents})")),
                Err(CallError::Method(error @ ShopError::Unknown { .. })) => {
                    Ok(format!("Err: {error}"))
                }
                Err(error) => Err(error.to_string()),
            },
        )?;
        Ok(vec![known, unknown])
    }

    /// Sends one-way messages. The tally comes after them in the same session, so it counts all of them.
    fn oneways(&self, clients: &Clients) -> Result<Calls, DemoError> {
        let seen = self.tally(clients, Callee::Shop)?.walked_by;
        let many = async || {
            for _ in 0..TOGETHER {
                clients.shop.walked_by().await?;
            }
            Ok(())
        };
        let describe = |ended: &Result<(), CallError>| match ended {
            Ok(()) => Ok(String::new()),
            Err(error) => Err(error.to_string()),
        };
        let mut calls = self.kind(clients, Callee::Shop, "walked_by(), one-way", many, describe)?;
        calls.count *= TOGETHER as u64;
        calls.p50_ns /= TOGETHER as f64;
        calls.p99_ns /= TOGETHER as f64;
        let seen = self.tally(clients, Callee::Shop)?.walked_by - seen;
        calls.ended = match seen == calls.count {
            true => "all were handled".into(),
            false => {
                let text = format!("{} were sent and {seen} were handled", calls.count);
                return Err(DemoError::Outcome { call: calls.call, text });
            }
        };
        Ok(calls)
    }

    /// Makes calls for which the shop calls the stock, and lists those calls of the shop too.
    fn orders(&self, clients: &Clients) -> Result<Vec<Calls>, DemoError> {
        let own = || async { clients.shop.own_calls().await };
        let asked = DemoError::runtime("asking the shop");
        self.drive(async { own().await.map_err(asked) })?;
        let before = self.tally(clients, Callee::Stock)?;
        let order = async || clients.shop.order("tea".to_owned(), 1).await;
        let orders =
            self.kind(clients, Callee::Shop, "order(tea, 1)", order, |ended| match ended {
                Ok(receipt) => Ok(format!("Ok({} {})", receipt.count, receipt.thing)),
                Err(error) => Err(error.to_string()),
            })?;
        let after = self.tally(clients, Callee::Stock)?;
        let asked = DemoError::runtime("asking the shop");
        let took = self.drive(async { own().await.map_err(asked) })?;
        let took: Vec<f64> = took.into_iter().map(|nanoseconds| nanoseconds as f64).collect();
        let promoted = after.promoted - before.promoted;
        let for_desk = Calls {
            from: "shop",
            ended: "on the desk's behalf".into(),
            ..of("stock", "take(tea, 1)", took, promoted)
        };
        Ok(vec![orders, for_desk])
    }

    /// Makes calls whose handler has to wait, and calls whose handler waits beyond their deadline.
    fn deliveries(&self, clients: &Clients) -> Result<Vec<Calls>, DemoError> {
        let stock = &clients.stock;
        let soon = async || stock.delivery(SOON_US).await;
        let soon =
            self.kind(clients, Callee::Stock, "delivery(1 ms)", soon, |ended| match ended {
                Ok(()) => Ok("Ok, after a wait".into()),
                Err(error) => Err(error.to_string()),
            })?;
        let before = self.tally(clients, Callee::Stock)?;
        let late = async || stock.delivery(LATE_US).deadline(DEADLINE).await;
        let call = "delivery(1 s), deadline 2 ms";
        let mut late = self.kind(clients, Callee::Stock, call, late, |ended| match ended {
            Ok(()) => Err("Ok".into()),
            Err(error @ (CallError::Deadline(_) | CallError::Failed { .. })) => {
                Ok(format!("Err: {error}"))
            }
            Err(error) => Err(error.to_string()),
        })?;
        let after = self.tally(clients, Callee::Stock)?;
        let cancelled = after.cancelled - before.cancelled;
        if cancelled > 0 {
            late.ended = format!("Err: the deadline passed; {cancelled} cancelled at the stock");
        }
        Ok(vec![soon, late])
    }

    /// Repeats a call, and measures its times and the promoted handlers of the callee.
    fn kind<T, E>(
        &self,
        clients: &Clients,
        callee: Callee,
        call: &'static str,
        act: impl AsyncFnMut() -> Result<T, E>,
        describe: impl Fn(&Result<T, E>) -> Described,
    ) -> Result<Calls, DemoError> {
        let before = self.tally(clients, callee)?;
        let (took, ended) = self.drive(async {
            let (took, described) = timed(act, describe).await;
            described.map(|ended| (took, ended)).map_err(|text| DemoError::Outcome { call, text })
        })?;
        let after = self.tally(clients, callee)?;
        let promoted = after.promoted - before.promoted;
        Ok(Calls { ended, ..of(callee.name(), call, took, promoted) })
    }

    fn tally(&self, clients: &Clients, callee: Callee) -> Result<Tally, DemoError> {
        self.drive(async {
            let tally = match callee {
                Callee::Shop => clients.shop.tally().await,
                Callee::Stock => clients.stock.tally().await,
            };
            tally.map_err(DemoError::runtime("asking what was counted"))
        })
    }

    /// Returns how many handlers of the shop have become tasks so far.
    pub(crate) fn shop_promoted(&self, clients: &Clients) -> Result<u64, DemoError> {
        Ok(self.tally(clients, Callee::Shop)?.promoted)
    }
}

/// Repeats a call one by one. Returns the nanoseconds of each call, and the result of the last call or of the
/// first call that ended in the wrong way.
async fn timed<T, E>(
    mut act: impl AsyncFnMut() -> Result<T, E>,
    describe: impl Fn(&Result<T, E>) -> Described,
) -> (Vec<f64>, Described) {
    let mut took = Vec::with_capacity(CALLS_MAX);
    let began = Instant::now();
    loop {
        let start = ticks();
        let ended = act().await;
        took.push(Ticks::since(start).nanoseconds() as f64);
        let enough = took.len() == CALLS_MAX || began.elapsed() > EACH;
        match describe(&ended) {
            Ok(_) if !enough => {}
            described => return (took, described),
        }
    }
}

/// Sums up calls of the desk.
fn of(to: &'static str, call: &'static str, mut took: Vec<f64>, promoted: u64) -> Calls {
    took.sort_by(f64::total_cmp);
    let at = |rank: f64| {
        let last = took.len().saturating_sub(1);
        took.get((last as f64 * rank).ceil() as usize).copied().unwrap_or_default()
    };
    Calls {
        from: "desk",
        to,
        call,
        count: took.len() as u64,
        p50_ns: at(0.5),
        p99_ns: at(0.99),
        promoted,
        ended: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn percentiles_are_those_of_sorted_times() {
        let took = (1..=101).rev().map(f64::from).collect();
        let calls = of("shop", "nothing()", took, 3);
        assert_eq!((calls.count, calls.p50_ns, calls.p99_ns), (101, 51.0, 100.0));
        assert_eq!(of("shop", "nothing()", Vec::new(), 0).p50_ns, 0.0);
    }
}
