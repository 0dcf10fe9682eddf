//! Runs a plan in a world, up to the audit at its end.

use super::history::{Disturbance, Process, Record};
use super::plan::{Fault, HOSTS, Plan};
use super::serve::{Scene, WorkClient, ms, name};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use upbeat_sim::{Sim, Thread, spawn};

/// The time in which every operation ends once nothing disturbs the world any more.
const ENDS_WITHIN: Duration = Duration::from_secs(120);
/// The time after which nothing is left of the clients: sessions that wait for another connection, and handlers that go on.
const SETTLES_WITHIN: Duration = Duration::from_secs(70);
/// The time in which nodes do nothing, and the most steps that a world takes meanwhile.
const IDLE: Duration = Duration::from_secs(20);
const IDLE_STEPS: u64 = 2_000;

/// The name of a client's process.
fn client_name(number: usize) -> String {
    format!("client-{number}")
}

/// Runs a plan. Its record has what happened.
pub(crate) fn run(sim: &Sim, plan: &Arc<Plan>, record: &Record) {
    let scene = Scene { plan: Arc::clone(plan), record: record.clone() };
    if let Some(accesses_max) = plan.accesses_max {
        sim.interleave(accesses_max);
    }
    let hosts = HOSTS.map(|host| sim.host(host));
    for (me, server) in plan.servers.iter().enumerate() {
        record.begins(Disturbance::Unborn(me));
        let (scene, lives) = (scene.clone(), AtomicU32::new(0));
        hosts[server.host]
            .start(&name(me), move |sim| scene.serve(sim, me, lives.fetch_add(1, Relaxed)));
    }
    for (number, client) in plan.clients.iter().enumerate() {
        let scene = scene.clone();
        hosts[client.host].start(&client_name(number), move |sim| scene.run_client(sim, number));
    }
    let mut faults: Vec<_> =
        plan.faults.iter().map(|(at, fault)| scene.comes(sim, *at, *fault)).collect();
    for (me, server) in plan.servers.iter().enumerate() {
        if let Some((after, grace)) = server.leaves {
            faults.push(scene.comes_back(sim, me, after + grace + 50));
        }
    }
    faults.into_iter().for_each(|fault| fault.join().expect("a fault ends"));
    scene.restart_all(sim);
    let began = upbeat_environment::time::Instant::now();
    let runs = || (0..plan.clients.len()).any(|number| sim.is_running(&client_name(number)));
    while runs() && began.elapsed() < ENDS_WITHIN {
        sim.pause(ms(50));
        // A server that was stopped meanwhile shuts down later than its plan says.
        scene.restart_all(sim);
    }
    if runs() {
        record.is_wrong("a client waits for ever".to_owned());
    } else {
        scene.audit(sim);
    }
    record.is_over();
}

impl Scene {
    /// Has a fault come at its time, and go.
    fn comes(&self, sim: &Sim, at: u64, fault: Fault) -> Thread {
        let (scene, sim) = (self.clone(), sim.clone());
        let body = move || {
            sim.pause(ms(at));
            scene.disturb(&sim, fault);
        };
        spawn("a fault", body).expect("the system has a thread left")
    }

    fn process_name(&self, process: Process) -> String {
        match process.checked_sub(self.plan.servers.len()) {
            None => name(process),
            Some(client) => client_name(client),
        }
    }

    fn disturb(&self, sim: &Sim, fault: Fault) {
        let record = &self.record;
        let cut = |of: [usize; 2]| {
            record.begins(Disturbance::Cut(of));
            of.map(|host| HOSTS[host])
        };
        match fault {
            Fault::Kill(process, down) => {
                let name = self.process_name(process);
                if !sim.is_running(&name) {
                    return;
                }
                record.count("processes killed");
                record.begins(Disturbance::Down(process));
                sim.kill(&name);
                sim.pause(ms(down));
                self.restart(sim, process);
            }
            Fault::Stop(process, time) => {
                record.count("processes stopped");
                record.begins(Disturbance::Stopped(process));
                sim.stop(&self.process_name(process));
                sim.pause(ms(time));
                sim.go_on(&self.process_name(process));
                record.ends(Disturbance::Stopped(process));
            }
            Fault::Break(of) => {
                record.count("networks broken");
                record.begins(Disturbance::Broken(of));
                let [one, other] = of.map(|host| HOSTS[host]);
                sim.break_connections(one, other);
                record.ends(Disturbance::Broken(of));
            }
            Fault::Part(of, time) => {
                record.count("networks parted");
                let [one, other] = cut(of);
                sim.part(one, other);
                self.heal(sim, of, time);
            }
            Fault::Silence(of, time) => {
                record.count("networks silent in one direction");
                let [one, other] = cut(of);
                sim.silence(one, other);
                self.heal(sim, of, time);
            }
            Fault::Starve(process, resource, time) => {
                record.count("processes starved");
                let name = self.process_name(process);
                record.begins(Disturbance::Starved(process));
                sim.starve(&name, resource);
                sim.pause(ms(time));
                sim.supply(&name);
                record.ends(Disturbance::Starved(process));
            }
            Fault::Delay(of, most) => {
                record.count("networks slowed");
                let [one, other] = of.map(|host| HOSTS[host]);
                sim.delay(one, other, ms(0)..ms(most));
            }
        }
    }

    fn heal(&self, sim: &Sim, of: [usize; 2], time: u64) {
        sim.pause(ms(time));
        let [one, other] = of.map(|host| HOSTS[host]);
        sim.heal(one, other);
        self.record.ends(Disturbance::Cut(of));
    }

    /// Starts a server again that has ended.
    fn restart(&self, sim: &Sim, process: Process) {
        let name = self.process_name(process);
        if process < self.plan.servers.len() && !sim.is_running(&name) {
            self.record.count("servers started again");
            sim.restart(&name);
        }
    }

    fn comes_back(&self, sim: &Sim, server: Process, at: u64) -> Thread {
        let (scene, sim) = (self.clone(), sim.clone());
        let body = move || {
            sim.pause(ms(at));
            scene.restart(&sim, server);
        };
        spawn("a start", body).expect("the system has a thread left")
    }

    fn restart_all(&self, sim: &Sim) {
        (0..self.plan.servers.len()).for_each(|server| self.restart(sim, server));
    }

    /// Looks at what the clients have left behind, and whether the nodes rest.
    fn audit(&self, sim: &Sim) {
        sim.pause(SETTLES_WITHIN);
        self.restart_all(sim);
        let Scene { plan, record } = self;
        let me = plan.processes();
        let node = self.node(sim, me, "auditor").build().expect("an auditor is built");
        let servers = plan.servers.len();
        node.block_on(async {
            for server in 0..servers {
                let connects = node.connect::<WorkClient>(&self.address(server, 0));
                let left = match connects.wait_for(ms(10_000)).await {
                    Ok(audited) => audited.left().await,
                    Err(error) => {
                        record.is_wrong(format!("server {server} is not reached: {error}"));
                        continue;
                    }
                };
                match left {
                    // Either of two servers may have opened a session.
                    Ok((sessions, 0, panics)) if (sessions as usize) < 2 * servers => {
                        record.has_contained(server, panics);
                    }
                    left => record.is_wrong(format!("server {server} has {left:?} at the end")),
                }
            }
        });
        let before = sim.steps();
        sim.pause(IDLE);
        let steps = sim.steps() - before;
        if steps > IDLE_STEPS {
            record.is_wrong(format!("idle nodes take {steps} steps in {IDLE:?}"));
        }
    }
}
