//! Tests that the corpus passes, and that a history follows from its seed.

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
