//! The floors of all comparisons: round trips of cache lines, and of eventfds.
//!
//! Each function here does one side of a round; the other process does the other side of the same
//! round at the same time.

use crate::bench::error::BenchError;
use crate::bench::ground::{
    CLIENT_LINE, DIRTY, DIRTY_LINES, DIRTY_STEP, Ground, LINE_WORDS, SECOND_LINE, SERVER_LINE,
};
use crate::bench::timing::{Round, Work};
use rustix::fd::AsFd;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{Ordering, fence};
use upbeat_memory::region::Region;

/// Polls until the word has the value, with so many pauses between two polls.
#[inline(always)]
pub(crate) fn await_word<const PAUSES: u32>(region: &Region, at: usize, value: u64) {
    while region.load(at) != value {
        for _ in 0..PAUSES {
            spin_loop();
        }
    }
    fence(Ordering::Acquire);
}

/// Measures round trips of two lines with one writer each.
pub(crate) fn ping(ground: &mut Ground, work: Work, pauses: u32) -> Result<Round, BenchError> {
    Ok(match pauses {
        0 => paced_ping::<0>(ground, work),
        1 => paced_ping::<1>(ground, work),
        2 => paced_ping::<2>(ground, work),
        4 => paced_ping::<4>(ground, work),
        8 => paced_ping::<8>(ground, work),
        16 => paced_ping::<16>(ground, work),
        32 => paced_ping::<32>(ground, work),
        other => return Err(unknown_pace(other)),
    })
}

/// Answers [`ping`].
pub(crate) fn pong(ground: &mut Ground, work: Work, pauses: u32) -> Result<(), BenchError> {
    match pauses {
        0 => paced_pong::<0>(ground, work),
        1 => paced_pong::<1>(ground, work),
        2 => paced_pong::<2>(ground, work),
        4 => paced_pong::<4>(ground, work),
        8 => paced_pong::<8>(ground, work),
        16 => paced_pong::<16>(ground, work),
        32 => paced_pong::<32>(ground, work),
        other => return Err(unknown_pace(other)),
    }
    Ok(())
}

fn unknown_pace(pauses: u32) -> BenchError {
    BenchError::protocol(format!("no round trip has {pauses} pauses between looks"))
}

fn paced_ping<const PAUSES: u32>(ground: &mut Ground, work: Work) -> Round {
    let (ours, theirs) = (&ground.ours, &ground.theirs);
    let mut turn = ground.turn;
    let round = work.run(|| {
        turn += 1;
        ours.publish(CLIENT_LINE, turn);
        await_word::<PAUSES>(theirs, SERVER_LINE, turn);
    });
    ground.turn = turn;
    round
}

fn paced_pong<const PAUSES: u32>(ground: &mut Ground, work: Work) {
    let (ours, theirs) = (&ground.ours, &ground.theirs);
    let last = ground.turn + work.total();
    for turn in ground.turn + 1..=last {
        await_word::<PAUSES>(theirs, CLIENT_LINE, turn);
        ours.publish(SERVER_LINE, turn);
    }
    ground.turn = last;
}

/// Measures round trips of one line that both sides write.
pub(crate) fn ping_both<const PAUSES: u32>(ground: &mut Ground, work: Work) -> Round {
    let line = &ground.both;
    let mut turn = ground.turn;
    let round = work.run(|| {
        turn += 1;
        line.publish(0, 2 * turn);
        await_word::<PAUSES>(line, 0, 2 * turn + 1);
    });
    ground.turn = turn;
    round
}

/// Answers [`ping_both`].
pub(crate) fn pong_both<const PAUSES: u32>(ground: &mut Ground, work: Work) {
    let line = &ground.both;
    let last = ground.turn + work.total();
    for turn in ground.turn + 1..=last {
        await_word::<PAUSES>(line, 0, 2 * turn);
        line.publish(0, 2 * turn + 1);
    }
    ground.turn = last;
}

/// Measures round trips of two eventfds, with both sides sleeping.
pub(crate) fn ring(ground: &mut Ground, work: Work) -> Result<Round, BenchError> {
    work.try_run(|| {
        wake(&ground.peer_bell)?;
        sleep(&ground.own_bell)
    })
}

/// Answers [`ring`].
pub(crate) fn ring_back(ground: &mut Ground, work: Work) -> Result<(), BenchError> {
    for _ in 0..work.total() {
        sleep(&ground.own_bell)?;
        wake(&ground.peer_bell)?;
    }
    Ok(())
}

/// Adds one to an eventfd.
#[inline]
pub(crate) fn wake(bell: impl AsFd) -> Result<(), BenchError> {
    rustix::io::write(bell, &1u64.to_ne_bytes()).map_err(BenchError::system("write to eventfd"))?;
    Ok(())
}

/// Waits until an eventfd is not zero, and returns its value.
#[inline]
pub(crate) fn sleep(bell: impl AsFd) -> Result<(), BenchError> {
    let mut count = [0; 8];
    rustix::io::retry_on_intr(|| rustix::io::read(&bell, &mut count))
        .map_err(BenchError::system("read of eventfd"))?;
    Ok(())
}

/// Measures loads of lines that the other side has just written, in bursts of
/// [`DIRTY_LINES`]. The time between two bursts is not measured.
pub(crate) fn load_dirty(ground: &mut Ground, work: Work) -> Round {
    let (ours, theirs) = (&ground.ours, &ground.theirs);
    let mut turn = ground.turn;
    let mut batches = Vec::with_capacity(work.batches as usize);
    for lap in 0..=work.batches {
        turn += 1;
        ours.publish(SECOND_LINE, turn);
        await_word::<0>(theirs, SECOND_LINE, turn);
        let start = upbeat_memory::ticks::ticks();
        let mut at = DIRTY;
        for _ in 0..DIRTY_LINES {
            at = theirs.load(at) as usize;
        }
        black_box(at);
        let took = upbeat_memory::ticks::Ticks::since(start);
        if lap > 0 {
            batches.push(took.0);
        }
    }
    ground.turn = turn;
    Round::of_batches(DIRTY_LINES as u32, batches)
}

/// Writes the lines for [`load_dirty`].
pub(crate) fn write_dirty(ground: &mut Ground, work: Work) {
    let (ours, theirs) = (&ground.ours, &ground.theirs);
    let last = ground.turn + u64::from(work.batches) + 1;
    for turn in ground.turn + 1..=last {
        await_word::<0>(theirs, SECOND_LINE, turn);
        for line in 0..DIRTY_LINES {
            let next = (line + DIRTY_STEP) % DIRTY_LINES;
            ours.store(DIRTY + line * LINE_WORDS, (DIRTY + next * LINE_WORDS) as u64);
        }
        ours.publish(SECOND_LINE, turn);
    }
    ground.turn = last;
}

#[cfg(test)]
mod tests {
    use super::{Work, load_dirty, ping, ping_both, pong, pong_both, ring, ring_back, write_dirty};
    use crate::bench::ground::tests::both_sides;

    /// The possible rates of polling in a round trip of two lines, in pauses between two polls.
    const PACES: &[u32] = &[0, 1, 2, 4, 8, 16, 32];

    #[test]
    fn both_sides_of_every_floor_complete() {
        let (mut client, mut server) = both_sides();
        let work = Work { warm: 2, batches: 3, size: 2, singles: 2 };
        let dirty = Work { warm: 0, batches: 3, size: 256, singles: 0 };
        let other = std::thread::spawn(move || {
            for &pauses in PACES {
                pong(&mut server, work, pauses).unwrap();
            }
            assert!(pong(&mut server, work, 3).is_err());
            pong_both::<0>(&mut server, work);
            pong_both::<1>(&mut server, work);
            ring_back(&mut server, work).unwrap();
            write_dirty(&mut server, dirty);
            server.turn
        });
        for &pauses in PACES {
            let round = ping(&mut client, work, pauses).unwrap();
            assert_eq!((round.batches.len(), round.singles.len()), (3, 2));
        }
        assert!(ping(&mut client, work, 3).is_err());
        ping_both::<0>(&mut client, work);
        ping_both::<1>(&mut client, work);
        ring(&mut client, work).unwrap();
        assert_eq!(load_dirty(&mut client, dirty).batches.len(), 3);
        assert_eq!(other.join().unwrap(), client.turn);
    }
}
