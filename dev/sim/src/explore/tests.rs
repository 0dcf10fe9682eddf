//! The corpus, and that a history follows from its seed.

use super::*;

#[test]
fn the_corpus_has_no_violation() {
    assert!(corpus());
}
