//! Tests the output of the repository's own commands.

use std::process::{Command, Stdio};

#[test]
fn a_reader_that_closes_the_pipe_is_not_an_error() {
    for line in ["--help", "tidy --help", "tidy --list"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(line.split(' '))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{line}: {error}");
    }
}
