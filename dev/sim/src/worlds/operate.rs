//! The clients of a world: nodes, and handles whose calls are awaited or block.

use super::exports::Table;
use super::history::{Disturbance, Id, Process, RunEnd, Told};
use super::plan::{Act, Client, End, Items, Kind, Operation, PATIENCE_MS, payload};
use super::serve::{Scene, Unwanted, WorkCaller, WorkClient, WorkHandle, ms};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::rc::Rc;
use upbeat::export::ImportError;
use upbeat::handle::HandleBuilder;
use upbeat::{CallError, Counter, Import, Node, Stream};
use upbeat_sim::Sim;

/// The time for which a client waits for a reference.
const REFERS_MS: u64 = 1_000;

impl Scene {
    /// Runs a client, on its process.
    pub(crate) fn run_client(&self, sim: &Sim, number: usize) -> Result<(), Box<dyn Error>> {
        let me = self.plan.servers.len() + number;
        let client = &self.plan.clients[number];
        if client.kind == Kind::Blocking {
            return self.block(sim, me, &client.tasks[0]);
        }
        let node = self.node(sim, me, &format!("client-{number}")).build()?;
        let (scene, host) = (self.clone(), client.host);
        if client.kind == Kind::Awaited {
            let (imports, sim) = ((self.clone(), sim.clone()), sim.clone());
            let connects = async move |id: Id| {
                let server = scene.plan.operations[id].to;
                let address = scene.address(server, host);
                let connects = scene.handles(&sim).connect_async::<WorkHandle>(&address);
                scene.connected(me, server, connects.await)
            };
            let imports = async move |name: &str| imports.0.handles(&imports.1).import(name).await;
            self.run_tasks(me, &node, connects, imports);
        } else {
            let (calls, reads) = (node.clone(), node.clone());
            let connects = async move |id: Id| scene.connect_for(&calls, me, id).await;
            self.run_tasks(me, &node, connects, async move |name: &str| reads.import(name).await);
        }
        Ok(())
    }

    /// Returns the client of the server of an operation, by the address or by a reference.
    async fn connect_for(&self, node: &Node, me: Process, id: Id) -> Option<WorkClient> {
        let Operation { to, referred_by, .. } = self.plan.operations[id];
        let host = self.plan.host(me);
        let first = referred_by.unwrap_or(to);
        let client = self.connected(me, first, self.connect(node, host, first).await)?;
        if referred_by.is_none() {
            return Some(client);
        }
        let reference = client.refer(to as u64).deadline(ms(REFERS_MS)).await.ok()??;
        let connects = reference.connect(node).wait_for(ms(self.plan.wait_ms)).await;
        self.record.count("references followed");
        self.connected(me, to, connects)
    }

    fn handles(&self, sim: &Sim) -> HandleBuilder {
        let handles = sim.handles().insecure_plaintext().peer_timeout(ms(PATIENCE_MS));
        handles.resume_within(ms(self.plan.resume_ms)).wait_for(ms(self.plan.wait_ms))
    }

    /// Notes whether a client has connected.
    fn connected<C, E: std::fmt::Debug>(
        &self,
        me: Process,
        server: Process,
        came: Result<C, E>,
    ) -> Option<C> {
        match came {
            Ok(caller) => Some(caller),
            Err(error) => {
                self.record.unconnected(me, server, format!("{error:?}"));
                None
            }
        }
    }

    /// Runs the tasks of a client, each of which does one operation after the other, or looks at an export.
    fn run_tasks<C: WorkCaller + Clone + 'static>(
        &self,
        me: Process,
        node: &Node,
        connects: impl AsyncFn(Id) -> Option<C> + 'static,
        imports: impl AsyncFn(&str) -> Result<Import<Table>, ImportError> + 'static,
    ) {
        let Client { tasks, readers, .. } = &self.plan.clients[me - self.plan.servers.len()];
        let (connects, imports) = (Rc::new(connects), Rc::new(imports));
        // A handle that is dropped in a task does not wait until its messages are sent.
        let kept = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
        let mut spawned = Vec::new();
        for task in tasks {
            let (scene, task, connects) = (self.clone(), task.clone(), Rc::clone(&connects));
            let kept = Rc::clone(&kept.0);
            spawned.push(node.spawn(async move {
                let mut callers = BTreeMap::new();
                for id in task {
                    let Operation { to, pause_ms, is_anew, referred_by, .. } =
                        scene.plan.operations[id];
                    upbeat::sleep(ms(pause_ms)).await;
                    if is_anew || referred_by.is_some() || !callers.contains_key(&to) {
                        let Some(caller) = connects(id).await else { continue };
                        kept.borrow_mut().push(caller.clone());
                        callers.insert(to, caller);
                    }
                    scene.operate(&callers[&to], id).await;
                }
            }));
        }
        for reader in readers {
            let (scene, reader, imports) = (self.clone(), reader.clone(), Rc::clone(&imports));
            let kept = Rc::clone(&kept.1);
            spawned.push(node.spawn(async move {
                let imports = async |name: &str| {
                    let import = imports(name).await?;
                    kept.borrow_mut().push(import.clone());
                    Ok(import)
                };
                scene.read_export(me, &reader, imports).await;
            }));
        }
        node.block_on(async {
            for task in spawned {
                if task.await.is_err() {
                    self.record.is_wrong("a task of a client has panicked".to_owned());
                }
            }
        });
        self.record.has_contained(me, node.counted(Counter::Panics));
        self.record.begins(Disturbance::Left(me));
    }

    /// Does an operation, for as long as its caller wants it.
    pub(crate) async fn operate(&self, caller: &impl WorkCaller, id: Id) {
        let operation = &self.plan.operations[id];
        let does = async {
            match operation.deadline_ms {
                Some(deadline) => self.order(&caller.deadline(ms(deadline)), id).await,
                None => self.order(caller, id).await,
            }
        };
        match operation.drop_after_ms {
            Some(time) => drop(upbeat::within(ms(time), does).await),
            None => does.await,
        }
    }

    async fn order(&self, caller: &impl WorkCaller, id: Id) {
        match self.plan.operations[id].end {
            End::Refuse => self.act(&caller.with(&Unwanted), id).await,
            _ => self.act(caller, id).await,
        }
    }

    async fn act(&self, caller: &impl WorkCaller, id: Id) {
        let operation = &self.plan.operations[id];
        let sent = payload(id, false, operation.bytes);
        let asking = self.record.asks(id);
        let told = match operation.act {
            Act::Call => self.told(id, caller.call(id as u64, sent).await),
            Act::Outlives => self.told(id, caller.outlives(id as u64, sent).await),
            Act::Note => told_of_note(caller.note(id as u64, sent).await),
            Act::Read => match caller.items(id as u64).await {
                Ok(items) => match self.read(id, items, || {}).await {
                    (_, Ok(())) => Told::Done,
                    (_, Err(error)) => Told::broken(&error),
                },
                Err(error) => Told::of(&error),
            },
            Act::Write => match caller.take(id as u64, self.stream(id)).await {
                Ok(read) => {
                    if read != self.record.items_read(id) {
                        self.record.is_wrong(format!("{id} gets another reply: {read} items"));
                    }
                    Told::Done
                }
                Err(error) => Told::of(&error),
            },
        };
        asking.ends(told);
    }

    /// Returns the stream of an operation.
    pub(crate) fn stream(&self, id: Id) -> Stream<Vec<u8>> {
        let Operation { to, items, end, .. } = self.plan.operations[id];
        let (record, writing) = (self.record.clone(), self.record.streams(id));
        upbeat::stream(async move |sink| {
            for number in 0..items.written {
                if end == End::Panic && number == items.written / 2 {
                    writing.ends(RunEnd::Panicked);
                    record.panics(to);
                    panic!("planned");
                }
                if number % 7 == 6 {
                    upbeat::sleep(ms(items.pauses_ms[0])).await;
                }
                writing.writes();
                sink.send(item(id, number, items.bytes)).await;
            }
            writing.ends(RunEnd::Returned);
        })
    }

    /// Reads a stream for as long as it is wanted. Returns the number of items, and the error behind them.
    pub(crate) async fn read(
        &self,
        id: Id,
        mut stream: Stream<Vec<u8>>,
        steps: impl Fn(),
    ) -> (u64, Result<(), CallError>) {
        let Items { wanted, bytes, pauses_ms, .. } = self.plan.operations[id].items;
        for number in 0..wanted {
            if number % 7 == 6 {
                upbeat::sleep(ms(pauses_ms[1])).await;
            }
            let next = stream.next().await;
            steps();
            match next {
                None => {
                    self.record.reads(id, true);
                    return (number, Ok(()));
                }
                Some(Err(error)) => return (number, Err(error)),
                Some(Ok(read)) => {
                    self.record.reads(id, false);
                    if read != item(id, number, bytes) {
                        self.record
                            .is_wrong(format!("{id} reads another item in place of {number}"));
                    }
                }
            }
        }
        (wanted, Ok(()))
    }

    /// Returns the end of a call, whose reply has to be that of its operation.
    fn told(&self, id: Id, came: Result<Vec<u8>, CallError<u64>>) -> Told {
        let error = match came {
            Ok(reply) if reply == payload(id, true, self.plan.operations[id].reply_bytes) => {
                return Told::Done;
            }
            Ok(reply) => {
                self.record.is_wrong(format!("{id} gets another reply, of {} bytes", reply.len()));
                return Told::Done;
            }
            Err(error) => error,
        };
        if let CallError::Method(number) = error
            && number != id as u64
        {
            self.record.is_wrong(format!("{id} gets the error of {number}"));
        }
        Told::of(&error)
    }

    /// Does the operations of a client whose calls block.
    fn block(&self, sim: &Sim, me: Process, task: &[Id]) -> Result<(), Box<dyn Error>> {
        let host = self.plan.host(me);
        let connects = |server| {
            let came = self.handles(sim).connect::<WorkHandle>(&self.address(server, host));
            self.connected(me, server, came)
        };
        let mut callers = BTreeMap::new();
        for &id in task {
            let operation = &self.plan.operations[id];
            sim.pause(ms(operation.pause_ms));
            if operation.is_anew || !callers.contains_key(&operation.to) {
                let Some(handle) = connects(operation.to) else { continue };
                callers.insert(operation.to, handle);
            }
            let mut caller = callers[&operation.to].blocking();
            if let Some(deadline) = operation.deadline_ms {
                caller = caller.deadline(ms(deadline));
            }
            if operation.end == End::Refuse {
                caller = caller.with(&Unwanted);
            }
            let sent = payload(id, false, operation.bytes);
            let asking = self.record.asks(id);
            let told = match operation.act {
                Act::Call => self.told(id, caller.call(id as u64, sent)),
                Act::Outlives => self.told(id, caller.outlives(id as u64, sent)),
                Act::Note => told_of_note(caller.note(id as u64, sent)),
                Act::Read | Act::Write => unreachable!("calls that block have no streams"),
            };
            asking.ends(told);
        }
        self.record.begins(Disturbance::Left(me));
        Ok(())
    }
}

fn told_of_note(came: Result<(), CallError>) -> Told {
    came.map_or_else(|error| Told::of(&error), |()| Told::Done)
}

/// Returns an item of the stream of an operation.
fn item(id: Id, number: u64, bytes: usize) -> Vec<u8> {
    let mut item = vec![id as u8; bytes];
    item.extend_from_slice(&number.to_le_bytes());
    item
}
