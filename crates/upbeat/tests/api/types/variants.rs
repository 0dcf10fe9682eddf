//! Enums that gain and lose variants beside an `other` one: an old and a new side communicate, in both directions.

use crate::common::{Directory, Watchdog, node};
use std::collections::BTreeMap;
use upbeat::{CallError, Waiting};

/// The types and the service of one version of a program. The variants of the enum that changes are given.
macro_rules! version {
    ($name:ident { $($variants:tt)* } $($more:item)*) => {
        mod $name {
            use serde::{Deserialize, Serialize};
            use std::collections::BTreeMap;
            use upbeat::Wire;

            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
            pub(crate) enum Fault { $($variants)* }

            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
            pub(crate) enum Nested {
                None,
                One(Fault, u8),
            }

            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
            pub(crate) struct Report {
                pub(crate) faults: Vec<Fault>,
                pub(crate) by_name: BTreeMap<String, Fault>,
                pub(crate) last: Option<Fault>,
                pub(crate) nested: Nested,
                pub(crate) number: u64,
            }

            $($more)*

            #[upbeat::service]
            pub(crate) trait Depot {
                async fn take(&self, number: u64) -> Result<u64, Fault>;
                async fn echo(&self, fault: Fault) -> Fault;
                async fn many(&self, faults: &[Fault], number: u64) -> (Vec<Fault>, u64);
                async fn report(&self, report: Report) -> Report;
                async fn is_other(&self, fault: Fault) -> bool;
                #[oneway]
                async fn note(&self, fault: Fault);
                async fn plain(&self, number: u64) -> u64;
            }

            #[derive(Default)]
            pub(crate) struct Here {
                pub(crate) noted: std::rc::Rc<std::cell::RefCell<Vec<Fault>>>,
            }

            impl Depot for Here {
                async fn take(&self, number: u64) -> Result<u64, Fault> {
                    match faults().get(number as usize) {
                        Some(fault) => Err(fault.clone()),
                        None => Ok(number),
                    }
                }

                async fn echo(&self, fault: Fault) -> Fault {
                    fault
                }

                async fn many(&self, faults: &[Fault], number: u64) -> (Vec<Fault>, u64) {
                    upbeat::sleep(std::time::Duration::from_millis(1)).await;
                    (faults.to_vec(), number)
                }

                async fn report(&self, report: Report) -> Report {
                    report
                }

                async fn is_other(&self, fault: Fault) -> bool {
                    fault == Fault::Other
                }

                async fn note(&self, fault: Fault) {
                    self.noted.borrow_mut().push(fault);
                }

                async fn plain(&self, number: u64) -> u64 {
                    number
                }
            }

            pub(crate) fn report() -> Report {
                let named = faults().into_iter().zip('a'..).map(|(fault, name)| (name.into(), fault));
                Report {
                    faults: faults(),
                    by_name: named.collect(),
                    last: faults().pop(),
                    nested: Nested::One(faults().pop().unwrap(), 7),
                    number: 9,
                }
            }
        }
    };
}

version! {
    old { Missing, Full { room: u64 }, #[wire(other)] Other }

    pub(crate) fn faults() -> Vec<Fault> {
        vec![Fault::Missing, Fault::Full { room: 3 }, Fault::Other]
    }
}

// Variants in other places, and variants with fields between them.
version! {
    new {
        Locked(String, Vec<u8>),
        Full { room: u64 },
        Missing,
        #[wire(other)]
        Other,
        Slow { by: Slowness },
        Gone,
    }

    pub(crate) fn faults() -> Vec<Fault> {
        let by = Slowness { of: "disk".into(), factor: 2.5, reason: "heat".into() };
        let locked = Fault::Locked("Ann".repeat(50), vec![1; 100]);
        vec![Fault::Missing, Fault::Full { room: 3 }, Fault::Other, locked, Fault::Slow { by }, Fault::Gone]
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
    pub(crate) struct Slowness {
        pub(crate) of: String,
        pub(crate) factor: f64,
        #[wire(default)]
        pub(crate) reason: String,
    }
}

// A variant of a variant's struct has lost a field with a default.
version! {
    newest {
        Missing,
        Full { room: u64 },
        Slow { by: Slowness },
        #[wire(other)]
        Other,
    }

    pub(crate) fn faults() -> Vec<Fault> {
        let by = Slowness { of: "disk".into(), factor: 2.5 };
        vec![Fault::Missing, Fault::Full { room: 3 }, Fault::Other, Fault::Slow { by }]
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
    pub(crate) struct Slowness {
        pub(crate) of: String,
        pub(crate) factor: f64,
    }
}

// A variant with another field.
version! {
    changed { Missing, Full { room: u32 }, Gone, #[wire(other)] Other }

    pub(crate) fn faults() -> Vec<Fault> {
        vec![Fault::Missing, Fault::Full { room: 3 }, Fault::Other, Fault::Gone]
    }
}

// The same variants without an `other` one.
version! {
    closed { Missing, Full { room: u64 }, Other, Gone }

    pub(crate) fn faults() -> Vec<Fault> {
        vec![Fault::Missing, Fault::Full { room: 3 }, Fault::Other, Fault::Gone]
    }
}

/// Calls every method of a depot in `$server` by a client of `$client`. `$at_server` and `$at_client` say which value of
/// the other side a side reads.
macro_rules! exchange {
    ($client:ident with $server:ident, $at_client:expr, $at_server:expr) => {{
        let _watchdog = Watchdog::new("enums with an other variant");
        let directory = Directory::new();
        let name = name_of(&directory);
        let node = node(&name, &directory.path(), Waiting::Sleeping);
        let here = $server::Here::default();
        let noted = std::rc::Rc::clone(&here.noted);
        node.serve($server::DepotServer::new(here)).unwrap();
        let at_client: fn($server::Fault) -> $client::Fault = $at_client;
        let at_server: fn($client::Fault) -> $server::Fault = $at_server;
        let there_and_back = |fault: $client::Fault| at_client(at_server(fault));
        node.block_on(async {
            let depot: $client::DepotClient = node.connect(&name).await.unwrap();
            assert_eq!(depot.plain(5).await, Ok(5));
            for (number, fault) in $server::faults().into_iter().enumerate() {
                let read = depot.take(number as u64).await;
                assert_eq!(read, Err(CallError::Method(at_client(fault))));
            }
            assert_eq!(depot.take(100).await, Ok(100));
            for fault in $client::faults() {
                let is_other = at_server(fault.clone()) == $server::Fault::Other;
                assert_eq!(depot.is_other(fault.clone()).await, Ok(is_other), "{fault:?}");
                assert_eq!(depot.echo(fault.clone()).await, Ok(there_and_back(fault.clone())));
                depot.note(fault).await.unwrap();
            }
            // Longer than a slot, and than a ring.
            for count in [1, 40, 1000] {
                let faults = vec![$client::faults(); count].concat();
                let back: Vec<_> = faults.iter().cloned().map(there_and_back).collect();
                assert_eq!(depot.many(&faults, 8).await, Ok((back, 8)));
            }
            let sent = $client::report();
            let mut back = sent.clone();
            let change = |fault: &mut $client::Fault| *fault = there_and_back(fault.clone());
            back.faults.iter_mut().for_each(change);
            back.by_name.values_mut().for_each(change);
            back.last.iter_mut().for_each(change);
            if let $client::Nested::One(fault, _) = &mut back.nested {
                change(fault);
            }
            assert_eq!(depot.report(sent).await, Ok(back));
            let faults: Vec<_> = $client::faults().into_iter().map(at_server).collect();
            assert_eq!(*noted.borrow(), faults);
        });
    }};
}

/// A name that no other test of this process has.
fn name_of(directory: &Directory) -> String {
    let place = directory.path().parent().unwrap().file_name().unwrap().display().to_string();
    format!("depot/{place}")
}

/// Writes how a side of `$to` reads the variants of `$from`, apart from those which it does not know.
macro_rules! read {
    ($from:ident as $to:ident $(, $pattern:pat => $value:expr)*) => {
        |fault| match fault {
            $from::Fault::Missing => $to::Fault::Missing,
            $from::Fault::Full { room } => $to::Fault::Full { room },
            $($pattern => $value,)*
            #[allow(unreachable_patterns)]
            _ => $to::Fault::Other,
        }
    };
}

#[test]
fn a_side_reads_variants_that_it_does_not_know_as_the_other_one() {
    exchange!(old with new, read!(new as old), read!(old as new));
    exchange!(new with old, read!(old as new), read!(new as old));
}

#[test]
fn variants_that_both_sides_have_arrive_with_their_own_defaults() {
    let newer: fn(newest::Fault) -> new::Fault = read!(newest as new, newest::Fault::Slow { by } => {
        let by = new::Slowness { of: by.of, factor: by.factor, reason: String::new() };
        new::Fault::Slow { by }
    });
    let newest: fn(new::Fault) -> newest::Fault = read!(new as newest, new::Fault::Slow { by } => {
        let by = newest::Slowness { of: by.of, factor: by.factor };
        newest::Fault::Slow { by }
    });
    exchange!(new with newest, newer, newest);
    exchange!(newest with new, newest, newer);
}

#[test]
fn other_changes_of_an_enum_clash() {
    let _watchdog = Watchdog::new("enums that differ");
    let directory = Directory::new();
    let name = name_of(&directory);
    let node = node(&name, &directory.path(), Waiting::Sleeping);
    node.serve(old::DepotServer::new(old::Here::default())).unwrap();
    node.block_on(async {
        let depot: changed::DepotClient = node.connect(&name).await.unwrap();
        let Err(CallError::Clash(clash)) = depot.take(1).await else { panic!("it is bound") };
        let text = clash.to_string();
        assert!(text.contains("room: u32") && text.contains("room: u64"), "{text}");
        assert_eq!(depot.plain(3).await, Ok(3));
        // A side that does not take what it does not know would not bear the variants of the other side.
        let depot: closed::DepotClient = node.connect(&name).await.unwrap();
        for fault in closed::faults() {
            assert!(matches!(depot.echo(fault).await, Err(CallError::Clash(_))));
        }
    });
    let _ = (
        changed::report(),
        closed::report(),
        changed::Here::default().noted,
        closed::Here::default().noted,
    );
    let _: BTreeMap<String, changed::Fault> = changed::report().by_name;
}
