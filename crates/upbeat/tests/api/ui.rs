//! Wrong uses of the macros are told what to write instead.
//!
//! The messages are pinned in `ui/*.stderr`. After a change: `TRYBUILD=overwrite`, then read them. The test is a step of
//! `.ci/run`, `macros`, for it checks all dependencies anew in a directory of its own:
//! `cargo test -p upbeat --test api -- --ignored` runs it.
//! Right uses are in `service_forms.rs`: without a case that must pass, all of these are checked in
//! one run of cargo, and neither they nor what they depend on is built.

#[test]
#[ignore = "takes a minute of a fresh machine: the step `macros` of .ci/run"]
fn wrong_uses_say_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
