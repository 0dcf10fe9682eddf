//! Uses of the macros: right ones run, and wrong ones are told what to write instead.
//!
//! The messages are pinned in `ui/*.stderr`. After a change: `TRYBUILD=overwrite`, then read them.

#[test]
fn wrong_uses_say_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
