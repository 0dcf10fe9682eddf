//! A service that says what its methods need, and how they are run.

use crate::common::yield_now;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use upbeat::sync::Mutex;

#[upbeat::service]
pub(crate) trait Bank {
    /// Takes a sum out once it is there, and says what is left; is sent back until then.
    #[method(nack)]
    async fn withdraw(&self, sum: u64) -> u64;
    /// Takes a sum out like `withdraw`, with an error of its own.
    #[method(nack)]
    async fn transfer(&self, sum: u64) -> Result<u64, String>;
    /// So many coins, once they are there; the other says that there are none of 0.
    #[method(nack)]
    async fn coins(&self, sum: u64) -> Vec<u64>;
    #[method(nack)]
    async fn change(&self, sum: u64) -> Result<Vec<u64>, String>;
    /// Takes a sum out once it is there, asks for so much more time, and says after a while how many
    /// microseconds it was given.
    #[method(nack)]
    async fn lend(&self, sum: u64, wants_us: u64, naps_ms: u64) -> Result<u64, String>;
    /// Notes a sum first.
    #[method(nack)]
    async fn swap(&self, first: u64, sum: u64) -> u64;
    /// Notes a sum first like `swap`, but the request is not sent back.
    async fn pay(&self, sum: u64) -> u64;
    async fn deposit(&self, sum: u64);
    /// Holds the lock for so long.
    async fn hold(&self, ms: u64);
    async fn nap(&self);
    /// Computes in so many pieces, in loops that have checkpoints.
    async fn audit(&self, pieces: u64) -> u64;
    /// The sums in the order in which bodies began with them.
    async fn begun(&self) -> Vec<u64>;
}

pub(crate) struct Vault {
    lock: Mutex<()>,
    balance: Cell<u64>,
    begun: RefCell<Vec<u64>>,
}

impl Default for Vault {
    fn default() -> Vault {
        let lock = Mutex::named("vault", ());
        Vault { lock, balance: Cell::new(0), begun: RefCell::default() }
    }
}

impl Vault {
    async fn take(&self, sum: u64) -> u64 {
        self.begun.borrow_mut().push(sum);
        loop {
            let _held = self.lock.lock().await;
            if let Some(left) = self.balance.get().checked_sub(sum) {
                self.balance.set(left);
                return left;
            }
            drop(_held);
            upbeat::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[upbeat::service]
impl Bank for Vault {
    #[method(needs(self.lock, self.balance.get() >= *sum))]
    async fn withdraw(&self, sum: u64) -> u64 {
        self.take(sum).await
    }

    #[method(needs(self.lock, self.balance.get() >= *sum))]
    async fn transfer(&self, sum: u64) -> Result<u64, String> {
        match sum {
            0 => Err("nothing to transfer".into()),
            sum => Ok(self.take(sum).await),
        }
    }

    #[method(needs(self.lock, self.balance.get() >= *sum))]
    async fn coins(&self, sum: u64) -> Vec<u64> {
        self.take(sum).await;
        (0..sum).collect()
    }

    #[method(needs(self.lock, self.balance.get() >= *sum))]
    async fn change(&self, sum: u64) -> Result<Vec<u64>, String> {
        match sum {
            0 => Err("nothing to change".into()),
            sum => Ok(self.coins(sum).await),
        }
    }

    #[method(needs(self.lock, self.balance.get() >= *sum))]
    async fn lend(&self, sum: u64, wants_us: u64, naps_ms: u64) -> Result<u64, String> {
        self.take(sum).await;
        let given = upbeat::extend(Duration::from_micros(wants_us)).await;
        upbeat::sleep(Duration::from_millis(naps_ms)).await;
        given.map(|given| given.as_micros() as u64).map_err(|error| error.to_string())
    }

    #[method(needs(self.lock))]
    async fn swap(&self, first: u64, sum: u64) -> u64 {
        self.begun.borrow_mut().push(first);
        self.withdraw(sum).await
    }

    #[method(needs(self.lock, self.balance.get() >= *sum))]
    async fn pay(&self, sum: u64) -> u64 {
        self.take(sum).await
    }

    async fn deposit(&self, sum: u64) {
        self.balance.set(self.balance.get() + sum);
    }

    async fn hold(&self, ms: u64) {
        let _held = self.lock.lock().await;
        upbeat::sleep(Duration::from_millis(ms)).await;
    }

    #[method(execution = "am")]
    async fn nap(&self) {
        yield_now().await;
    }

    #[method(yields, budget = "1ms")]
    async fn audit(&self, pieces: u64) -> u64 {
        let mut sum = 0;
        for piece in 0..pieces {
            crate::shop::grind();
            sum += piece;
        }
        sum
    }

    async fn begun(&self) -> Vec<u64> {
        self.begun.borrow().clone()
    }
}

#[upbeat::service]
pub(crate) trait Desk {
    /// Notes the number when it begins, yields so many times, and notes it again.
    async fn serve(&self, number: u64, yields: u64);
    /// Serves like `serve`, without a reply.
    #[oneway]
    async fn queue(&self, number: u64, yields: u64);
    async fn noted(&self) -> Vec<u64>;
}

#[derive(Default)]
pub(crate) struct Clerk {
    noted: RefCell<Vec<u64>>,
}

#[upbeat::service(serial)]
impl Desk for Clerk {
    async fn serve(&self, number: u64, yields: u64) {
        self.noted.borrow_mut().push(number);
        for _ in 0..yields {
            yield_now().await;
        }
        self.noted.borrow_mut().push(number);
    }

    async fn queue(&self, number: u64, yields: u64) {
        self.serve(number, yields).await;
    }

    async fn noted(&self) -> Vec<u64> {
        self.noted.borrow().clone()
    }
}
