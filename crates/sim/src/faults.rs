//! Faults that happen again and again, at times that follow from the seed.

use crate::happened::{FAULTS_MAX, FaultNumber};
use crate::random::{Random, within};
use crate::real::{BROKEN, DAMAGED, DELAYED, PARTED, STARVED};
use crate::sim::Sim;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use upbeat_environment::process::Resource;
use upbeat_environment::thread::Thread;

/// The longest time that bytes take after a fault of the kind `Delay`.
const SLOW: Duration = Duration::from_millis(100);

/// The resources that processes lack.
const RESOURCES: [Resource; 3] = [Resource::Descriptors, Resource::Memory, Resource::Room];

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A process is killed, and started again.
    Kill,
    /// A process is stopped, and goes on.
    Stop,
    /// A process lacks descriptors, memory or room, and has them again. If it has ended meanwhile, it is started again.
    Starve,
    /// The connections between two hosts break, at any byte.
    Break,
    /// A bit arrives damaged in each connection between two hosts. Nodes under TLS notice it; others take it for the peer's.
    Damage,
    /// Nothing passes between two hosts, until the network heals.
    Part,
    /// Nothing passes from one host to another, until the network heals.
    Silence,
    /// Bytes between two hosts take more or less time than before.
    Delay,
}

impl Fault {
    /// Returns the name of faults that real processes cannot have.
    fn simulated_alone(self) -> Option<&'static str> {
        match self {
            Fault::Kill | Fault::Stop => None,
            Fault::Starve => Some(STARVED),
            Fault::Break => Some(BROKEN),
            Fault::Damage => Some(DAMAGED),
            Fault::Part | Fault::Silence => Some(PARTED),
            Fault::Delay => Some(DELAYED),
        }
    }
}

/// Faults that [`Sim::faults`] makes: their kinds, on what they act, and how often.
///
/// ```
/// use std::time::Duration;
/// use upbeat_sim::{Fault, Faults};
///
/// let ms = Duration::from_millis;
/// upbeat_sim::check(5, |sim| {
///     sim.start("store", |sim| {
///         let node = sim.node("store").build()?;
///         node.block_on(std::future::pending::<()>());
///         Ok::<_, upbeat::BuildError>(())
///     });
///     let faults = Faults::all().except(Fault::Stop).every(ms(200)..ms(900)).lasts(ms(0)..ms(50));
///     let siege = sim.faults(faults);
///     sim.pause(Duration::from_secs(60));
///     siege.end();
///     assert!(sim.is_running("store"));
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Faults {
    kinds: Vec<Fault>,
    processes: Vec<String>,
    hosts: Vec<[String; 2]>,
    every: Range<Duration>,
    lasts: Range<Duration>,
}

impl Faults {
    /// Faults of all kinds but [`Fault::Damage`], on all processes that the program has started, the one that calls for the faults among them, and
    /// on the ways between all hosts.
    #[must_use]
    pub fn all() -> Faults {
        Faults::of([
            Fault::Kill,
            Fault::Stop,
            Fault::Starve,
            Fault::Break,
            Fault::Part,
            Fault::Silence,
            Fault::Delay,
        ])
    }

    /// Faults of some kinds.
    #[must_use]
    pub fn of(kinds: impl IntoIterator<Item = Fault>) -> Faults {
        Faults {
            kinds: kinds.into_iter().collect(),
            processes: Vec::new(),
            hosts: Vec::new(),
            every: Duration::ZERO..Duration::from_millis(200),
            lasts: Duration::ZERO..Duration::from_secs(5),
        }
    }

    /// Leaves out a kind.
    #[must_use]
    pub fn except(mut self, kind: Fault) -> Faults {
        self.kinds.retain(|known| *known != kind);
        self
    }

    /// Kills, stops and starves this process, and others that are named, in place of all processes.
    #[must_use]
    pub fn on(mut self, process: &str) -> Faults {
        self.processes.push(process.to_owned());
        self
    }

    /// Disturbs the network between these two hosts, and others that are named, in place of that between all hosts. The two
    /// may be one.
    #[must_use]
    pub fn between(mut self, one: &str, other: &str) -> Faults {
        self.hosts.extend([[one, other], [other, one]].map(|hosts| hosts.map(str::to_owned)));
        self
    }

    /// Sets the time from the end of a fault to the next one: up to 200 ms, unless this says otherwise.
    #[must_use]
    pub fn every(mut self, time: Range<Duration>) -> Faults {
        self.every = time;
        self
    }

    /// Sets the time after which a killed process is started again, a stopped or starved one goes on, and a network heals:
    /// up to five seconds, unless this says otherwise. Every other fault is over in a hundredth of that.
    #[must_use]
    pub fn lasts(mut self, time: Range<Duration>) -> Faults {
        self.lasts = time;
        self
    }

    /// Returns the next fault.
    fn draw(&self, sim: &Sim, random: &mut Random) -> Drawn {
        let [kind, target, is_short, lasts, which, slow] = [(); 6].map(|()| random.next());
        let kind = self.kinds[kind as usize % self.kinds.len()];
        let span = self.lasts.end.saturating_sub(self.lasts.start);
        let end = self.lasts.start + if is_short % 2 == 1 { span / 100 } else { span };
        let lasts = match kind {
            Fault::Break | Fault::Damage | Fault::Delay => Duration::ZERO,
            _ => within(&(self.lasts.start..end), lasts),
        };
        let mut targets = self.targets(sim, kind);
        let on = match targets.len() {
            0 => Vec::new(),
            count => targets.swap_remove(target as usize % count),
        };
        let resource = RESOURCES[which as usize % RESOURCES.len()];
        Drawn { kind, on, lasts, resource, slow: within(&(Duration::ZERO..SLOW), slow) }
    }

    /// Returns the names of each process, or of each two hosts, on which a fault of a kind may act.
    fn targets(&self, sim: &Sim, kind: Fault) -> Vec<Vec<String>> {
        let is_named = |name: &String| self.processes.is_empty() || self.processes.contains(name);
        match kind {
            Fault::Kill | Fault::Stop | Fault::Starve => {
                sim.running().into_iter().filter(is_named).map(|name| vec![name]).collect()
            }
            _ if self.hosts.is_empty() => sim.ways(),
            _ => self.hosts.iter().map(|hosts| hosts.to_vec()).collect(),
        }
    }
}

/// A fault.
struct Drawn {
    kind: Fault,
    /// The name of the process, or of the hosts, or none if the world has none.
    on: Vec<String>,
    lasts: Duration,
    /// The resource that a starved process lacks.
    resource: Resource,
    /// The longest time that bytes take after a delay.
    slow: Duration,
}

impl Drawn {
    /// Begins the fault.
    fn begin(&self, sim: &Sim) {
        match (self.kind, self.on.as_slice()) {
            (Fault::Kill, [name]) => sim.kill(name),
            (Fault::Stop, [name]) => sim.stop(name),
            (Fault::Starve, [name]) => sim.starve(name, self.resource),
            (Fault::Break, [one, other]) => sim.break_connections(one, other),
            (Fault::Damage, [one, other]) => sim.damage(one, other),
            (Fault::Part, [one, other]) => sim.part(one, other),
            (Fault::Silence, [from, to]) => sim.silence(from, to),
            (Fault::Delay, [one, other]) => sim.delay(one, other, Duration::ZERO..self.slow),
            _ => {}
        }
    }

    /// Ends what the fault has begun.
    fn end(&self, sim: &Sim) {
        match (self.kind, self.on.as_slice()) {
            // The program may have started the process again itself.
            (Fault::Kill | Fault::Starve, [name]) if !sim.is_running(name) => sim.restart(name),
            (Fault::Starve, [name]) => sim.supply(name),
            (Fault::Stop, [name]) => sim.go_on(name),
            (Fault::Part | Fault::Silence, [one, other]) => sim.heal(one, other),
            _ => {}
        }
    }
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drawn { kind, on, lasts, resource, slow } = self;
        let one = &on[0];
        let other = on.last().unwrap_or(one);
        match kind {
            Fault::Kill => {
                write!(f, "process `{one}` is killed, and started again {lasts:.1?} later")
            }
            Fault::Stop => write!(f, "process `{one}` is stopped for {lasts:.1?}"),
            Fault::Starve => {
                let resource = format!("{resource:?}").to_lowercase();
                write!(f, "process `{one}` lacks {resource} for {lasts:.1?}")
            }
            Fault::Break => write!(f, "the connections between `{one}` and `{other}` break"),
            Fault::Damage => write!(f, "a bit between `{one}` and `{other}` is damaged"),
            Fault::Part => write!(f, "`{one}` and `{other}` are parted for {lasts:.1?}"),
            Fault::Silence => write!(f, "nothing passes from `{one}` to `{other}` for {lasts:.1?}"),
            Fault::Delay => {
                write!(f, "bytes between `{one}` and `{other}` take up to {slow:.1?} from now on")
            }
        }
    }
}

impl Sim {
    /// Has faults happen again and again, one after another, at times that follow from the seed: until the siege is
    /// [ended](Siege::end), or the calling process ends. The faults of several sieges overlap.
    ///
    /// # Panics
    /// If there is no kind of fault, and outside of the world.
    pub fn faults(&self, faults: Faults) -> Siege {
        Siege::begin(self, faults)
    }
}

/// Faults that happen again and again, as [`Sim::faults`] begins them.
pub struct Siege {
    is_over: Arc<AtomicBool>,
    thread: Thread,
}

impl Siege {
    fn begin(sim: &Sim, mut faults: Faults) -> Siege {
        assert!(!faults.kinds.is_empty(), "a siege has faults of at least one kind");
        faults
            .kinds
            .retain(|kind| !kind.simulated_alone().is_some_and(|what| sim.leaves_out(what)));
        let is_over = Arc::new(AtomicBool::new(faults.kinds.is_empty()));
        let (siege, seed) = sim.siege();
        let mut random = Random::new(seed);
        let ends = Arc::clone(&is_over);
        let body = move |sim: &Sim| {
            for fault in 0..FAULTS_MAX {
                sim.pause(within(&faults.every, random.next()));
                if ends.load(Ordering::Relaxed) || sim.is_over() {
                    return;
                }
                let number = FaultNumber { siege, fault };
                let fault = faults.draw(sim, &mut random);
                if fault.on.is_empty() || !sim.is_kept(number) {
                    sim.pause(fault.lasts);
                    continue;
                }
                sim.happens(number, fault.to_string());
                fault.begin(sim);
                sim.pause(fault.lasts);
                fault.end(sim);
            }
        };
        Siege { is_over, thread: sim.run_beside("makes faults", body) }
    }

    /// Ends the siege. Returns when its last fault is over: all processes run that it has killed or stopped, and the network
    /// is healed. Without this the siege goes on until the process ends that has begun it.
    pub fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        // A panic of the thread ends the world.
        let _ = self.thread.join();
    }
}
