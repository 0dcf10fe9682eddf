//! A service on two cores, and clients that see both of them at work.
//!
//! Each client thread has a session of its own, and the sessions are spread over the nodes. Run it with `cargo run --release -p upbeat --example several_cores`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Error = Box<dyn std::error::Error + Send + Sync>;

const CORES: usize = 2;
const CLIENTS: usize = 4;
const CALLS: u64 = 50;

/// A service that computes.
#[upbeat::service]
pub trait Primes {
    /// Counts the primes below a number. Returns the number of the core as well.
    async fn below(&self, limit: u64) -> (usize, u64);
}

/// Each core has an instance of its own. What all cores share is behind an `Arc`.
struct Counting {
    core: usize,
    busy_ns: Arc<AtomicU64>,
}

#[upbeat::service]
impl Primes for Counting {
    // Without this rule, the node would report that the method computes for more than 100 us.
    #[method(budget = "50ms")]
    async fn below(&self, limit: u64) -> (usize, u64) {
        let began = Instant::now();
        let primes = primes_below(limit);
        self.busy_ns.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        (self.core, primes)
    }
}

fn primes_below(limit: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (2..limit).filter(is_prime).count() as u64
}

/// Calls again and again. Returns how many calls each core has answered.
fn call(name: &str) -> Result<[u64; CORES], Error> {
    let primes: PrimesHandle = upbeat::handle::connect(name)?;
    // All calls of a session go to one core, and these calls share one session.
    let primes = primes.blocking();
    let mut answered = [0; CORES];
    for _ in 0..CALLS {
        let (core, count) = primes.below(2000)?;
        assert_eq!(count, 303, "the primes below 2000");
        answered[core] += 1;
    }
    Ok(answered)
}

fn main() -> Result<(), Error> {
    // The process is in the name, so two runs of this example do not meet.
    let name = format!("primes/{}", std::process::id());
    let busy_ns = Arc::new(AtomicU64::new(0));
    let next_core = AtomicUsize::new(0);
    let service = {
        let busy_ns = busy_ns.clone();
        move || {
            let core = next_core.fetch_add(1, Ordering::Relaxed);
            PrimesServer::new(Counting { core, busy_ns: busy_ns.clone() })
        }
    };
    let cores = upbeat::serve_on(&name, CORES, service)?;

    let began = Instant::now();
    let clients: Vec<[u64; CORES]> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| call(&name))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().expect("a client panicked"));
        joined.collect::<Result<_, _>>()
    })?;
    let elapsed = began.elapsed();

    for (client, [first, second]) in clients.iter().enumerate() {
        println!("client {client}: {first} calls were answered by core 0, {second} by core 1");
    }
    let busy = Duration::from_nanos(busy_ns.load(Ordering::Relaxed));
    println!("the two cores computed for {busy:.1?} in total, within {elapsed:.1?}");
    assert!(
        clients.iter().all(|answered| answered.contains(&CALLS)),
        "one core answers one client"
    );
    let answered = |core: usize| clients.iter().map(|client| client[core]).sum::<u64>();
    assert_eq!([answered(0), answered(1)], [100, 100], "each core has half of the clients");
    cores.shut_down(Duration::from_secs(1))?;
    Ok(())
}
