//! The handles that the imports of a process share: one for all imports from a node with the same settings, and with it
//! one session and one thread.
//!
//! A handle is shared once its session stands, so each import waits for its own session on its own terms, however long
//! others would wait. Invariant: a handle ends with the last import that has it. A forked child shares those that it has
//! made itself.

use super::side::Standing;
use super::{BoundHandle, ConnectTerms, HandleClient, Shared, Target};
use crate::error::ConnectError;
use std::sync::{Arc, PoisonError, Weak};
use upbeat_environment::turns::Mutex;
use upbeat_memory::fork::PerProcess;

/// The handles that are shared. Of two equal ones, the first is used.
static SHARED: PerProcess<Mutex<Vec<Weak<Shared>>>> = PerProcess::new();

impl BoundHandle {
    /// Returns the handle that imports share whose settings are these. Its first call opens its session.
    pub(crate) fn shared<C: HandleClient>(target: Target) -> C {
        let own = BoundHandle::new::<C>(target);
        C::from_bound(own.among_shared(|_| true))
    }

    /// Returns the handle that imports share whose settings are these, once its session stands.
    pub(crate) async fn shared_connected<C: HandleClient>(
        target: Target,
        terms: ConnectTerms,
    ) -> Result<C, ConnectError> {
        let own = BoundHandle::new::<C>(target);
        let known = own.equal().map(|known| (known.standing(), known));
        let handle = match known {
            // An import that has a deadline opens a session of its own within it: the shared one may not answer.
            Some((Standing::Open, known)) if terms.until.is_none() => known,
            // The calls of all others wait as this import does.
            Some((Standing::None, known)) if terms.until.is_none() => {
                known.opened(terms).await?;
                known
            }
            _ => {
                own.opened(terms).await?;
                own.among_shared(|known| known.standing() == Standing::Open)
            }
        };
        Ok(C::from_bound(handle))
    }

    /// Returns the shared handle with the settings of this one, if there is one.
    fn equal(&self) -> Option<BoundHandle> {
        with_shared(|_, live| self.equal_of(live))
    }

    /// Returns the shared handle with the settings of this one, if there is one that is good enough. Otherwise this one is
    /// shared from now on.
    fn among_shared(self, is_enough: impl FnOnce(&BoundHandle) -> bool) -> BoundHandle {
        with_shared(|shared, live| {
            self.equal_of(live).filter(is_enough).unwrap_or_else(|| {
                shared.insert(0, Arc::downgrade(&self.shared));
                self.clone()
            })
        })
    }

    fn equal_of(&self, live: &[BoundHandle]) -> Option<BoundHandle> {
        let Shared { target, service, .. } = &*self.shared;
        let is_equal = |other: &&BoundHandle| {
            other.shared.target.is_equal(target) && other.shared.service == *service
        };
        live.iter().find(is_equal).cloned()
    }
}

/// Gives `act` the shared handles, which are locked, and those among them that are in use.
fn with_shared<R>(act: impl FnOnce(&mut Vec<Weak<Shared>>, &[BoundHandle]) -> R) -> R {
    // Dropped behind the lock, as the last drop of a handle ends its session.
    let mut live = Vec::new();
    let shared = SHARED.get(Mutex::default).lock();
    let mut shared = shared.unwrap_or_else(PoisonError::into_inner);
    shared.retain(|handle| {
        let handle = handle.upgrade().map(|shared| BoundHandle { shared });
        let is_live = handle.is_some();
        live.extend(handle);
        is_live
    });
    act(&mut shared, &live)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::{HandleBuilder, builder};
    use std::fs::DirBuilder;
    use std::os::unix::fs::DirBuilderExt;
    use std::time::Duration;
    use upbeat_core::method::Signature;
    use upbeat_memory::fork::in_child;

    struct Client(BoundHandle);

    impl HandleClient for Client {
        const SERVICE: &'static str = "Client";

        fn signatures() -> &'static [Signature] {
            &[]
        }

        fn from_bound(handle: BoundHandle) -> Client {
            Client(handle)
        }
    }

    fn shared(of: HandleBuilder, name: &str) -> Client {
        BoundHandle::shared(of.target(name).unwrap().0)
    }

    fn is_one(Client(one): &Client, Client(other): &Client) -> bool {
        Arc::ptr_eq(&one.shared, &other.shared)
    }

    #[test]
    fn handles_with_equal_settings_are_one() {
        let of = || builder().program("sharing");
        let handle = shared(of(), "owner");
        assert!(is_one(&handle, &shared(of(), "owner")));
        let place = std::env::temp_dir().join(format!("upbeat-sharing-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&place).unwrap();
        let others = [
            shared(builder().program("other"), "owner"),
            shared(of(), "owner/2"),
            shared(of(), "owner@127.0.0.1:7000"),
            shared(of().directory(&place), "owner"),
            shared(of().insecure_plaintext(), "owner"),
            shared(of().shared_memory(false), "owner"),
            shared(of().max_message_bytes(1 << 20), "owner"),
            shared(of().call_deadline(Duration::from_secs(1)), "owner"),
            shared(of().wait_for(Duration::from_secs(1)), "owner"),
            shared(of().sampling(7), "owner"),
        ];
        std::fs::remove_dir_all(&place).unwrap();
        for (at, other) in others.iter().enumerate() {
            assert!(!is_one(&handle, other), "{at}");
            assert!(others[..at].iter().all(|before| !is_one(before, other)), "{at}");
        }
        let child = in_child(|| u8::from(!is_one(&handle, &shared(of(), "owner"))));
        assert_eq!(child, Some(1), "a child has handles of its own");
        let before = Arc::downgrade(&handle.0.shared);
        drop(handle);
        assert!(before.upgrade().is_none());
        let _again = shared(of(), "owner");
    }
}
