//! The servers of a world: each serves the same service, whose handlers do what the plan says.

use super::history::{Disturbance, Id, Process, Record, RunEnd};
use super::plan::{Act, End, HOSTS, PATIENCE_MS, Plan, Step, payload};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use upbeat::sync::Mutex;
use upbeat::{Builder, CallInfo, Counter, Layer, Next, Node, Refusal, ServiceRef, Stream, Wire};
use upbeat_sim::Sim;

/// The service of every server of a world.
#[upbeat::service]
pub(crate) trait Work {
    /// Does what the plan says, and returns what it says.
    async fn call(&self, id: u64, payload: Vec<u8>) -> Result<Vec<u8>, u64>;
    /// Does the same, and goes on if its caller is gone.
    async fn outlives(&self, id: u64, payload: Vec<u8>) -> Result<Vec<u8>, u64>;
    /// Does the same, and has no reply.
    #[oneway]
    async fn note(&self, id: u64, payload: Vec<u8>);
    /// Returns a stream of the items of the plan.
    async fn items(&self, id: u64) -> Stream<Vec<u8>>;
    /// Reads a stream, also behind the end of its call, and returns the number of items that it has read.
    async fn take(&self, id: u64, items: Stream<Vec<u8>>) -> u64;
    /// Returns the sessions, the streams and the contained panics of the server.
    async fn left(&self) -> (u64, u64, u64);
    /// Returns a reference to a server, which this one has from that one.
    async fn refer(&self, to: u64) -> Option<ServiceRef<WorkClient>>;
}

/// A call that a layer of its server refuses.
#[derive(Serialize, Deserialize, Wire)]
pub(crate) struct Unwanted;

impl upbeat::Context for Unwanted {
    const KEY: &'static str = "unwanted";
}

/// A plan and its record, for the processes of a world.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) plan: Arc<Plan>,
    pub(crate) record: Record,
}

/// Returns a time of a plan.
pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Scene {
    /// Returns the address of a server, as a process of a host writes it.
    pub(crate) fn address(&self, server: Process, from: usize) -> String {
        let host = self.plan.servers[server].host;
        match host == from {
            true => name(server),
            false => format!("{}@{}:{}", name(server), HOSTS[host], port(server)),
        }
    }

    /// Returns the builder of a node of a process.
    pub(crate) fn node(&self, sim: &Sim, process: Process, name: &str) -> Builder {
        let record = self.record.clone();
        let node = sim.node(name).insecure_plaintext().peer_timeout(ms(PATIENCE_MS));
        node.resume_within(ms(self.plan.resume_ms)).on_lost(move |lost| record.loses(process, lost))
    }

    /// Returns the client of a server for a node.
    pub(crate) async fn connect(
        &self,
        node: &Node,
        from: usize,
        server: Process,
    ) -> Result<WorkClient, upbeat::ConnectError> {
        let connects = node.connect::<WorkClient>(&self.address(server, from));
        connects.wait_for(ms(self.plan.wait_ms)).await
    }

    /// Runs a life of a server, on its process.
    pub(crate) fn serve(&self, sim: &Sim, me: Process, life: u32) -> Result<(), Box<dyn Error>> {
        let server = &self.plan.servers[me];
        let mut builder = self.node(sim, me, &name(me)).conservative(server.conservative);
        builder = builder.shared_memory(server.shared_memory);
        builder = builder.listen(&format!("{}:{}", HOSTS[server.host], port(me)));
        if let Some(budget) = server.budget {
            builder = builder.budget(budget).session_budget(budget);
        }
        let node = builder.build()?;
        let own = Own(Rc::new(RefCell::new(Some(node.clone()))));
        let works = Works {
            scene: self.clone(),
            me,
            node: Rc::clone(&own.0),
            lock: Mutex::new(()),
            is_locked: Cell::new(false),
            peers: RefCell::default(),
        };
        let works = WorkServer::new(works).layer(Refuses);
        match server.concurrent {
            Some(most) => node.serve(works.max_concurrent(most))?,
            None => node.serve(works)?,
        }
        self.record.begins_life(me);
        self.record.ends(Disturbance::Unborn(me));
        self.record.ends(Disturbance::Down(me));
        let owns = self.clone().own(Rc::clone(&own.0), me, life);
        // A server that is starved has no room for its exports.
        let _owner = node.spawn(async move { drop(owns.await) });
        match server.leaves.filter(|_| life == 0) {
            Some((after, grace)) => {
                node.block_on(upbeat::sleep(ms(after)));
                self.record.count("servers that shut down");
                self.record.begins(Disturbance::Down(me));
                self.record.begins(Disturbance::Closes(me));
                node.shut_down(ms(grace));
                self.record.ends(Disturbance::Closes(me));
            }
            None => node.block_on(std::future::pending()),
        }
        Ok(())
    }
}

/// Returns the name of a server.
pub(crate) fn name(server: Process) -> String {
    format!("server-{server}")
}

fn port(server: Process) -> usize {
    7_000 + server
}

/// Refuses what is unwanted.
struct Refuses;

impl Layer for Refuses {
    async fn around(&self, call: &CallInfo, next: Next<'_>) -> Result<(), Refusal> {
        match call.context::<Unwanted>() {
            Some(Unwanted) => Err(Refusal::new("it is unwanted")),
            None => next.run().await,
        }
    }
}

/// The node of a server, which its service holds as well, until the server's thread ends.
struct Own(Rc<RefCell<Option<Node>>>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.take();
    }
}

struct Works {
    scene: Scene,
    me: Process,
    node: Rc<RefCell<Option<Node>>>,
    lock: Mutex<()>,
    is_locked: Cell<bool>,
    peers: RefCell<BTreeMap<Process, WorkClient>>,
}

#[upbeat::service]
impl Work for Works {
    async fn call(&self, id: u64, payload: Vec<u8>) -> Result<Vec<u8>, u64> {
        self.work(id as Id, Act::Call, &payload).await
    }

    #[method(outlives = "300ms")]
    async fn outlives(&self, id: u64, payload: Vec<u8>) -> Result<Vec<u8>, u64> {
        self.work(id as Id, Act::Outlives, &payload).await
    }

    async fn note(&self, id: u64, payload: Vec<u8>) {
        let _ = self.work(id as Id, Act::Note, &payload).await;
    }

    async fn items(&self, id: u64) -> Stream<Vec<u8>> {
        self.scene.record.runs(id as Id, self.me).ends(RunEnd::Returned);
        self.scene.stream(id as Id)
    }

    #[method(outlives = "300ms")]
    async fn take(&self, id: u64, items: Stream<Vec<u8>>) -> u64 {
        let running = self.scene.record.runs(id as Id, self.me);
        let read = self.scene.read(id as Id, items, || running.steps()).await;
        if let Err(error) = &read.1 {
            self.scene.record.breaks(id as Id, error);
        }
        running.ends(RunEnd::Returned);
        read.0
    }

    async fn left(&self) -> (u64, u64, u64) {
        let node = self.node();
        (node.sessions() as u64, node.streams() as u64, node.counted(Counter::Panics))
    }

    async fn refer(&self, to: u64) -> Option<ServiceRef<WorkClient>> {
        if to as Process == self.me {
            return Some(ServiceRef::here(&self.node()));
        }
        self.peer(to as Process).await?.refer(to).await.ok()?
    }
}

impl Works {
    fn node(&self) -> Node {
        self.node.borrow().clone().expect("a handler runs while its node lives")
    }

    async fn work(&self, id: Id, act: Act, of: &[u8]) -> Result<Vec<u8>, u64> {
        let Scene { plan, record } = &self.scene;
        let running = record.runs(id, self.me);
        let operation = &plan.operations[id];
        let is_it = (operation.to, operation.act) == (self.me, act);
        if !is_it || of != payload(id, false, operation.bytes) {
            record.is_wrong(format!("{id} comes to {} as another one than was sent", self.me));
        }
        for step in &operation.body {
            self.step(*step).await;
            running.steps();
        }
        match operation.end {
            End::Return => {
                running.ends(RunEnd::Returned);
                Ok(payload(id, true, operation.reply_bytes))
            }
            End::Fail => {
                running.ends(RunEnd::Failed);
                Err(id as u64)
            }
            End::Panic => {
                running.ends(RunEnd::Panicked);
                record.panics(self.me);
                panic!("planned");
            }
            End::Refuse => {
                record.is_wrong(format!("{id} runs, and a layer was to refuse it"));
                Err(id as u64)
            }
        }
    }

    async fn step(&self, step: Step) {
        match step {
            Step::Sleep(time) => upbeat::sleep(ms(time)).await,
            Step::Lock(time) => {
                let _held = self.lock.lock().await;
                if self.is_locked.replace(true) {
                    self.scene.record.is_wrong("a lock is held by two tasks".to_owned());
                }
                let _free = Frees(&self.is_locked);
                upbeat::sleep(ms(time)).await;
            }
            Step::Compute => {
                let sum = self.node().compute(|| (1..=10_u64).sum::<u64>()).await;
                assert_eq!(sum, 55, "a computation returns its result");
            }
            Step::Call(id) => self.ask(id).await,
        }
    }

    /// Asks another server for something.
    async fn ask(&self, id: Id) {
        let to = self.scene.plan.operations[id].to;
        let Some(peer) = self.peer(to).await else {
            return self.scene.record.count("handlers that could not connect");
        };
        self.scene.operate(&peer, id).await;
    }

    /// Returns the client of another server.
    async fn peer(&self, to: Process) -> Option<WorkClient> {
        let known = self.peers.borrow().get(&to).cloned();
        if known.is_some() {
            return known;
        }
        let host = self.scene.plan.servers[self.me].host;
        let peer = self.scene.connect(&self.node(), host, to).await.ok()?;
        self.peers.borrow_mut().insert(to, peer.clone());
        Some(peer)
    }
}

/// Notes that a lock is free.
struct Frees<'l>(&'l Cell<bool>);

impl Drop for Frees<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
