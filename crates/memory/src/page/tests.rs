//! Tests of a node page, from the side of its owner and of its peers.

use super::*;

#[test]
fn a_peer_sees_state_and_polling_flag() {
    let region = Region::heap(PAGE_WORDS);
    let page = NodePage::new(region.clone(), 77);
    let peer = PeerPage::new(region.read_only());
    assert_eq!((peer.incarnation(), peer.state(), peer.asleep_unfenced()), (77, State::Open, None));
    let mut sleeps = Vec::new();
    for _ in 0..3 {
        page.clear_polling();
        sleeps.push(peer.asleep_unfenced().unwrap());
        page.set_polling();
        assert_eq!(peer.asleep_unfenced(), None);
    }
    // Clearing the flag twice still starts a new sleep.
    page.clear_polling();
    page.clear_polling();
    sleeps.push(peer.asleep_unfenced().unwrap());
    assert!(sleeps.is_sorted_by(|one, next| one < next));
    for state in [State::Closing, State::Closed, State::Unknown(9)] {
        page.set_state(state);
        assert_eq!(peer.state(), state);
    }
}

#[test]
fn a_page_may_hold_anything() {
    let region = Region::heap(PAGE_WORDS);
    let peer = PeerPage::new(region.clone());
    for word in [0, 1, 2, 3, u64::MAX - 1, u64::MAX] {
        (0..PAGE_WORDS).for_each(|at| region.store(at, word));
        assert_eq!(peer.asleep_unfenced(), (word % 2 == 0).then_some(word));
        assert_eq!(peer.state().word(), word);
    }
}
