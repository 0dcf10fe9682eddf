//! Lamellar over its shared memory: active messages, one worker in each process, as its README
//! advises for processes with one CPU each. Its workers poll without a pause, and would take the CPUs
//! from all other cases: its two processes are therefore stopped between rounds.

mod arrays;

use crate::case::{Call, Fault, Mode, Op, Open, Place, Way, fault};
use crate::payload::{Payload, Tally};
use arrays::Arrays;
use clap::Args;
// Lamellar's macros expect everything in this module.
use lamellar::active_messaging::prelude::*;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use upbeat_cli::bench::pin;
use upbeat_cli::bench::timing::{Round, Work};

/// Lamellar over shared memory.
pub(super) fn ways() -> Vec<Way> {
    vec![Way {
        peer: "lamellar",
        carrier: "shared",
        mode: Mode::Polling,
        about: "active messages and arrays in its shared memory, one worker in each process",
        absent: &[],
        burst: 2_000,
        open: Open::Own(call),
    }]
}

/// The arguments of a process of Lamellar.
#[derive(Debug, Args)]
pub(crate) struct PeArguments {
    /// The CPU of the process.
    #[arg(long)]
    cpu: usize,
}

/// A request to the first process. Each is a line, and the reply is a line.
#[derive(Serialize, Deserialize)]
struct Order {
    op: String,
    work: Work,
}

/// The two processes of Lamellar.
struct Pes {
    children: Vec<Child>,
    orders: Option<ChildStdin>,
    other: Option<ChildStdin>,
    said: BufReader<ChildStdout>,
}

fn call(place: &Place<'_>) -> Result<Box<dyn Call>, Fault> {
    let program = std::env::current_exe().map_err(fault("finding this program"))?;
    let start = |pe: usize, cpu: usize| {
        Command::new(&program)
            .args(["lamellar-pe", "--cpu", &cpu.to_string()])
            .env("LAMELLAR_BACKEND", "shmem")
            .env("LAMELLAR_NUM_PES", "2")
            .env("LAMELLAR_PE_ID", pe.to_string())
            .env("LAMELLAR_JOB_ID", std::process::id().to_string())
            .env("LAMELLAR_THREADS", "1")
            .env("LAMELLAR_HEAP_SIZE", (64 << 20).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(fault("starting a process of it"))
    };
    let mut first = start(0, place.cpus.client)?;
    let mut second = start(1, place.cpus.server)?;
    let (orders, other) = (first.stdin.take(), second.stdin.take());
    let said = first.stdout.take().ok_or_else(|| Fault::new("its process has no output"))?;
    let children = vec![first, second];
    let mut pes = Pes { children, orders, other, said: BufReader::new(said) };
    pes.hear::<String>()?;
    pes.signal(Signal::STOP);
    Ok(Box::new(pes))
}

impl Pes {
    fn signal(&self, signal: Signal) {
        for child in &self.children {
            if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
                // A process that has ended is noticed when its reply is missing.
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    }

    /// Reads the next reply, and skips the lines that Lamellar itself writes.
    fn hear<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T, Fault> {
        let mut line = String::new();
        while self.said.read_line(&mut line).map_err(fault("listening to its process"))? > 0 {
            if let Some(ours) = line.strip_prefix(MARK) {
                let said: Result<T, String> =
                    serde_json::from_str(ours).map_err(fault("understanding its process"))?;
                return said.map_err(Fault::new);
            }
            line.clear();
        }
        Err(Fault::new("its process has ended"))
    }
}

impl Call for Pes {
    fn round(&mut self, op: Op, work: Work) -> Result<Round, Fault> {
        let order = Order { op: op.word().to_owned(), work };
        let order = serde_json::to_string(&order).map_err(fault("writing an order"))?;
        if op.is_read() {
            let other = self.other.as_mut().ok_or_else(|| Fault::new("it is about to end"))?;
            writeln!(other, "{order}").map_err(fault("ordering its second process"))?;
        }
        let orders = self.orders.as_mut().ok_or_else(|| Fault::new("it is about to end"))?;
        writeln!(orders, "{order}").map_err(fault("ordering its process"))?;
        self.signal(Signal::CONT);
        let round = self.hear();
        self.signal(Signal::STOP);
        round
    }
}

impl Drop for Pes {
    fn drop(&mut self) {
        // The processes end in good order, and free their memory, when their input ends.
        drop((self.orders.take(), self.other.take()));
        self.signal(Signal::CONT);
        let start = Instant::now();
        for child in &mut self.children {
            while child.try_wait().is_ok_and(|ended| ended.is_none()) {
                if start.elapsed() > Duration::from_secs(5) {
                    let _ = child.kill();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// The beginning of each reply's line.
const MARK: &str = "upbeat-bench: ";

/// Runs a process of Lamellar.
pub(crate) fn run_pe(arguments: &PeArguments) -> Result<(), Fault> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(fault("prctl"))?;
    pin::pin(arguments.cpu).map_err(fault("pinning"))?;
    let world = LamellarWorldBuilder::new().build();
    let mut arrays = Arrays::new(&world);
    world.barrier();
    let mut payload = Payload::new();
    let is_server = world.my_pe() == SERVER;
    if !is_server {
        say(&Ok("ready".to_owned()))?;
    }
    // The second process gets requests for reads alone, and then sets the values: else this thread sleeps, and its worker
    // serves.
    for line in std::io::stdin().lines() {
        let order: Order = serde_json::from_str(&line.map_err(fault("reading an order"))?)
            .map_err(fault("understanding an order"))?;
        if is_server {
            arrays.set();
            continue;
        }
        let round = round(&world, &order, &mut payload, &mut arrays);
        say(&round.map_err(|fault| fault.to_string()))?;
    }
    world.barrier();
    Ok(())
}

fn say<T: Serialize>(what: &Result<T, String>) -> Result<(), Fault> {
    let text = serde_json::to_string(what).map_err(fault("writing an answer"))?;
    let mut to = std::io::stdout().lock();
    writeln!(to, "{MARK}{text}").and_then(|()| to.flush()).map_err(fault("answering"))
}

/// The process that serves.
const SERVER: usize = 1;

fn round(
    world: &LamellarWorld,
    order: &Order,
    payload: &mut Payload,
    arrays: &mut Arrays,
) -> Result<Round, Fault> {
    let work = order.work;
    match Op::ALL.into_iter().find(|op| op.word() == order.op) {
        Some(Op::Null) => Ok(work.run(|| world.exec_am_pe(SERVER, Null {}).block())),
        Some(Op::KiB1) => work.try_run(|| {
            let data = payload.next().to_vec();
            payload.check(&world.exec_am_pe(SERVER, Bytes { data }).block())
        }),
        Some(Op::Stream) => work.try_bursts(|messages| {
            for n in 0..u64::from(messages) {
                // The round waits for this message's completion together with all others.
                drop(world.exec_am_pe(SERVER, Hit { n }).spawn());
            }
            world.wait_all();
            let (count, sum) = world.exec_am_pe(SERVER, Tallied {}).block();
            Tally { count, sum }.check(messages)
        }),
        Some(op @ (Op::Read | Op::ReadKiB1)) => arrays.round(op, work),
        None => Err(Fault::new(format!("no operation is called `{}`", order.op))),
    }
}

static COUNT: AtomicU64 = AtomicU64::new(0);
static SUM: AtomicU64 = AtomicU64::new(0);

/// A call without a payload.
#[lamellar::AmData(Clone, Debug)]
struct Null {}

#[lamellar::am]
impl LamellarAM for Null {
    async fn exec(self) {}
}

/// A call with the same bytes in both directions.
#[lamellar::AmData(Clone, Debug)]
struct Bytes {
    data: Vec<u8>,
}

#[lamellar::am]
impl LamellarAM for Bytes {
    async fn exec(self) -> Vec<u8> {
        self.data.clone()
    }
}

/// A message.
#[lamellar::AmData(Clone, Debug)]
struct Hit {
    n: u64,
}

#[lamellar::am]
impl LamellarAM for Hit {
    async fn exec(self) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        SUM.fetch_add(self.n, Ordering::Relaxed);
    }
}

/// Returns the tally of the messages since the last request.
#[lamellar::AmData(Clone, Debug)]
struct Tallied {}

#[lamellar::am]
impl LamellarAM for Tallied {
    async fn exec(self) -> (u64, u64) {
        (COUNT.swap(0, Ordering::Relaxed), SUM.swap(0, Ordering::Relaxed))
    }
}
