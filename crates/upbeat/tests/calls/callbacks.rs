//! References to services that are passed in calls, and called back.

use crate::common::server::{KINDS, Server, Stand};
use crate::common::work::{WorkClient, WorkServer, Worker};
use crate::common::{Watchdog, node};
use std::rc::Rc;
use std::time::Duration;
use upbeat::{CallError, ServiceRef, Waiting};

#[upbeat::service]
trait Nobody {
    async fn nothing(&self);
}

#[test]
fn a_service_is_called_back_by_whoever_was_passed_it() {
    let _watchdog = Watchdog::new("callbacks");
    for (kind, waiting) in KINDS.into_iter().zip([Waiting::Adaptive, Waiting::Sleeping]) {
        let stand = Stand::new(kind, waiting);
        let other = stand.name().replace("server", "other");
        let _other = Server::start(kind, &other, &stand.place, waiting);
        let worker = Rc::new(Worker::default());
        *worker.node.borrow_mut() = Some(stand.node.clone());
        stand.node.serve(WorkServer::shared(Rc::clone(&worker))).unwrap();
        stand.node.block_on(async {
            let work: WorkClient = stand.node.connect(&stand.name()).await.unwrap();
            let here = ServiceRef::here(&stand.node);
            let at = |name: &str| ServiceRef::<WorkClient>::at(name).unwrap();
            let sessions = stand.node.sessions();
            assert_eq!(work.call_back(here.clone(), vec![], 100).await, Ok(100));
            // The way that was there is taken in the other direction.
            assert_eq!(stand.node.sessions(), sessions);
            // Over another node, and over this one again.
            let through = [at(&other), at(&stand.name()), here.clone(), at(&other)];
            for left in 0..through.len() {
                let through = through[left..].to_vec();
                assert_eq!(work.call_back(here.clone(), through, 10).await, Ok(10));
            }
            // Many at once, each with its own.
            let tasks: Vec<_> = (0..50)
                .map(|times| {
                    let (work, here) = (work.clone(), here.clone());
                    stand.node.spawn(async move {
                        assert_eq!(work.call_back(here, vec![], times).await, Ok(times));
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        stand.node.shut_down(Duration::from_secs(1));
        *worker.node.borrow_mut() = None;
    }
}

#[test]
fn a_reference_to_what_is_not_there_is_an_error_to_who_calls_it() {
    let _watchdog = Watchdog::new("references");
    for kind in KINDS {
        let stand = Stand::new(kind, Waiting::Adaptive);
        let gone = node(&stand.name().replace("server", "gone"), &stand.place, Waiting::Adaptive);
        stand.node.block_on(async {
            let work: WorkClient = stand.node.connect(&stand.name()).await.unwrap();
            // This node serves nothing.
            let here = ServiceRef::here(&stand.node);
            match work.call_back(here, vec![], 1).await {
                Err(CallError::Method(text)) => {
                    assert!(text.contains("does not serve Work"), "{text}");
                }
                other => panic!("{other:?}"),
            }
            // That one was there when it was referred to.
            let reference = ServiceRef::here(&gone);
            drop(gone);
            match work.call_back(reference, vec![], 1).await {
                Err(CallError::Method(text)) => assert!(text.contains("no node `gone"), "{text}"),
                other => panic!("{other:?}"),
            }
            assert_eq!(work.add(1, 2).await, Ok(3));
        });
    }
}

#[test]
fn references_to_different_services_are_different_types_on_the_wire() {
    use upbeat::wire::signature_text;
    let work = signature_text::<(ServiceRef<WorkClient>,), ()>("S", "m", false);
    let nobody = signature_text::<(ServiceRef<NobodyClient>,), ()>("S", "m", false);
    assert_ne!(work, nobody);
    assert!(work.contains("ServiceRef<Work>"), "{work}");
}
