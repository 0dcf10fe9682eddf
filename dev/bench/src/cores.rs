//! `bench cores`: calls that compute, of several clients, to one node and to several behind one name.
//!
//! Server and clients are threads of this process, and all of them sleep while they wait. Rounds of one node and
//! rounds of several alternate. The work of a method is a fixed number of steps, which is measured once.

use clap::Args;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use upbeat::{BuildError, Cores, Node, Waiting};
use upbeat_cli::bench::error::BenchError;

/// The arguments of `bench cores`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many nodes share the name
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    nodes: u32,
    /// How many clients call
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    clients: u32,
    /// How many microseconds a method computes
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    work: u64,
    /// How many rounds of each there are
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// How long a round lasts.
const ROUND: Duration = Duration::from_millis(300);

#[upbeat::service]
trait Computer {
    async fn compute(&self, steps: u64) -> u64;
}

struct Steps;

impl Computer for Steps {
    async fn compute(&self, steps: u64) -> u64 {
        work(steps)
    }
}

/// Steps that each need the one before.
fn work(steps: u64) -> u64 {
    (0..steps).fold(1, |value, step| black_box(value ^ step).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns how many steps take so long.
fn steps_of(time: Duration) -> u64 {
    const STEPS: u64 = 1_000_000;
    let fastest = (0..20).map(|_| {
        let begun = Instant::now();
        black_box(work(black_box(STEPS)));
        begun.elapsed()
    });
    let fastest = fastest.min().unwrap_or(Duration::MAX);
    (STEPS as u128 * time.as_nanos() / fastest.as_nanos().max(1)).max(1) as u64
}

/// Calls a second of all clients in a round, and those of the client with the most for each of the client with the
/// fewest.
#[derive(Clone, Copy)]
struct Round {
    a_second: f64,
    unevenness: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    // Others may measure at the same time.
    let program = format!("bench-{}", std::process::id());
    let failed = |error: &dyn std::fmt::Display| BenchError::protocol(error.to_string());
    let steps = steps_of(Duration::from_micros(arguments.work));
    let start =
        |name: &'static str, nodes| serve(name, nodes, &program).map_err(|error| failed(&error));
    let _servers = [start("one", 1)?, start("several", arguments.nodes as usize)?];
    let connect = |name| {
        let connect = |_| {
            let builder = upbeat::handle::builder().program(&program);
            builder.waiting(Waiting::Sleeping).connect::<ComputerHandle>(name)
        };
        let clients = (0..arguments.clients).map(connect).collect::<Result<Vec<_>, _>>();
        clients.map_err(|error| failed(&error))
    };
    let clients = [connect("one")?, connect("several")?];
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..arguments.rounds {
        for (clients, rounds) in clients.iter().zip(&mut rounds) {
            rounds.push(round(clients, steps).map_err(|error| failed(&error))?);
        }
    }
    let median = |of: &dyn Fn(usize) -> f64| {
        let mut values: Vec<f64> = (0..arguments.rounds as usize).map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let Arguments { nodes, clients, work, .. } = arguments;
    println!(
        "{clients} clients, methods that compute {work} us, medians of {} rounds",
        arguments.rounds
    );
    for (of, name) in rounds.iter().zip(["1 node".to_owned(), format!("{nodes} nodes")]) {
        println!(
            "{name:>9}: {:>8.0} calls a second; the busiest client has {:.2} times the calls of the idlest",
            median(&|round| of[round].a_second),
            median(&|round| of[round].unevenness)
        );
    }
    let ratio = median(&|round| rounds[1][round].a_second / rounds[0][round].a_second);
    println!("{nodes} nodes take {ratio:.2} times the calls of 1");
    Ok(())
}

fn serve(
    name: &'static str,
    nodes: usize,
    program: &str,
) -> Result<Cores, upbeat::CoresError<BuildError>> {
    let program = program.to_owned();
    upbeat::nodes_on(nodes, move || {
        let builder = Node::builder(name).program(&program);
        let node = builder.waiting(Waiting::Sleeping).build()?;
        node.serve(ComputerServer::new(Steps))?;
        Ok(node)
    })
}

/// Has each client call for as long as a round lasts.
fn round(clients: &[ComputerHandle], steps: u64) -> Result<Round, upbeat::CallError> {
    let (over, begins) = (AtomicBool::new(false), Barrier::new(clients.len() + 1));
    let (counts, took) = std::thread::scope(|scope| {
        let call = |client: &ComputerHandle| {
            let client = client.clone();
            let (over, begins) = (&over, &begins);
            scope.spawn(move || {
                let (blocking, mut calls) = (client.blocking(), 0u64);
                begins.wait();
                while !over.load(Ordering::Relaxed) {
                    blocking.compute(steps)?;
                    calls += 1;
                }
                Ok(calls)
            })
        };
        let threads: Vec<_> = clients.iter().map(call).collect();
        begins.wait();
        let begun = Instant::now();
        std::thread::sleep(ROUND);
        over.store(true, Ordering::Relaxed);
        let took = begun.elapsed();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(calls) => calls,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        (threads.into_iter().map(join).collect::<Result<Vec<u64>, upbeat::CallError>>(), took)
    });
    let counts = counts?;
    let (fewest, most) = (counts.iter().min().copied(), counts.iter().max().copied());
    let unevenness = most.unwrap_or(0) as f64 / fewest.unwrap_or(0).max(1) as f64;
    Ok(Round { a_second: counts.iter().sum::<u64>() as f64 / took.as_secs_f64(), unevenness })
}
