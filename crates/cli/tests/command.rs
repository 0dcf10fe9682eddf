//! Tests what all commands have in common: exit codes, closed pipes, output paths, completions.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory for one test, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("upbeat-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_upbeat"));
        command
            .args(line.split_whitespace())
            .current_dir(&self.0)
            .env("XDG_CONFIG_HOME", self.0.join("config"))
            .env_remove("UPBEAT_PROGRAM")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let scratch = Scratch::new("exit-codes");
    let help = text(&scratch.run("--help").stdout);
    for (code, lines) in [
        (0, &["--help", "--version", "bench --list", "keys init"][..]),
        (
            1,
            &[
                "keys init",
                "keys show none.pem",
                "bill --load none.json",
                "bill 4194305",
                "read none nobody",
            ],
        ),
        (
            2,
            &[
                "",
                "unknown",
                "bench limits/lien",
                "bench --pin 0",
                "keys issue",
                "completions",
                "read shop",
            ],
        ),
    ] {
        let documented = format!("\n    {code}  the command ");
        assert!(help.contains(&documented), "{help}");
        for line in lines {
            let output = scratch.run(line);
            assert_eq!(output.status.code(), Some(code), "{line}: {}", text(&output.stderr));
            assert_eq!(output.stderr.is_empty(), code == 0, "{line}");
        }
    }
}

#[test]
fn a_reader_that_closes_the_pipe_ends_each_command_quietly() {
    let scratch = Scratch::new("closed-pipe");
    for line in [
        "--help",
        "bench --help",
        "bench --list",
        "completions zsh",
        "keys init",
        "keys issue counter -o counter.pem",
        "keys show counter.pem",
        "keys show counter.pem --json",
    ] {
        let mut child =
            scratch.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let error = text(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{line}: {error}");
    }
}

#[test]
fn an_output_path_that_cannot_be_written_is_refused_before_the_work_starts() {
    let scratch = Scratch::new("output-path");
    for option in ["--save", "--html", "--trace"] {
        for path in [".", "none/file"] {
            // No process has this number. The search for it would be the first error of the work.
            let output = scratch.run(&format!("bill 4194305 {option} {path}"));
            let error = text(&output.stderr);
            assert!(error.starts_with(&format!("upbeat: {path} cannot be written: ")), "{error}");
            assert_eq!(output.status.code(), Some(1));
        }
    }
    let output = scratch.run("bill 4194305 --save new.json");
    assert!(text(&output.stderr).contains("there is no process"));
    assert!(!scratch.0.join("new.json").exists(), "a command that fails leaves no file");
    // The authority, without which no identity can be issued, does not exist either.
    let output = scratch.run("keys issue counter -o none/counter.pem");
    let error = text(&output.stderr);
    assert!(error.contains("no file can be created in none"), "{error}");
}

#[test]
fn completions_know_the_words_of_the_command() {
    let scratch = Scratch::new("completions");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&scratch.run(&format!("completions {shell}")).stdout);
        for word in [
            "demo",
            "bench",
            "bill",
            "read",
            "watch",
            "keys",
            "issue",
            "completions",
            "seconds",
            "force",
        ] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        for hidden in ["bench-peer", "demo-node"] {
            assert!(!script.contains(hidden), "{shell}: {hidden}");
        }
    }
    // Bash itself takes the script and completes with it.
    let lines = "source ./script; COMP_WORDS=(upbeat k) COMP_CWORD=1; _upbeat upbeat k upbeat; echo ${COMPREPLY[@]}";
    std::fs::write(scratch.0.join("script"), scratch.run("completions bash").stdout).unwrap();
    match Command::new("bash").args(["-c", lines]).current_dir(&scratch.0).output() {
        Ok(output) => assert_eq!(text(&output.stdout).trim(), "keys", "{}", text(&output.stderr)),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
}
