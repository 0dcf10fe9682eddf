//! The clients of a world: nodes, and handles whose calls are awaited or block.

use super::history::{Disturbance, Id, Process, RunEnd, Told};
use super::plan::{Act, End, Items, Kind, Operation, PATIENCE_MS, payload};
use super::serve::{Scene, Unwanted, WorkCaller, WorkHandle, ms};
use std::error::Error;
use upbeat::handle::HandleBuilder;
use upbeat::{CallError, Stream};
use upbeat_sim::Sim;

impl Scene {
    /// Runs a client, on its process.
    pub(crate) fn run_client(&self, sim: &Sim, number: usize) -> Result<(), Box<dyn Error>> {
        let me = self.plan.servers.len() + number;
        let client = &self.plan.clients[number];
        if client.kind == Kind::Blocking {
            return self.block(sim, me, &client.tasks[0]);
        }
        let node = self.node(sim, me, &format!("client-{number}")).build()?;
        let servers = 0..self.plan.servers.len();
        if client.kind == Kind::Awaited {
            let mut callers = Vec::new();
            for server in servers {
                let connects = self
                    .handles(sim)
                    .connect_async::<WorkHandle>(&self.address(server, client.host));
                callers.push(self.connected(me, server, node.block_on(connects)));
            }
            self.run_tasks(me, &node, &client.tasks, &callers);
        } else {
            let mut callers = Vec::new();
            for server in servers {
                let connects = self.connect(&node, client.host, server);
                callers.push(self.connected(me, server, node.block_on(connects)));
            }
            self.run_tasks(me, &node, &client.tasks, &callers);
        }
        Ok(())
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

    /// Runs the tasks of a client, each of which does one operation after the other.
    fn run_tasks<C: WorkCaller + Clone + 'static>(
        &self,
        me: Process,
        node: &upbeat::Node,
        tasks: &[Vec<Id>],
        callers: &[Option<C>],
    ) {
        let spawned: Vec<_> = tasks
            .iter()
            .map(|task| {
                let (scene, task, callers) = (self.clone(), task.clone(), callers.to_vec());
                node.spawn(async move {
                    for id in task {
                        let operation = &scene.plan.operations[id];
                        upbeat::sleep(ms(operation.pause_ms)).await;
                        if let Some(caller) = &callers[operation.to] {
                            scene.operate(caller, id).await;
                        }
                    }
                })
            })
            .collect();
        node.block_on(async {
            for task in spawned {
                if task.await.is_err() {
                    self.record.is_wrong("a task of a client has panicked".to_owned());
                }
            }
        });
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
        let Operation { items, end, .. } = self.plan.operations[id];
        let writing = self.record.streams(id);
        upbeat::stream(async move |sink| {
            for number in 0..items.written {
                if end == End::Panic && number == items.written / 2 {
                    writing.ends(RunEnd::Panicked);
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
        let callers: Vec<_> = (0..self.plan.servers.len()).map(connects).collect();
        for &id in task {
            let operation = &self.plan.operations[id];
            sim.pause(ms(operation.pause_ms));
            let Some(handle) = &callers[operation.to] else { continue };
            let mut caller = handle.blocking();
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
