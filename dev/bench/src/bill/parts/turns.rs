//! Two nodes that take turns in one thread: the work of both sides of a call, with every line in the cache.

use crate::bill::parts::Size;
use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use upbeat::Node;
use upbeat_cli::bench::echo::{EchoClient, EchoServer, EchoService, Rest};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::{Policy, node, refused};
use upbeat_cli::bench::timing::{Round, Work};

/// Turns in which a session must have come about.
const TURNS_MAX: u32 = 1_000_000;
/// Turns in which a call that is under way surely ends.
const TURNS_TO_END: u32 = 4;
/// Calls after which what is made on first use is made.
const WARM: u64 = 100;

/// A client whose one task calls without end, and its server.
pub(super) struct Turns {
    server: Node,
    client: Node,
    answers: Rc<Cell<u64>>,
    over: Rc<Cell<bool>>,
}

impl Turns {
    /// Makes them, and lets them call. The name is theirs alone.
    pub(super) fn new(name: &str, size: Size) -> Result<Turns, BenchError> {
        let host = format!("{name}/host");
        let server = node(&host, None, Policy::Polling)?;
        let client = node(&format!("{name}/caller"), None, Policy::Polling)?;
        [&server, &client].iter().for_each(|node| node.set_sampling(0));
        let service = EchoService::new(Rest::default(), None);
        server.serve(EchoServer::new(service)).map_err(refused("serving"))?;
        let answers = Rc::new(Cell::new(0));
        let over = Rc::new(Cell::new(false));
        let told = Rc::clone(&over);
        let (caller, count) = (client.clone(), Rc::clone(&answers));
        drop(client.spawn(async move {
            // If a call fails no reply comes, and the counter of replies reports that.
            let Ok(echo) = caller.connect::<EchoClient>(&host).await else { return };
            loop {
                let done = match size {
                    Size::Nothing => echo.null().await.is_ok(),
                    Size::Kib => echo.bytes1024([7; 1024]).await.is_ok(),
                };
                if !done || told.get() {
                    return;
                }
                count.set(count.get() + 1);
            }
        }));
        let turns = Turns { server, client, answers, over };
        for _ in 0..TURNS_MAX {
            turns.both();
            if turns.answers.get() >= WARM {
                return Ok(turns);
            }
        }
        Err(refused("a call in one thread")("no answer came"))
    }

    /// A round of calls, each of one turn of either node.
    pub(super) fn calls(&self, work: Work) -> Result<Round, BenchError> {
        let before = self.answers.get();
        let round = work.run(|| self.both());
        let (calls, turns) = (self.answers.get() - before, work.total());
        if calls.abs_diff(turns) > 1 {
            let text = format!("{calls} calls in {turns} turns of both nodes: one each is meant");
            return Err(BenchError::protocol(text));
        }
        Ok(round)
    }

    /// A round of turns of a node to which nothing has come.
    pub(super) fn idle(&self, work: Work) -> Round {
        work.run(|| {
            black_box(self.server.turn());
        })
    }

    fn both(&self) {
        self.client.turn();
        self.server.turn();
    }
}

impl Drop for Turns {
    /// The task that calls holds its node, so it ends first, and the names are free again.
    fn drop(&mut self) {
        self.over.set(true);
        (0..TURNS_TO_END).for_each(|_| self.both());
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, Turns, Work};

    #[test]
    fn a_call_takes_a_turn_of_either_node() {
        for size in [Size::Nothing, Size::Kib] {
            let turns = Turns::new(&format!("test-turns/{size:?}"), size).unwrap();
            let work = Work::of(4, 50);
            assert_eq!(turns.calls(work).unwrap().batches.len(), 4);
            assert_eq!(turns.idle(work).batches.len(), 4);
            turns.calls(work).unwrap();
        }
    }

    #[test]
    fn names_are_free_when_they_are_gone() {
        for _ in 0..2 {
            Turns::new("test-turns/again", Size::Nothing).unwrap();
        }
    }
}
