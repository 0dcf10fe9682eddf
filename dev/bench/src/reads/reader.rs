//! The first process: references to the variables, in memory and by calls, and the program that is made of them.

use super::variables::{OWNER, OWNER_APART, Written, name, of_each_size, value};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use upbeat::export::ReadError;
use upbeat::{Import, Node, Shared};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::{Caller, Policy, refused};
use upbeat_cli::bench::read::layout::{HOPS, QUIET};
use upbeat_cli::bench::timing::{Round, Work};

/// How a variable is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A variable of this process is copied.
    Local,
    /// The owner's memory is read, and the value is returned.
    Shared,
    /// The owner's memory is read into a variable of the reader.
    Into,
    /// The owner is called over a byte stream.
    Stream,
}

impl Way {
    /// All ways. A way stands behind the one that it is compared with.
    pub(super) const ALL: [Way; 4] = [Way::Local, Way::Shared, Way::Into, Way::Stream];

    /// Returns the last word of a case.
    pub(super) fn word(self) -> &'static str {
        match self {
            Way::Local => "local",
            Way::Shared => "shared",
            Way::Into => "into",
            Way::Stream => "stream",
        }
    }

    pub(super) fn baseline(self) -> Option<Way> {
        match self {
            Way::Local => None,
            Way::Shared | Way::Stream => Some(Way::Local),
            Way::Into => Some(Way::Shared),
        }
    }
}

/// The references of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// All of them are local.
    Local,
    /// One in a hundred is remote.
    Remote,
    /// One in a hundred of those is to a value that the owner is changing, and loses its bet.
    Failing,
}

/// The references between two that are remote, and the remote ones between two that fail: one in a hundred, each.
const ONE_IN: usize = 100;
/// The references of one pass of the program.
pub(super) const PASS: usize = ONE_IN * ONE_IN;

impl Program {
    /// Returns the references of a pass that lead to the next element.
    fn steps(self) -> u64 {
        match self {
            Program::Local | Program::Remote => PASS as u64,
            Program::Failing => PASS as u64 - 1,
        }
    }
}

/// The imports of a node, over one carrier.
pub(super) struct Reader {
    pub(super) caller: Caller,
    /// The values of each size.
    values: Vec<Box<dyn Value>>,
    hops: Import<[u64; HOPS]>,
    /// The same elements in this process.
    variables: Vec<u64>,
    written: Import<Written>,
}

impl Reader {
    /// Imports the variables, while the owner serves: into memory of both processes, or over a byte stream.
    pub(super) fn new(scratch: &Path, shares_memory: bool) -> Result<Reader, BenchError> {
        let owner = if shares_memory { OWNER } else { OWNER_APART };
        let caller = match shares_memory {
            true => Caller::new("bench-reads/reader", owner, Some(scratch), Policy::Polling)?,
            false => Caller::apart("bench-reads/apart", owner, scratch, Policy::Polling)?,
        };
        let node = caller.node();
        let imported = caller.round(async |_| Ok(imports(node, owner).await))?;
        let (values, hops, written) = imported?;
        let variables = (0..HOPS).map(|at| QUIET.next(at) as u64).collect();
        Ok(Reader { caller, values, hops, variables, written })
    }

    /// Runs the paper's timing program with a value of so many bytes.
    pub(super) fn refer(&self, bytes: usize, way: Way, work: Work) -> Result<Round, BenchError> {
        let value = self.values.iter().find(|value| value.bytes() == bytes);
        let value = value.ok_or_else(|| BenchError::protocol(format!("no {bytes} bytes")))?;
        match way {
            Way::Local => value.local(work),
            Way::Shared => value.by_value(work),
            Way::Into => value.kept(work),
            Way::Stream => value.by_call(&self.caller, work),
        }
    }

    /// Follows the elements in this process, each of which has the index of the next.
    pub(super) fn chain(&self, work: Work) -> Result<Round, BenchError> {
        let (variables, mut at) = (black_box(&self.variables[..]), 0);
        let round = work.run(|| at = variables[at] as usize);
        arrived(at, work.total())?;
        Ok(round)
    }

    /// Reads a number in memory by a read that is awaited. The owner serves, because the node is driven.
    pub(super) fn awaited(&self, work: Work) -> Result<Round, BenchError> {
        let mut variable = 0;
        let round = self.caller.reads(work, async || {
            variable = self.hops.index(0).read().await?;
            black_box(&variable);
            Ok(())
        })?;
        if variable == self.variables[0] { Ok(round) } else { Err(other_value()) }
    }

    /// Reads the value that the owner is changing, so that each read loses its bet and becomes a call.
    pub(super) fn reissued(&self, work: Work, tries: &mut Tries) -> Result<Round, BenchError> {
        let round = self.caller.reads(work, async || {
            black_box(self.failing(tries).await?);
            Ok(())
        });
        tries.checked(round)
    }

    /// Reads the value that the owner is changing until a read loses its bet and becomes a call. Returns what a program
    /// adds to its index.
    async fn failing(&self, tries: &mut Tries) -> Result<usize, ReadError> {
        let mut began = None;
        for read in 1_u64.. {
            let before = self.written.lost_bets().calls;
            let written = self.written.whole().read().await?;
            if written.number != written.again {
                return Err(ReadError::Invalid);
            }
            tries.reads += 1;
            if self.written.lost_bets().calls != before {
                tries.calls += 1;
                return Ok(written.step as usize);
            }
            // An owner that does not run changes nothing, and its value is read again and again meanwhile.
            if read.is_multiple_of(READS_PER_LOOK)
                && began.get_or_insert_with(Instant::now).elapsed() > PATIENCE
            {
                break;
            }
        }
        tries.is_given_up = true;
        Err(ReadError::Busy)
    }

    /// Runs passes of the program. The owner serves meanwhile.
    pub(super) fn program(
        &self,
        program: Program,
        work: Work,
        tries: &mut Tries,
    ) -> Result<Round, BenchError> {
        match program {
            Program::Local => {
                self.passes(program, work, async |at, _| Ok(self.variables[at] as usize))
            }
            Program::Remote => self.passes(program, work, async |at, _| self.hop(at).await),
            Program::Failing => {
                let round = self.passes(program, work, async |at, turn| match turn {
                    0 => Ok(at + self.failing(tries).await?),
                    _ => self.hop(at).await,
                });
                tries.checked(round)
            }
        }
    }

    #[inline(always)]
    async fn hop(&self, at: usize) -> Result<usize, ReadError> {
        Ok(self.hops.index(at).read().await? as usize)
    }

    /// Runs passes of the program, whose every hundredth reference is `other`: it gets the index and how many there were
    /// in this pass.
    #[inline(always)]
    fn passes(
        &self,
        program: Program,
        work: Work,
        mut other: impl AsyncFnMut(usize, usize) -> Result<usize, ReadError>,
    ) -> Result<Round, BenchError> {
        let (variables, mut at) = (black_box(&self.variables[..]), 0);
        let pass = async || {
            for turn in 0..ONE_IN {
                for _ in 1..ONE_IN {
                    at = variables[at] as usize;
                }
                at = other(at, turn).await?;
            }
            Ok(())
        };
        let round = self.caller.reads(work, pass)?;
        arrived(at, work.total() * program.steps())?;
        Ok(round)
    }
}

/// The reads that should lose their bets, and those that did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tries {
    reads: u64,
    calls: u64,
    /// Whether a reference was given up, because no read of it lost its bet.
    is_given_up: bool,
}

impl Tries {
    /// Returns the round, or an error that says that a reference was given up.
    fn checked(self, round: Result<Round, BenchError>) -> Result<Round, BenchError> {
        if self.is_given_up {
            return Err(BenchError::protocol(format!(
                "no read of a value that its owner should change lost its bet for {PATIENCE:?}: the owner did not run; \
                 let nothing else run on this machine"
            )));
        }
        round
    }

    /// Returns the share of the reads that became calls, if there were any.
    pub(super) fn called_percent(self) -> Option<f64> {
        (self.reads > 0).then(|| 100.0 * self.calls as f64 / self.reads as f64)
    }
}

/// The time for which a reference that should lose its bet is tried.
const PATIENCE: Duration = Duration::from_secs(5);
/// The reads between two readings of the clock.
const READS_PER_LOOK: u64 = 4096;

type Imports = (Vec<Box<dyn Value>>, Import<[u64; HOPS]>, Import<Written>);

async fn imports(node: &Node, owner: &str) -> Result<Imports, BenchError> {
    let values: [Box<dyn Value>; _] = of_each_size!(|SIZE| {
        let import: Import<[u8; SIZE]> = import(node, owner, &name(SIZE)).await?;
        Box::new(Bytes { import, local: Box::new(value::<SIZE>()) })
    });
    let hops = import(node, owner, "hops").await?;
    Ok((values.into(), hops, import(node, owner, "written").await?))
}

async fn import<T: Shared>(node: &Node, owner: &str, name: &str) -> Result<Import<T>, BenchError> {
    node.import(&format!("{owner}/{name}")).await.map_err(refused("an import"))
}

/// A value of some size, in the owner's process and in this one.
trait Value {
    fn bytes(&self) -> usize;
    fn local(&self, work: Work) -> Result<Round, BenchError>;
    fn by_value(&self, work: Work) -> Result<Round, BenchError>;
    fn kept(&self, work: Work) -> Result<Round, BenchError>;
    fn by_call(&self, caller: &Caller, work: Work) -> Result<Round, BenchError>;
}

struct Bytes<const N: usize> {
    import: Import<[u8; N]>,
    local: Box<[u8; N]>,
}

// Each is the paper's loop of `LocalVar := RemoteVar`. The assigned variable is in memory, and is compared at the end.
impl<const N: usize> Value for Bytes<N> {
    fn bytes(&self) -> usize {
        N
    }

    fn local(&self, work: Work) -> Result<Round, BenchError> {
        let mut variable = [0; N];
        let round = work.run(|| {
            variable = *black_box(&*self.local);
            black_box(&variable);
        });
        found(&variable, round)
    }

    fn by_value(&self, work: Work) -> Result<Round, BenchError> {
        let mut variable = [0; N];
        let round = work.try_run(|| {
            variable = self.import.whole().try_read()?;
            black_box(&variable);
            Ok::<(), ReadError>(())
        });
        found(&variable, round.map_err(refused("a read"))?)
    }

    fn kept(&self, work: Work) -> Result<Round, BenchError> {
        let mut variable = [0; N];
        let round = work.try_run(|| {
            self.import.whole().try_read_into(&mut variable)?;
            black_box(&variable);
            Ok::<(), ReadError>(())
        });
        found(&variable, round.map_err(refused("a read"))?)
    }

    fn by_call(&self, caller: &Caller, work: Work) -> Result<Round, BenchError> {
        let mut variable = [0; N];
        let round = caller.reads(work, async || {
            variable = self.import.whole().read().await?;
            black_box(&variable);
            Ok(())
        })?;
        found(&variable, round)
    }
}

fn found<const N: usize>(variable: &[u8; N], round: Round) -> Result<Round, BenchError> {
    if *variable == value() { Ok(round) } else { Err(other_value()) }
}

fn arrived(at: usize, steps: u64) -> Result<(), BenchError> {
    if at == QUIET.after(steps) { Ok(()) } else { Err(other_value()) }
}

#[cold]
fn other_value() -> BenchError {
    BenchError::protocol("a reference has found another value than the owner exports")
}

#[cfg(test)]
mod tests {
    use super::{ONE_IN, PASS, Program};

    #[test]
    fn a_reference_that_fails_is_one_in_ten_thousand() {
        assert_eq!((PASS, PASS / ONE_IN), (10_000, 100));
        let steps = [Program::Local, Program::Remote, Program::Failing];
        assert_eq!(steps.map(Program::steps), [10_000, 10_000, 9_999]);
    }
}
