//! Calls the counter from threads, and from an async runtime that is not Upbeat's:
//! `cargo run --release -p upbeat --example counter_handle`.
#![forbid(unsafe_code)]

mod counter;

use counter::CounterHandle;
use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use upbeat::CallError;

fn main() {
    if let Err(error) = call() {
        eprintln!("counter_handle: {error}");
        std::process::exit(1);
    }
}

fn call() -> Result<(), Box<dyn Error>> {
    let counter: CounterHandle = upbeat::handle::connect("counter")?;

    // A thread that has nothing else to do waits in its calls, over a session of its own.
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let counter = counter.clone();
            thread::spawn(move || {
                let counter = counter.blocking();
                (0..1000).try_for_each(|_| counter.add(1).map(drop))
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread panics")?;
    }

    // Elsewhere the same methods are awaited, in any runtime.
    println!("the count is {}", block_on(twice(counter))?);
    Ok(())
}

async fn twice(counter: CounterHandle) -> Result<u64, CallError> {
    counter.add(1).await?;
    counter.add(1).await
}

/// The smallest async runtime, in the place of yours.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
