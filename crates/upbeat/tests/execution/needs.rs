//! Aborts: a handler whose needs are not met runs again as a task, or its call is sent back; handlers
//! of a serial service run one after another.

use crate::bank::{BankClient, BankHandle, BankServer, DeskClient, Vault};
use crate::common::server::KINDS;
use crate::common::{PROGRAM, Watchdog, soon, until};
use crate::shop::{ShopClient, Stand, counted, until_counted};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use upbeat::error::{Called, FailCode};
use upbeat::{CallError, CallInfo, Counter, Execution, Layer, Next, Node, Outcome, Refusal};
use upbeat_core::bill::event::Event;

async fn clients(stand: &Stand) -> (ShopClient, BankClient) {
    (stand.client().await, stand.node.connect(&stand.name()).await.unwrap())
}

#[test]
fn what_lacks_its_needs_runs_once_and_as_a_task() {
    let _watchdog = Watchdog::new("rerun");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            bank.deposit(10).await.unwrap();
            // All is there: it runs where it lies.
            assert_eq!(bank.pay(3).await, Ok(7));
            assert_eq!(counted(&shop, Counter::PromotedByCondition).await, 0);
            let hold = bank.hold(20).try_send().unwrap();
            assert_eq!(bank.pay(3).await, Ok(4));
            hold.await.unwrap();
            assert_eq!(counted(&shop, Counter::PromotedByLock).await, 1);
            let pay = bank.pay(5).try_send().unwrap();
            bank.deposit(1).await.unwrap();
            assert_eq!(pay.await, Ok(0));
            assert_eq!(counted(&shop, Counter::PromotedByCondition).await, 1);
            assert_eq!(bank.begun().await, Ok(vec![3, 3, 5]));
            assert_eq!(counted(&shop, Counter::HandlersRefused).await, 0);
        });
    }
}

#[test]
fn where_nothing_may_wait_nothing_of_it_has_run() {
    let _watchdog = Watchdog::new("needs of active messages");
    for kind in KINDS {
        let stand = Stand::new(kind, Some(Execution::Am));
        stand.node.block_on(async {
            let (_, bank) = clients(&stand).await;
            let Err(CallError::Failed { code, text, .. }) = bank.pay(5).await else { panic!() };
            assert_eq!((code, &*text), (FailCode::WouldWait, "a condition"));
            assert_eq!(bank.begun().await, Ok(vec![]));
        });
    }
}

#[test]
fn what_is_sent_back_comes_again_and_runs_once() {
    let _watchdog = Watchdog::new("nack");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            // The request is sent back until the account holds something.
            let withdrawn = stand.node.spawn({
                let bank = bank.clone();
                async move { bank.withdraw(5).await }
            });
            until_counted(&shop, Counter::HandlersRefused, 1).await;
            bank.deposit(5).await.unwrap();
            assert_eq!(soon(withdrawn).await.unwrap(), Ok(0));
            assert_eq!(bank.begun().await, Ok(vec![5]));
            // Many at once: each is done once.
            let many: Vec<_> = (0..60)
                .map(|_| {
                    let bank = bank.clone();
                    stand.node.spawn(async move { bank.withdraw(1).await })
                })
                .collect();
            for _ in 0..30 {
                bank.deposit(2).await.unwrap();
                upbeat::sleep(Duration::from_micros(100)).await;
            }
            for one in many {
                assert!(soon(one).await.unwrap().unwrap() < 60);
            }
            assert_eq!(bank.begun().await.unwrap().len(), 61);
            assert_eq!(
                bank.transfer(0).await,
                Err(CallError::Method("nothing to transfer".into()))
            );
        });
    }
}

/// Notes how each attempt of a call has ended.
struct Attempts(Arc<Mutex<Vec<Outcome>>>);

impl Layer for Attempts {
    async fn around(&self, _: &CallInfo, next: Next<'_>) -> Result<(), Refusal> {
        next.run().await
    }

    fn ended(&self, call: &CallInfo, outcome: Outcome, _: Duration) {
        if call.method() == "withdraw" {
            self.0.lock().unwrap().push(outcome);
        }
    }
}

#[test]
fn each_attempt_of_what_is_sent_back_passes_the_layers() {
    let _watchdog = Watchdog::new("nack through layers");
    let attempts = Arc::<Mutex<Vec<Outcome>>>::default();
    let node = Node::builder("nack/layers").local_only().build().unwrap();
    let server = BankServer::new(Vault::default());
    node.serve(server.layer(Attempts(Arc::clone(&attempts)))).unwrap();
    node.block_on(async {
        let bank: BankClient = node.connect("nack/layers").await.unwrap();
        let withdrawn = node.spawn({
            let bank = bank.clone();
            async move { bank.withdraw(5).await }
        });
        until(|| attempts.lock().unwrap().len() > 1).await;
        bank.deposit(5).await.unwrap();
        assert_eq!(soon(withdrawn).await.unwrap(), Ok(0));
    });
    let attempts = attempts.lock().unwrap();
    let (last, before) = attempts.split_last().unwrap();
    assert_eq!(*last, Outcome::Replied);
    assert!(before.iter().all(|attempt| *attempt == Outcome::Cancelled), "{attempts:?}");
    assert!(before.len() < 9, "{attempts:?}");
}

#[test]
fn what_is_sent_back_is_not_billed_as_failed() {
    let _watchdog = Watchdog::new("nack on the bill");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            stand.node.set_sampling(1);
            let withdrawn = stand.node.spawn({
                let bank = bank.clone();
                async move { bank.withdraw(5).await }
            });
            until_counted(&shop, Counter::HandlersRefused, 1).await;
            bank.deposit(5).await.unwrap();
            assert_eq!(soon(withdrawn).await.unwrap(), Ok(0));
        });
        let pages = upbeat_memory::samples::observe(std::process::id()).unwrap();
        let page = pages.iter().find(|page| page.node() == stand.node.name()).expect("a page");
        let events = (page.oldest()..page.written())
            .filter_map(|number| Event::from_byte(page.read(number).unwrap().rung));
        assert_eq!(events.collect::<Vec<_>>(), []);
    }
}

#[test]
fn what_is_sent_back_fills_its_buffer_in_the_end() {
    let _watchdog = Watchdog::new("nack into a buffer");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            for round in [0, 1] {
                let filled = stand.node.spawn({
                    let bank = bank.clone();
                    async move {
                        let mut coins = [9; 6];
                        let filled = match round {
                            0 => bank.coins(5).into(&mut coins).await.unwrap(),
                            _ => bank.change(5).into(&mut coins).await.unwrap(),
                        };
                        (filled, coins)
                    }
                });
                until_counted(&shop, Counter::HandlersRefused, round + 1).await;
                bank.deposit(5).await.unwrap();
                assert_eq!(soon(filled).await, Ok((5, [0, 1, 2, 3, 4, 9])));
            }
            let mut none = [0; 1];
            let error = CallError::Method("nothing to change".into());
            assert_eq!(bank.change(0).into(&mut none).await, Err(error));
            bank.deposit(2).await.unwrap();
            let error = CallError::NoRoom { items: 2, room: 1, called: Called::default() };
            assert_eq!(bank.coins(2).into(&mut none).await, Err(error));
        });
    }
}

/// However often it is sent, it has the time that it was given first, and as much more as was said then.
#[test]
fn what_is_sent_back_may_be_extended_until_the_total_of_its_first_attempt() {
    let _watchdog = Watchdog::new("nack extended");
    let ms = Duration::from_millis;
    let (has, needs, total) = (ms(2_000), 2_500, ms(60_000));
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            // The handler asks for more time than there is, and is given the rest of the total since the first attempt.
            let sent = Rc::new(Cell::new(None));
            let lent = stand.node.spawn({
                let (bank, sent) = (bank.clone(), Rc::clone(&sent));
                async move {
                    let call = bank.lend(5, 90_000_000, needs).deadline(has).extendable(total);
                    sent.set(Some(Instant::now()));
                    call.await
                }
            });
            while counted(&shop, Counter::HandlersRefused).await < 6 {}
            let refused_for = sent.get().unwrap().elapsed();
            bank.deposit(5).await.unwrap();
            let given = Duration::from_micros(lent.await.unwrap().unwrap());
            assert!(has < given && given <= total - refused_for, "{given:?}, {refused_for:?}");
            // Without a total it has what it was given.
            bank.deposit(5).await.unwrap();
            let fixed = bank.lend(5, 90_000_000, 0).deadline(has).await;
            let error = "the deadline is fixed: its caller did not say `extendable`";
            assert_eq!(fixed, Err(CallError::Method(error.into())));
        });
    }
}

#[test]
fn what_has_begun_is_not_sent_back_for_what_a_part_of_it_needs() {
    let _watchdog = Watchdog::new("needs of a part");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            let swapped = stand.node.spawn({
                let bank = bank.clone();
                async move { bank.swap(7, 5).await }
            });
            soon(async { while bank.begun().await.unwrap().is_empty() {} }).await;
            bank.deposit(5).await.unwrap();
            assert_eq!(soon(swapped).await.unwrap(), Ok(0));
            assert_eq!(bank.begun().await, Ok(vec![7, 5]));
            assert_eq!(counted(&shop, Counter::HandlersRefused).await, 0);
        });
    }
}

#[test]
fn what_was_refused_often_enough_is_a_task() {
    let _watchdog = Watchdog::new("bounded refusals");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            let late = stand.node.spawn({
                let bank = bank.clone();
                async move { bank.withdraw(5).await }
            });
            until_counted(&shop, Counter::PromotedByCondition, 1).await;
            assert_eq!(counted(&shop, Counter::HandlersRefused).await, 8);
            bank.deposit(5).await.unwrap();
            assert_eq!(soon(late).await.unwrap(), Ok(0));
            assert_eq!(bank.begun().await, Ok(vec![5]));
            // A handle keeps nothing, and is not sent anything back.
            let (place, name) = (stand.place.clone(), stand.name());
            let blocked = std::thread::spawn(move || {
                let builder = upbeat::handle::builder().program(PROGRAM).directory(&place);
                let handle: BankHandle = builder.connect(&name).unwrap();
                handle.blocking().withdraw(7)
            });
            until_counted(&shop, Counter::PromotedByCondition, 2).await;
            bank.deposit(7).await.unwrap();
            until(|| blocked.is_finished()).await;
            assert_eq!(blocked.join().unwrap(), Ok(0));
            assert_eq!(counted(&shop, Counter::HandlersRefused).await, 8);
        });
    }
}

#[test]
fn who_backs_off_keeps_its_deadline_and_can_be_dropped() {
    let _watchdog = Watchdog::new("backing off");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            // Shorter than all refusals take. On a busy machine, a call may end before it is refused once.
            let (mut calls, mut refused) = (0, 0);
            while refused == 0 {
                let late = soon(bank.withdraw(5).deadline(Duration::from_micros(300))).await;
                // Between two attempts the call is not sent.
                assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
                calls += 1;
                refused = counted(&shop, Counter::HandlersRefused).await;
            }
            let before = refused;
            while refused == before {
                let dropped = upbeat::within(Duration::from_micros(300), bank.withdraw(5));
                assert!(soon(dropped).await.is_err());
                calls += 1;
                refused = counted(&shop, Counter::HandlersRefused).await;
            }
            assert!(refused <= 8 * calls, "{refused} of {calls} calls");
            upbeat::sleep(Duration::from_millis(20)).await;
            assert_eq!(counted(&shop, Counter::HandlersRefused).await, refused);
            bank.deposit(5).await.unwrap();
            upbeat::sleep(Duration::from_millis(20)).await;
            assert_eq!(bank.begun().await, Ok(vec![]), "nobody wants it any more");
            assert_eq!(soon(bank.withdraw(5).deadline(Duration::from_secs(60))).await, Ok(0));
            // Sent again often enough to be a task, it is held to what is left of its time.
            let mut time = Duration::from_millis(50);
            while counted(&shop, Counter::PromotedByCondition).await == 0 {
                let late = soon(bank.withdraw(5).deadline(time)).await;
                assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
                time *= 2;
            }
        });
    }
}

/// A call that is sent, also where the server does not keep up.
async fn sent(
    desk: &DeskClient,
    number: u64,
    yields: u64,
) -> impl Future<Output = Result<(), CallError>> + use<'_> {
    loop {
        match desk.serve(number, yields).try_send() {
            Ok(call) => return call,
            Err(CallError::Full) => upbeat::sleep(Duration::from_millis(1)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn handlers_of_a_serial_service_run_one_after_another() {
    let _watchdog = Watchdog::new("serial");
    for kind in KINDS {
        for execution in [Execution::Orpc, Execution::Trpc, Execution::TrpcBack] {
            let stand = Stand::new(kind, Some(execution));
            stand.node.block_on(async {
                let desk: DeskClient = stand.node.connect(&stand.name()).await.unwrap();
                for number in 0..100 {
                    desk.queue(number, 5 - number % 5).await.unwrap();
                }
                // A waiting caller that gives up lets the next one through.
                drop(sent(&desk, 1000, 1_000_000).await);
                let served = sent(&desk, 100, 3).await;
                let noted = soon(desk.noted()).await.unwrap();
                let twice = |number| [number, number];
                let expected: Vec<u64> = (0..=100).flat_map(twice).collect();
                let noted: Vec<u64> = noted.into_iter().filter(|number| *number < 1000).collect();
                assert_eq!(noted, expected, "{execution}");
                soon(served).await.unwrap();
            });
        }
    }
}

#[test]
fn a_method_has_an_execution_of_its_own() {
    let _watchdog = Watchdog::new("own execution");
    for kind in KINDS {
        let stand = Stand::new(kind, Some(Execution::Trpc));
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            let Err(CallError::Failed { code, .. }) = bank.nap().await else { panic!() };
            assert_eq!(code, FailCode::WouldWait);
            assert_eq!(counted(&shop, Counter::HandlersEnded).await, 1);
        });
    }
}

#[test]
fn loops_make_way_where_the_method_yields() {
    let _watchdog = Watchdog::new("yields");
    for kind in KINDS {
        let stand = Stand::new(kind, None);
        stand.node.block_on(async {
            let (shop, bank) = clients(&stand).await;
            assert_eq!(bank.audit(10).await, Ok(45));
            assert_eq!(bank.audit(5_000).await, Ok(12_497_500));
            assert!(counted(&shop, Counter::PromotedByBudget).await >= 1);
        });
    }
}
