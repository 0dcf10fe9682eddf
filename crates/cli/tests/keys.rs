//! Tests the `upbeat keys` command from a user's view.

use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;
use upbeat_transport::identity::Identity;

/// A directory for one test, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("upbeat-keys-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// Runs `upbeat keys` in the directory.
    fn keys(&self, line: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_upbeat"))
            .arg("keys")
            .args(line.split_whitespace())
            .current_dir(&self.0)
            .env("XDG_CONFIG_HOME", self.0.join("config"))
            .env_remove("UPBEAT_PROGRAM")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Returns the output of a command that succeeds.
    fn good(&self, line: &str) -> String {
        let output = self.keys(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty());
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the error message of a command that fails.
    fn bad(&self, line: &str) -> String {
        let before = self.left();
        let output = self.keys(line);
        assert!(!output.status.success() && output.stdout.is_empty(), "{line}");
        assert_eq!(self.left(), before, "{line} leaves nothing behind");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Returns all files with their contents.
    fn left(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut left = Vec::new();
        for directory in [self.0.clone(), self.0.join("config/upbeat")] {
            let Ok(entries) = std::fs::read_dir(directory) else { continue };
            for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
                let content = std::fs::read(&path).unwrap();
                left.push((path, content));
            }
        }
        left.sort();
        left
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_str(&self.good(&format!("show {file} --json"))).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[test]
fn an_authority_issues_identities_that_load() {
    let scratch = Scratch::new("issue");
    let printed = scratch.good("init --program demo");
    let authority = scratch.0.join("config/upbeat/demo.authority.pem");
    assert!(printed.contains(authority.to_str().unwrap()), "{printed}");
    assert_eq!(mode(&authority), 0o600);
    assert_eq!(mode(authority.parent().unwrap()), 0o700);

    scratch.good("issue --program demo counter worker/* --days 7 -o counter.pem");
    let file = scratch.0.join("counter.pem");
    assert_eq!(mode(&file), 0o600);
    let identity = Identity::load(&file).unwrap();
    assert_eq!(identity.program().as_str(), "demo");
    assert!(identity.names().covers(Some(&"worker/1".parse().unwrap())));
    assert!(!identity.names().covers(Some(&"desk".parse().unwrap())));
    let left = identity.expires_in(SystemTime::now()).as_secs();
    assert!((7 * 86_400 - 120..=7 * 86_400).contains(&left), "{left}");

    scratch.good("issue --program demo --handle -o handle.pem");
    let handle = Identity::load(scratch.0.join("handle.pem")).unwrap();
    assert!(handle.names().nodes().is_empty());

    let shown = scratch.json("counter.pem");
    assert_eq!(shown["kind"], "identity");
    assert_eq!(shown["program"], "demo");
    assert_eq!(shown["nodes"], serde_json::json!(["counter", "worker/*"]));
    assert_eq!((&shown["valid"], &shown["private_keys"]), (&true.into(), &1.into()));
    let fingerprint = shown["authorities"][0]["fingerprint_sha256"].as_str().unwrap();
    assert_eq!(fingerprint.len(), 64);
    let whole = scratch.json("config/upbeat/demo.authority.pem");
    assert_eq!((&whole["kind"], &whole["program"]), (&"authority".into(), &"demo".into()));
    assert_eq!(whole["fingerprint_sha256"], fingerprint);
    let text = scratch.good("show counter.pem");
    assert!(text.contains("counter, worker/*") && text.contains(fingerprint), "{text}");
    assert!(text.contains("6 days left"), "{text}");
    assert!(!text.contains("PRIVATE"), "{text}");
}

/// Returns the command that a message advises behind these words, without the name of the program.
fn advised<'m>(message: &'m str, words: &str) -> &'m str {
    let at = message.find(words).unwrap_or_else(|| panic!("no `{words}` in: {message}"));
    let command = message[at + words.len()..].lines().next().unwrap();
    command.split('`').next().unwrap().strip_prefix("upbeat keys ").unwrap()
}

#[test]
fn advised_commands_succeed() {
    let scratch = Scratch::new("advice");
    for (init, file) in
        [("init --program demo --dir ca", "a.pem"), ("init --program demo", "b.pem")]
    {
        let printed = scratch.good(init);
        let issue = advised(&printed, "issue an identity: ");
        scratch.good(&issue.replace("NODE.pem", file).replace("NODE", "counter"));
        assert!(scratch.0.join(file).exists(), "{issue}");
    }
    assert!(scratch.good("init --program demo --dir it's").contains(r" --dir 'it'\''s' NODE"));
    // Of a directory without an authority.
    let message = scratch.bad("issue --program other --dir ca counter -o c.pem");
    let init = advised(&message, "make one with `");
    scratch.good(init);
    scratch.good("issue --program other --dir ca counter -o c.pem");
}

#[test]
fn no_identity_outlives_its_authority() {
    let scratch = Scratch::new("outlive");
    scratch.good("init --program demo --dir ca --days 3");
    scratch.good("issue --program demo --dir ca counter --days 90 -o a.pem");
    let identity = Identity::load(scratch.0.join("a.pem")).unwrap();
    assert!(identity.expires_in(SystemTime::now()).as_secs() <= 3 * 86_400);
}

#[test]
fn a_file_is_replaced_only_with_force() {
    let scratch = Scratch::new("force");
    scratch.good("init");
    assert!(scratch.0.join("config/upbeat/default.authority.pem").is_file());
    assert!(scratch.bad("init").contains("exists already"));
    scratch.good("issue counter -o a.pem");
    let first = std::fs::read(scratch.0.join("a.pem")).unwrap();
    assert!(scratch.bad("issue counter -o a.pem").contains("--force"));
    scratch.good("issue counter -o a.pem --force");
    assert_ne!(std::fs::read(scratch.0.join("a.pem")).unwrap(), first);
    assert_eq!(mode(&scratch.0.join("a.pem")), 0o600);
    // An identity of the replaced authority names another authority.
    let before = scratch.json("a.pem")["authorities"][0]["fingerprint_sha256"].clone();
    scratch.good("init --force");
    scratch.good("issue counter -o a.pem --force");
    assert_ne!(scratch.json("a.pem")["authorities"][0]["fingerprint_sha256"], before);
}

#[test]
fn impossible_requests_are_refused_before_a_file_is_created() {
    let scratch = Scratch::new("refused");
    let error = scratch.bad("issue --program demo counter -o a.pem");
    assert!(error.contains("upbeat keys init --program demo"), "{error}");
    scratch.good("init --program demo");
    assert!(scratch.bad("issue --program demo counter -o none/a.pem").contains("no file can be"));
    assert!(
        scratch.bad("issue --program demo counter -o config").contains("is not a regular file")
    );
    assert!(
        scratch.bad("issue --program demo counter -o /dev/null").contains("is not a regular file")
    );
    std::os::unix::fs::symlink("/dev/null", scratch.0.join("link.pem")).unwrap();
    assert!(
        scratch.bad("issue --program demo a -o link.pem --force").contains("is not a regular file")
    );
    assert!(scratch.bad("issue --program demo -o a.pem").contains("NODE"));
    assert!(scratch.bad("issue --program demo a//b -o a.pem").contains("is no name of a node"));
    assert!(scratch.bad("issue --program a/b c -o a.pem").contains("is no name of a program"));
    assert!(scratch.bad("issue --program demo a -o a.pem --days 0").contains("--days"));
    // Neither the authority of another program nor one with open permissions can be used.
    let authority = scratch.0.join("config/upbeat/demo.authority.pem");
    std::fs::copy(&authority, scratch.0.join("config/upbeat/other.authority.pem")).unwrap();
    let error = scratch.bad("issue --program other a -o a.pem");
    assert!(error.contains("not of program `other`"), "{error}");
    std::fs::set_permissions(&authority, Permissions::from_mode(0o644)).unwrap();
    assert!(scratch.bad("issue --program demo a -o a.pem").contains("chmod 600"));
    assert!(scratch.bad("show config/upbeat/demo.authority.pem").contains("chmod 600"));
    assert!(scratch.bad("show none.pem").contains("No such file"));
}

#[test]
fn the_help_has_examples() {
    let scratch = Scratch::new("help");
    for line in ["--help", "init --help", "issue --help", "show --help"] {
        let help = scratch.good(line);
        assert!(help.contains("upbeat keys issue --program demo counter -o counter.pem"), "{help}");
    }
}
