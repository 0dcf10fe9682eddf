//! A component that calls a service, and its unit tests, which need neither a node nor a server.
//!
//! The tests use an implementation of the service in the same process (`BankLocal`), and a mock that fails as a lost
//! server does (`impl BankCaller`). Run them with `cargo test -p upbeat --example mocked`.

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;
use upbeat::{CallError, Node, Wire};

type Error = Box<dyn std::error::Error>;

#[upbeat::service]
trait Bank {
    /// Takes a sum from an account, and returns what is left.
    async fn withdraw(&self, account: &str, cents: u64) -> Result<u64, BankError>;
}

/// Why the bank has not taken a sum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Wire)]
enum BankError {
    NoSuchAccount,
    TooLittleMoney,
}

/// The component: a till that charges accounts. It does not know how its calls travel.
struct Till<B> {
    bank: B,
    /// Charges that the bank may have made, for a clerk.
    unclear: RefCell<Vec<(String, u64)>>,
}

/// The outcome of a charge.
#[derive(Debug, PartialEq)]
enum Charge {
    Made,
    Refused(BankError),
    Unclear,
    NoBank,
}

impl<B: BankCaller> Till<B> {
    fn new(bank: B) -> Till<B> {
        Till { bank, unclear: RefCell::default() }
    }

    /// Charges an account once. The call is repeated only if the bank has certainly not run it.
    async fn charge(&self, account: &str, cents: u64) -> Charge {
        for _attempt in 0..3 {
            match self.bank.withdraw(account, cents).await {
                Ok(_left) => return Charge::Made,
                Err(CallError::Method(error)) => return Charge::Refused(error),
                Err(error) if error.may_have_run() => {
                    self.unclear.borrow_mut().push((account.to_owned(), cents));
                    return Charge::Unclear;
                }
                Err(_) => {}
            }
        }
        Charge::NoBank
    }
}

/// The service, which the tests use as well.
struct Vault(RefCell<HashMap<String, u64>>);

fn vault() -> Vault {
    Vault(RefCell::new(HashMap::from([("ada".to_owned(), 100)])))
}

impl Bank for Vault {
    async fn withdraw(&self, account: &str, cents: u64) -> Result<u64, BankError> {
        let mut accounts = self.0.borrow_mut();
        let balance = accounts.get_mut(account).ok_or(BankError::NoSuchAccount)?;
        *balance = balance.checked_sub(cents).ok_or(BankError::TooLittleMoney)?;
        Ok(*balance)
    }
}

fn main() -> Result<(), Error> {
    let name = format!("bank/{}", std::process::id());
    let bank = upbeat::serve_on(&name, 1, || BankServer::new(vault()))?;
    let node = Node::client()?;
    node.block_on(async {
        let till = Till::new(node.connect::<BankClient>(&name).await?);
        assert_eq!(till.charge("ada", 70).await, Charge::Made);
        let refused = till.charge("ada", 70).await;
        assert_eq!(refused, Charge::Refused(BankError::TooLittleMoney));
        println!("of two charges of 70 cents the first is made, the second is {refused:?}");
        Ok::<_, Error>(())
    })?;
    bank.shut_down(Duration::from_secs(1))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use upbeat::{Lost, Why};

    /// Runs a future on a node that no other process can reach.
    fn run<F: Future>(future: F) -> F::Output {
        Node::builder("test").local_only().build().unwrap().block_on(future)
    }

    #[test]
    fn the_program_runs() {
        main().unwrap();
    }

    #[test]
    fn a_charge_is_made_or_refused() {
        let till = Till::new(BankLocal::new(vault()));
        assert_eq!(run(till.charge("ada", 70)), Charge::Made);
        assert_eq!(run(till.charge("ada", 70)), Charge::Refused(BankError::TooLittleMoney));
        assert_eq!(run(till.charge("bob", 1)), Charge::Refused(BankError::NoSuchAccount));
        assert_eq!(till.bank.service.0.borrow()["ada"], 30);
    }

    /// A bank that is lost in its first calls, and then answers.
    struct Unsteady {
        calls: Cell<usize>,
        losses: Vec<CallError<BankError>>,
    }

    impl BankCaller for Unsteady {
        async fn withdraw(&self, _account: &str, _cents: u64) -> Result<u64, CallError<BankError>> {
            let call = self.calls.replace(self.calls.get() + 1);
            self.losses.get(call).map_or(Ok(0), |loss| Err(loss.clone()))
        }
    }

    fn charged(losses: Vec<CallError<BankError>>) -> (Charge, usize, usize) {
        let till = Till::new(Unsteady { calls: Cell::new(0), losses });
        let charge = run(till.charge("ada", 70));
        (charge, till.bank.calls.get(), till.unclear.borrow().len())
    }

    #[test]
    fn a_call_is_repeated_only_if_it_has_not_run() {
        let not_sent = CallError::NotSent(Box::new(Lost::new("bank", Why::Died)));
        assert_eq!(charged(vec![not_sent.clone(); 2]), (Charge::Made, 3, 0));
        assert_eq!(charged(vec![not_sent; 3]), (Charge::NoBank, 3, 0));

        let unknown = CallError::Unknown(Box::new(Lost::new("bank", Why::Died)));
        assert_eq!(charged(vec![unknown]), (Charge::Unclear, 1, 1));
    }
}
