//! Tests that the corpus passes, that a history follows from its seed, and that an injected fault is found.

use super::*;

#[test]
fn the_corpus_has_no_violation() {
    assert!(corpus());
}

#[test]
fn a_history_follows_from_its_seed() {
    for seed in 0..20 {
        let traces = [(), ()].map(|()| {
            let mut world = World::new(seed, true);
            assert_eq!(world.run(), Ok(()));
            world.trace().to_vec()
        });
        assert!(traces[0] == traces[1] && traces[0].len() > 20, "seed {seed}");
    }
}

/// A release build tries all faults: `cargo run --release -p sim -- mutants`.
#[test]
fn faults_that_are_put_in_are_found() {
    silence();
    for mutant in [
        Mutant::PlaceForgotten,
        Mutant::WaitingCounted,
        Mutant::RoomUnoffered,
        Mutant::DeadlineNotInherited,
        Mutant::OutlivesDeadline,
        Mutant::CancelIgnored,
        Mutant::LostKeepsTasks,
        Mutant::ExportNumberAgain,
        Mutant::ExportNameTwice,
        Mutant::LastElementLeft,
        Mutant::AroundUnseen,
        Mutant::LengthUnread,
    ] {
        mutant::put(Some(mutant));
        assert!((0..300).any(|seed| history(seed).1.is_err()), "{mutant:?}");
    }
    mutant::put(None);
    assert_eq!(history(0).1, Ok(()));
}
