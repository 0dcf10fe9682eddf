//! Limits of the operating system: round trips through the system, and the cost of system calls.

use super::tools::{Limit, Tools};
use crate::bench::error::BenchError;
use crate::bench::line;
use crate::bench::pin;
use crate::bench::rounds::Floor;
use crate::bench::socket::{answer, ask, repeat};
use crate::bench::timing::{Round, Work};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::thread::futex;
use rustix::time::ClockId;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use upbeat_memory::ticks::ticks;

/// The limits of this module.
pub(super) const LIMITS: &[Limit] = &[
    sleeping(Limit::alone(
        "futex/sleeping",
        "round trip of two futexes, both sides sleeping; two threads of one process",
        |tools, _, work| futexes(tools, work),
    )),
    sleeping(Limit::round_trip(
        "eventfd/sleeping",
        "round trip of two eventfds, both sides sleeping; the floor of sleeping calls",
        |_, ground, work| line::ring(ground, work),
        |_, ground, work| line::ring_back(ground, work),
    )),
    Limit::round_trip(
        "eventfd/polling",
        "round trip of two eventfds, both sides reading until there is something",
        |tools, _, work| {
            work.try_run(|| {
                line::wake(&tools.peer_flag)?;
                poll(&tools.own_flag)
            })
        },
        |tools, _, work| {
            repeat(work, || {
                poll(&tools.own_flag)?;
                line::wake(&tools.peer_flag)
            })
        },
    ),
    sleeping(Limit::round_trip(
        "unix/stream/sleeping",
        "round trip of 8 bytes over a unix stream socket, both sides blocking",
        |tools, _, work| ask(&tools.stream, work, RecvFlags::empty()),
        |tools, _, work| answer(&tools.stream, work, RecvFlags::empty()),
    )),
    Limit::round_trip(
        "unix/stream/polling",
        "the same, both sides reading until there is something",
        |tools, _, work| ask(&tools.stream, work, RecvFlags::DONTWAIT),
        |tools, _, work| answer(&tools.stream, work, RecvFlags::DONTWAIT),
    ),
    sleeping(Limit::round_trip(
        "unix/seqpacket/sleeping",
        "round trip of 8 bytes over a unix packet socket, both sides blocking",
        |tools, _, work| ask(&tools.packets, work, RecvFlags::empty()),
        |tools, _, work| answer(&tools.packets, work, RecvFlags::empty()),
    )),
    Limit::round_trip(
        "unix/seqpacket/polling",
        "the same, both sides reading until there is something",
        |tools, _, work| ask(&tools.packets, work, RecvFlags::DONTWAIT),
        |tools, _, work| answer(&tools.packets, work, RecvFlags::DONTWAIT),
    ),
    sleeping(Limit::round_trip(
        "tcp/sleeping",
        "round trip of 8 bytes over TCP on the loopback interface, both sides blocking",
        |tools, _, work| ask(&tools.tcp, work, RecvFlags::empty()),
        |tools, _, work| answer(&tools.tcp, work, RecvFlags::empty()),
    )),
    Limit::round_trip(
        "tcp/polling",
        "the same, both sides reading until there is something",
        |tools, _, work| ask(&tools.tcp, work, RecvFlags::DONTWAIT),
        |tools, _, work| answer(&tools.tcp, work, RecvFlags::DONTWAIT),
    ),
    Limit::alone("ticks", "reading the processor's clock", |_, _, work| {
        Ok(work.run(|| {
            black_box(ticks());
        }))
    }),
    Limit::alone("clock", "clock_gettime of the monotonic clock", |_, _, work| {
        Ok(work.run(|| {
            black_box(rustix::time::clock_gettime(ClockId::Monotonic));
        }))
    }),
    Limit::alone("syscall", "a system call that does nothing (getuid)", |_, _, work| {
        Ok(work.run(|| {
            black_box(rustix::process::getuid());
        }))
    }),
    Limit::alone("yield", "sched_yield with nobody to yield to", |_, _, work| {
        Ok(work.run(rustix::thread::sched_yield))
    }),
    Limit::alone("atomic/add", "an atomic addition to a word of our own", |_, _, work| {
        let word = AtomicU64::new(0);
        Ok(work.run(|| {
            black_box(&word).fetch_add(1, Ordering::SeqCst);
        }))
    }),
];

/// Makes a limit compare itself with the floor of sleeping too, because both sides sleep.
const fn sleeping(limit: Limit) -> Limit {
    Limit { floor: Floor::Eventfds, ..limit }
}

/// Polls an eventfd until it is not zero.
fn poll(flag: impl AsFd) -> Result<(), BenchError> {
    let mut count = [0; 8];
    loop {
        match rustix::io::read(&flag, &mut count) {
            Ok(_) => return Ok(()),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(BenchError::System { act: "read of eventfd", error }),
        }
    }
}

/// Measures futexes between two threads, because shared segments give no references, which a futex needs. The
/// kernel treats them equally: two sleeping threads on two CPUs.
fn futexes(tools: &Tools, work: Work) -> Result<Round, BenchError> {
    let (asked, answered) = (AtomicU32::new(0), AtomicU32::new(0));
    let Some(cpus) = tools.cpus else {
        return Err(BenchError::protocol("the second process has no threads"));
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            pin::pin(cpus.server)?;
            (1..=work.total() as u32).try_for_each(|turn| {
                wait(&asked, turn)?;
                post(&answered, turn)
            })
        });
        let mut turn = 0;
        let round = work.try_run(|| {
            turn += 1;
            post(&asked, turn)?;
            wait(&answered, turn)
        });
        other.join().map_err(|_| BenchError::protocol("the thread with the futex panicked"))??;
        round
    })
}

fn post(word: &AtomicU32, value: u32) -> Result<(), BenchError> {
    word.store(value, Ordering::Release);
    futex::wake(word, futex::Flags::empty(), 1).map_err(BenchError::system("futex wake"))?;
    Ok(())
}

fn wait(word: &AtomicU32, value: u32) -> Result<(), BenchError> {
    loop {
        let found = word.load(Ordering::Acquire);
        if found == value {
            return Ok(());
        }
        match futex::wait(word, futex::Flags::empty(), found, None) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(BenchError::System { act: "futex wait", error }),
        }
    }
}
