//! Models of the polling flag and its readers, in every order that the memory model allows.

use super::*;
use loom::thread;

#[test]
fn a_sender_that_has_rung_sees_the_next_sleep() {
    loom::model(|| {
        let page = Region::heap(PAGE_WORDS);
        let (node, peer) = (NodePage::new(page.clone(), 1), PeerPage::new(page));
        let sleeper = thread::spawn(move || {
            for _ in 0..2 {
                node.clear_polling();
                node.set_polling();
            }
        });
        let sleeps = [peer.asleep(fence_full()), peer.asleep(fence_full())];
        if let [Some(first), Some(second)] = sleeps {
            assert!(first <= second && [2, 4].contains(&first) && [2, 4].contains(&second));
        }
        sleeper.join().unwrap();
        assert_eq!(peer.asleep(fence_full()), None);
    });
}
