//! A bare ring in shared memory through which messages pass in one direction, piece by piece, without
//! a library: the cost of moving bytes.
//!
//! The first process writes, the second one reads. Each publishes its position in a line of its own, and
//! both count pieces from the ground's turn, which continues from round to round.

use crate::bench::error::BenchError;
use crate::bench::ground::{Ground, LINE_WORDS, SECOND_LINE};
use crate::bench::line::await_word;
use crate::bench::message::add_up;
use crate::bench::timing::{Round, Work};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{Ordering, fence};
use upbeat_memory::region::{Region, WORD};

/// The size of a cache line. Each piece begins at a line.
const LINE: usize = LINE_WORDS * WORD;

/// The number of bytes that are read at a time if they are not copied out.
const WINDOW: usize = 4096;

/// The division of a ring into pieces for messages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The size of each message.
    message: usize,
    /// The size of a piece of a message; the last piece is shorter.
    piece: usize,
    /// The distance from one piece to the next.
    stride: usize,
    /// The number of pieces in the ring.
    slots: u64,
    /// The number of pauses of a reader that finds no piece: a reader close behind the writer takes away
    /// the lines that are being written, and slows both sides down.
    patience: u32,
}

impl Cut {
    /// Divides a ring of `ring` bytes. Messages are not split if `fit` of them fit into the ring.
    pub fn of(ring: usize, message: usize, fit: usize) -> Cut {
        let piece = message.min(ring / fit);
        let (lines, full) = (piece.next_multiple_of(LINE), ring / fit);
        // A processor confuses a load with an earlier store whose address has the same last bits. With
        // pieces of whole pages, source and destination would have the same last bits.
        let stride = if lines > LINE && lines < full { lines + LINE } else { lines };
        Cut { message, piece, stride, slots: (ring / stride) as u64, patience: 1 }
    }

    /// Returns the division for a reader with so many pauses when it finds no piece.
    pub fn with_patience(self, patience: u32) -> Cut {
        Cut { patience, ..self }
    }

    fn pieces(self) -> u64 {
        self.message.div_ceil(self.piece) as u64
    }

    /// Returns the offset of a piece in the ring.
    fn place(self, turn: u64) -> usize {
        (turn % self.slots) as usize * self.stride
    }
}

/// Does this side of a round: copies messages into the ring.
pub fn send(
    ring: &Region,
    cut: Cut,
    from: &[u8],
    ground: &mut Ground,
    work: Work,
) -> Result<Round, BenchError> {
    let (ours, theirs) = (&ground.ours, &ground.theirs);
    let mut turn = ground.turn;
    let mut taken = turn;
    let round = work.try_bursts(|messages| {
        for _ in 0..messages {
            for piece in from[..cut.message].chunks(cut.piece) {
                while turn - taken >= cut.slots {
                    taken = taken.max(theirs.load(SECOND_LINE));
                    spin_loop();
                }
                ring.write(cut.place(turn), piece);
                turn += 1;
                ours.publish(SECOND_LINE, turn);
            }
        }
        // The burst is over when the reader has read all of it.
        await_word::<1>(theirs, SECOND_LINE, turn);
        taken = turn;
        Ok(())
    });
    ground.turn = turn;
    round
}

/// Does the second process's side: copies messages out of the ring.
pub fn copy_out(ring: &Region, cut: Cut, to: &mut [u8], ground: &mut Ground, work: Work) {
    receive(cut, ground, work, |place, at, bytes| {
        ring.read(place, &mut to[at..at + bytes]);
        black_box(&mut *to);
    });
}

/// Does the second process's side: adds up the words, through a window that stays in the first cache.
pub fn sum_up(ring: &Region, cut: Cut, ground: &mut Ground, work: Work) {
    let mut sum = 0_u64;
    receive(cut, ground, work, |place, _, bytes| {
        let mut window = [0_u8; WINDOW];
        for at in (0..bytes).step_by(WINDOW) {
            let part = &mut window[..WINDOW.min(bytes - at)];
            ring.read(place + at, part);
            sum = add_up(sum, part);
        }
    });
    black_box(sum);
}

/// Passes each piece on: its offset in the ring, its offset in the message, and its length.
fn receive(cut: Cut, ground: &mut Ground, work: Work, mut take: impl FnMut(usize, usize, usize)) {
    let (ours, theirs) = (&ground.ours, &ground.theirs);
    let last = ground.turn + work.total() * cut.pieces();
    let mut there = ground.turn;
    let mut at = 0;
    for turn in ground.turn..last {
        while there <= turn {
            (0..cut.patience).for_each(|_| spin_loop());
            there = there.max(theirs.load(SECOND_LINE));
        }
        fence(Ordering::Acquire);
        let bytes = cut.piece.min(cut.message - at);
        take(cut.place(turn), at, bytes);
        at = if at + bytes == cut.message { 0 } else { at + bytes };
        // The position is not published for each small piece, because the sender then loads its line.
        let done = turn + 1;
        if done == there || done.is_multiple_of((cut.slots / 4).max(1)) {
            ours.publish(SECOND_LINE, done);
        }
    }
    ground.turn = last;
}

#[cfg(test)]
mod tests {
    use super::{Cut, copy_out, send, sum_up};
    use crate::bench::ground::tests::both_sides;
    use crate::bench::timing::Work;
    use upbeat_memory::region::Region;

    #[test]
    fn messages_pass_in_pieces_that_fit_and_arrive_whole() {
        let cut = Cut::of(1 << 10, 300, 4);
        assert_eq!((cut.piece, cut.slots, cut.pieces()), (256, 4, 2));
        let whole = Cut::of(1 << 10, 100, 4);
        assert_eq!((whole.piece, whole.stride, whole.slots), (100, 192, 5));
        let (mut client, mut server) = both_sides();
        let ring = Region::heap(128);
        let from: Vec<u8> = (0..300).map(|at| at as u8).collect();
        let work = Work::of(3, 5);
        let theirs = ring.clone();
        let reader = std::thread::spawn(move || {
            let mut to = vec![0; 300];
            copy_out(&theirs, cut, &mut to, &mut server, work);
            sum_up(&theirs, cut, &mut server, work);
            (to, server.turn)
        });
        let round = send(&ring, cut, &from, &mut client, work).unwrap();
        assert_eq!(round.operations, 15);
        send(&ring, cut, &from, &mut client, work).unwrap();
        let (to, turn) = reader.join().unwrap();
        assert_eq!(to, from);
        assert_eq!((turn, client.turn), (80, 80));
    }
}
