//! The exports of a world: their owners change them again and again, and clients read them in each way.

use super::history::sights::{OF_EXPORT, OF_LIFE, Sight, export_of};
use super::history::{Failure, Process};
use super::plan::{Reader, Way};
use super::serve::{Scene, ms};
use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;
use upbeat::export::{
    Export, ExportError, FixedMap, FixedVec, GuardedExport, ImportError, ReadError, Text,
};
use upbeat::{Import, Node, Shared};

/// The time for which a watch waits for a change.
pub(crate) const WATCHED: Duration = Duration::from_millis(2_000);

/// The value of an export, all parts of which follow from its number.
#[derive(Clone, Debug, PartialEq, Shared)]
pub(crate) struct Table {
    number: u64,
    text: Text<24>,
    few: FixedVec<u64, 8>,
    by_rest: FixedMap<u64, u64, 8>,
    /// The numbers of all updates. It grows, so that the export moves.
    past: Vec<u64>,
    twice: u64,
}

impl Table {
    fn new(number: u64) -> Table {
        Table {
            number,
            text: text(number),
            few: few(number),
            by_rest: FixedMap::new(),
            past: Vec::new(),
            twice: 2 * number,
        }
    }

    fn is_whole(&self) -> bool {
        let number = self.number;
        let rests = (export_of(number) + 1..=number).rev().take(4);
        self.text == text(number)
            && *self.few == *few(number)
            && self.twice == 2 * number
            && (export_of(number) + 1..=number).eq(self.past.iter().copied())
            && rests.clone().all(|old| self.by_rest.get(&(old % 8)) == Some(&old))
            && self.by_rest.len() == rests.count()
    }
}

fn text(number: u64) -> Text<24> {
    Text::new(&number.to_string()).expect("a number is short")
}

fn few(number: u64) -> FixedVec<u64, 8> {
    FixedVec::of((0..number % 8).collect()).expect("there are seven at most")
}

/// Sets all parts of a value.
macro_rules! set {
    ($table:expr, $number:expr) => {{
        let (table, number) = ($table, $number);
        table.number().set(number);
        table.text().set(text(number));
        table.few().set(few(number));
        if number % OF_EXPORT > 4 {
            table.by_rest().remove(&((number + 4) % 8));
        }
        table.by_rest().insert(&(number % 8), number).expect("the map has room");
        table.past().push(number)?;
        table.twice().set(2 * number);
        Ok(())
    }};
}

enum Owned {
    Plain(Export<Table>),
    Guarded(GuardedExport<Table>),
}

impl Owned {
    fn new(node: &Node, is_guarded: bool, number: u64) -> Result<Owned, ExportError> {
        let table = Table::new(number);
        Ok(match is_guarded {
            true => Owned::Guarded(node.export_guarded("table", table)?),
            false => Owned::Plain(node.export("table", table)?),
        })
    }

    async fn update(&self, number: u64, begins: impl Fn()) -> Result<(), ExportError> {
        match self {
            Owned::Plain(owned) => {
                begins();
                owned.whole().update(|table| set!(table, number))
            }
            Owned::Guarded(owned) => {
                if number % 5 == 1 {
                    let guard = owned.lock().await;
                    guard.number().set(0);
                    guard.discard();
                }
                let guard = owned.lock().await;
                begins();
                set!(&guard, number)
            }
        }
    }
}

impl Scene {
    /// Exports values from a life of a server, and changes them. The last export stays.
    pub(crate) async fn own(
        self,
        node: Rc<RefCell<Option<Node>>>,
        me: Process,
        life: u32,
    ) -> Result<(), ExportError> {
        let Some(plan) = self.plan.servers[me].exports else { return Ok(()) };
        let record = &self.record;
        let mut stands = None;
        for export in 0..plan.exports {
            let first = u64::from(life + 1) * OF_LIFE + export * OF_EXPORT;
            record.updates(me, first);
            // The former export ends here, if it was not dropped before.
            let node = node.borrow().clone().expect("a task runs while its node lives");
            let owned = stands.insert(Owned::new(&node, plan.is_guarded, first)?);
            drop(node);
            record.updated(me, first);
            for number in first + 1..=first + plan.updates {
                upbeat::sleep(ms(plan.pause_ms)).await;
                if let Err(error) = owned.update(number, || record.updates(me, number)).await {
                    record.withdraws(me, first);
                    return Err(error);
                }
                record.updated(me, number);
            }
            if export + 1 == plan.exports {
                std::future::pending::<()>().await;
            }
            record.withdraws(me, first);
            if export % 2 == 0 {
                stands = None;
                upbeat::sleep(ms(plan.pause_ms)).await;
            }
        }
        Ok(())
    }

    /// Reads the export of a server.
    pub(crate) async fn read_export(
        &self,
        me: Process,
        reader: &Reader,
        imports: impl AsyncFn(&str) -> Result<Import<Table>, ImportError>,
    ) {
        let Reader { server, way, rounds, pause_ms } = *reader;
        let name = format!("{}/table", self.address(server, self.plan.host(me)));
        let (mut known, mut last) = (None, None);
        for _ in 0..rounds {
            upbeat::sleep(ms(pause_ms)).await;
            let since = known.as_ref().map(|(_, since)| *since);
            let look = self.record.looks((me, server), since, last);
            let began = since.unwrap_or(look.from());
            let import = match known.take() {
                Some((import, _)) => Ok((import, way)),
                None => imports(&name).await.map(|new| (new, Way::Whole)),
            };
            let sight = match import {
                Ok((import, way)) => {
                    let found = self.look(&import, way).await;
                    known = found.is_ok().then_some((import, began));
                    found.unwrap_or_else(|error| not_read(&error))
                }
                Err(error) => not_imported(&error),
            };
            last = self.record.sees(look, sight).or(last);
        }
    }

    /// Reads a value in a way.
    async fn look(&self, import: &Import<Table>, way: Way) -> Result<Sight, ReadError> {
        let is_torn = |what: String| self.record.is_wrong(format!("a torn value is read: {what}"));
        let number = match way {
            Way::Whole => {
                let table = import.whole().read().await?;
                if !table.is_whole() {
                    is_torn(format!("{table:?}"));
                }
                table.number
            }
            Way::Part => import.number().read().await?,
            Way::Snapshot => {
                let read = import.snapshot(async |table| {
                    Ok((table.twice().read().await?, table.number().read().await?))
                });
                let (twice, number) = read.await?;
                if twice != 2 * number {
                    is_torn(format!("{number}, twice {twice}"));
                }
                number
            }
            Way::Memory => match import.number().try_read() {
                Err(ReadError::Busy) => return Ok(Sight::Busy),
                number => number?,
            },
            Way::Watch => {
                let mut watch = import.number().watch();
                let first = watch.changed().await?;
                match upbeat::within(WATCHED, watch.changed()).await {
                    Ok(next) => return Ok(Sight::Changed(first, next?)),
                    Err(_) => return Ok(Sight::Unchanged(first)),
                }
            }
        };
        Ok(Sight::Number(number))
    }
}

fn not_read(error: &ReadError) -> Sight {
    let why = match error {
        ReadError::Ended => Failure::Ended,
        ReadError::OwnerReplaced => Failure::Replaced,
        ReadError::Call(error) => Failure::of(error),
        _ => Failure::Other,
    };
    failed(why, error)
}

fn not_imported(error: &ImportError) -> Sight {
    let why = match error {
        ImportError::NoExport { .. } => Failure::Absent,
        ImportError::Connect(_) => Failure::Unreached,
        ImportError::Call(error) => Failure::of(error),
        _ => Failure::Other,
    };
    failed(why, error)
}

fn failed(why: Failure, error: &impl Debug) -> Sight {
    Sight::Failed(why, format!("{error:?}"))
}
