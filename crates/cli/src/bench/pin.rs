//! The choice of the two CPUs that a benchmark runs on.
//!
//! Both processes of a pair poll, so each needs its own CPU: on a shared CPU every message would
//! wait for the end of a time slice.

use rustix::io::Errno;
use rustix::thread::CpuSet;
use std::fmt;
use std::str::FromStr;

/// The value of `--pin A,B`: two different CPU numbers, which may not be usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted(usize, usize);

impl FromStr for Wanted {
    type Err = PinError;

    fn from_str(text: &str) -> Result<Wanted, PinError> {
        let shape = || PinError::Shape { text: text.to_owned() };
        let (first, second) = text.split_once(',').ok_or_else(shape)?;
        let number = |part: &str| {
            let part = part.trim();
            let cpu = part.parse().map_err(|_| PinError::Number { text: part.to_owned() })?;
            if cpu < CpuSet::MAX_CPU { Ok(cpu) } else { Err(PinError::TooHigh { cpu }) }
        };
        if second.contains(',') {
            return Err(shape());
        }
        let (first, second) = (number(first)?, number(second)?);
        if first == second { Err(PinError::Same { cpu: first }) } else { Ok(Wanted(first, second)) }
    }
}

impl Wanted {
    /// Returns the two CPUs without a check, because another process has checked them.
    pub fn cpus(self) -> Cpus {
        Cpus { client: self.0, server: self.1 }
    }
}

/// The two CPUs of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The CPU of the measuring process.
    pub client: usize,
    /// The CPU of the second process.
    pub server: usize,
}

impl Cpus {
    /// Returns the value for `--pin`.
    pub fn argument(self) -> String {
        format!("{},{}", self.client, self.server)
    }

    /// Chooses the wanted CPUs if this process may use them, or the first two allowed CPUs if none are wanted.
    pub fn choose(wanted: Option<Wanted>, allowed: &[usize]) -> Result<Cpus, PinError> {
        if let Some(Wanted(client, server)) = wanted {
            let missing = [client, server].into_iter().find(|cpu| !allowed.contains(cpu));
            return match missing {
                Some(cpu) => Err(PinError::NotAllowed { cpu, allowed: allowed.to_vec() }),
                None => Ok(Cpus { client, server }),
            };
        }
        match *allowed {
            [client, server, ..] => Ok(Cpus { client, server }),
            _ => Err(PinError::TooFew { allowed: allowed.to_vec() }),
        }
    }
}

/// Returns the CPUs that this thread may run on.
pub fn allowed() -> Result<Vec<usize>, PinError> {
    let set = rustix::thread::sched_getaffinity(None)
        .map_err(|error| PinError::System { cpu: None, error })?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins this thread, and the threads that it starts afterwards, to one CPU.
pub fn pin(cpu: usize) -> Result<(), PinError> {
    keep_on(&[cpu])
}

/// Restricts this thread to these CPUs.
pub fn keep_on(cpus: &[usize]) -> Result<(), PinError> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| PinError::System { cpu: cpus.first().copied(), error })
}

/// The reason why the CPUs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinError {
    /// The value is not two numbers with a comma.
    Shape {
        /// The value that the user gave.
        text: String,
    },
    /// A part of the value is not a number.
    Number {
        /// The text that the user gave.
        text: String,
    },
    /// The number is higher than that of any CPU of a Linux machine.
    TooHigh {
        /// The number.
        cpu: usize,
    },
    /// The two numbers are equal.
    Same {
        /// The number.
        cpu: usize,
    },
    /// This process may not run on the CPU, or there is no such CPU.
    NotAllowed {
        /// The number.
        cpu: usize,
        /// The allowed CPUs.
        allowed: Vec<usize>,
    },
    /// This process may not run on two CPUs.
    TooFew {
        /// The allowed CPUs.
        allowed: Vec<usize>,
    },
    /// A system call failed.
    System {
        /// The CPU to pin to; `None` if the failed call asked for the allowed CPUs.
        cpu: Option<usize>,
        /// The error of the system.
        error: Errno,
    },
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PinError::Shape { text } => {
                write!(f, "`{text}` does not name two CPUs; write for example `0,1`")
            }
            PinError::Number { text } => write!(f, "`{text}` is not the number of a CPU"),
            PinError::TooHigh { cpu } => {
                write!(f, "CPU {cpu} does not exist: the largest number is {}", CpuSet::MAX_CPU - 1)
            }
            PinError::Same { cpu } => write!(
                f,
                "two different CPUs are needed, not {cpu} twice: both processes poll, and on one \
                 CPU each would wait for the end of the other's time slice"
            ),
            PinError::NotAllowed { cpu, allowed } => write!(
                f,
                "CPU {cpu} is not among those that this process may use: {}",
                ranges(allowed)
            ),
            PinError::TooFew { allowed } => write!(
                f,
                "two CPUs are needed, and this process may use only {}; \
                 widen its affinity (`taskset`) or its cpuset",
                ranges(allowed)
            ),
            PinError::System { cpu: Some(cpu), error } => {
                write!(f, "this process cannot be pinned to CPU {cpu}: {error}")
            }
            PinError::System { cpu: None, error } => {
                write!(f, "the CPUs that this process may use cannot be read: {error}")
            }
        }
    }
}

impl std::error::Error for PinError {}

/// Formats `[0, 1, 2, 5]` as `0-2, 5`.
fn ranges(cpus: &[usize]) -> String {
    let mut text = String::new();
    for run in cpus.chunk_by(|a, b| a + 1 == *b) {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => continue,
        });
    }
    if text.is_empty() { "none".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::{Cpus, PinError, Wanted, allowed, pin, ranges};

    fn error(text: &str) -> String {
        text.parse::<Wanted>().unwrap_err().to_string()
    }

    #[test]
    fn two_numbers_are_parsed() {
        assert_eq!("0,1".parse(), Ok(Wanted(0, 1)));
        assert_eq!(" 3 , 2 ".parse(), Ok(Wanted(3, 2)));
    }

    #[test]
    fn an_invalid_pair_of_cpus_is_refused() {
        assert!(error("3").contains("`3` does not name two CPUs"));
        assert!(error("").contains("does not name two CPUs"));
        assert!(error("0,1,2").contains("`0,1,2` does not name two CPUs"));
        assert!(error("0,x").contains("`x` is not the number"));
        assert!(error("-1,0").contains("`-1` is not the number"));
        assert!(error("0,").contains("`` is not the number"));
        assert!(error("0,99999").contains("CPU 99999 does not exist"));
        assert!(error("1,1").contains("not 1 twice"));
    }

    #[test]
    fn wanted_cpus_must_be_allowed() {
        let wanted = Some(Wanted(5, 2));
        assert_eq!(Cpus::choose(wanted, &[2, 3, 5]), Ok(Cpus { client: 5, server: 2 }));
        let refused = Cpus::choose(wanted, &[2, 3, 4, 7]).unwrap_err();
        assert_eq!(refused, PinError::NotAllowed { cpu: 5, allowed: vec![2, 3, 4, 7] });
        assert!(refused.to_string().ends_with("may use: 2-4, 7"));
    }

    #[test]
    fn the_default_is_the_first_two_allowed_cpus() {
        assert_eq!(Cpus::choose(None, &[4, 6, 7]), Ok(Cpus { client: 4, server: 6 }));
        let refused = Cpus::choose(None, &[4]).unwrap_err();
        assert!(refused.to_string().contains("may use only 4;"));
    }

    #[test]
    fn a_thread_stays_on_its_cpu() {
        let last = *allowed().unwrap().last().unwrap();
        std::thread::spawn(move || {
            pin(last).unwrap();
            assert_eq!(allowed().unwrap(), [last]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn ranges_are_short() {
        assert_eq!(ranges(&[]), "none");
        assert_eq!(ranges(&[0, 1]), "0-1");
        assert_eq!(ranges(&[1, 3, 4, 5, 9]), "1, 3-5, 9");
    }
}
