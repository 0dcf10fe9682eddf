//! Wrong uses of the macros are told what to write instead.
//!
//! The messages are pinned in `ui/*.stderr`. After a change: `UPBEAT_UI=overwrite`, then read them.
//! Right uses are in `service_forms.rs`. The compiler is run as cargo would run it, with the libraries that were built
//! for this very test: nothing is built for these cases.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where this package lies in the workspace.
const PACKAGE: &str = "crates/upbeat";

/// The crates that cases name.
const EXTERN: [&str; 3] = ["upbeat", "serde", "zerocopy"];

#[test]
fn wrong_uses_say_what_to_write() {
    let libraries = Libraries::find();
    let overwrite = std::env::var("UPBEAT_UI").is_ok_and(|value| value == "overwrite");
    let mut cases: Vec<_> = entries("tests/ui").collect();
    cases.retain(|path| path.extension().is_some_and(|end| end == "rs"));
    cases.sort();
    assert!(!cases.is_empty());
    let (next, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let check = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let told = libraries.messages(case);
            let pinned = case.with_extension("stderr");
            if overwrite {
                std::fs::write(&pinned, &told).unwrap();
            } else if let expected = std::fs::read_to_string(&pinned).unwrap_or_default()
                && told != expected
            {
                wrong.fetch_add(1, Ordering::Relaxed);
                println!(
                    "{}\n==== expected ====\n{expected}\n==== told ====\n{told}",
                    case.display()
                );
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(check))));
    assert_eq!(wrong.into_inner(), 0, "of {} cases", cases.len());
}

/// What cases are linked with.
struct Libraries {
    paths: [PathBuf; EXTERN.len()],
    workspace: PathBuf,
}

impl Libraries {
    /// Asks cargo where the libraries of this test are. It builds nothing when the whole workspace was built.
    fn find() -> Libraries {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        // With what cargo tells tests of their package, build scripts would run again.
        for (name, _) in std::env::vars_os() {
            let package =
                ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_", "CARGO_PRIMARY_"];
            if name.to_str().is_some_and(|name| package.iter().any(|start| name.starts_with(start)))
            {
                cargo.env_remove(name);
            }
        }
        cargo.args(["test", "--no-run", "--offline", "--workspace", "--test", "ui"]);
        cargo.args((!cfg!(debug_assertions)).then_some("--release"));
        let output = done(cargo.args(["--quiet", "--message-format=json"]).current_dir(workspace));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let messages: Vec<serde_json::Value> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let paths = EXTERN.map(|name| {
            let library = messages.iter().find(|message| {
                let target = &message["target"];
                target["name"] == name
                    && target["kind"][0] == "lib"
                    && !message["profile"]["test"].as_bool().unwrap()
            });
            let library = library.unwrap_or_else(|| panic!("cargo built no {name}"));
            let files = library["filenames"].as_array().unwrap().iter();
            let mut files = files.map(|file| PathBuf::from(file.as_str().unwrap()));
            files.find(|file| file.extension().is_some_and(|end| end == "rlib")).unwrap()
        });
        Libraries { paths, workspace: workspace.to_owned() }
    }

    /// What the compiler says of this case, without what changes with the machine or with other files.
    fn messages(&self, case: &Path) -> String {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        rustc.args(["--edition=2024", "--emit=metadata", "--diagnostic-width=140", "-Adead_code"]);
        rustc.arg("--out-dir").arg(env!("CARGO_TARGET_TMPDIR"));
        for (name, path) in EXTERN.iter().zip(&self.paths) {
            rustc.arg(format!("--extern={name}={}", path.display()));
            rustc.arg(format!("-Ldependency={}", path.parent().unwrap().display()));
        }
        // From there on paths are told: those of other crates as well.
        let output = done(rustc.arg(Path::new(PACKAGE).join(case)).current_dir(&self.workspace));
        assert!(!output.status.success(), "{} is right", case.display());
        let said = String::from_utf8(output.stderr).unwrap();
        let mut told = String::new();
        // Lines of other files have numbers that change with them.
        let mut elsewhere = false;
        for line in said.lines() {
            let bare = line.trim_start();
            if ["error: aborting due to", "For more information about", "Some errors have detailed"]
                .iter()
                .any(|start| line.starts_with(start))
            {
                continue;
            }
            let place = bare.strip_prefix("--> ").or(bare.strip_prefix("::: "));
            let line = match place {
                Some(place) => {
                    let own = place.strip_prefix(PACKAGE).map(|own| own.trim_start_matches('/'));
                    elsewhere = !own.is_some_and(|own| own.starts_with(case.to_str().unwrap()));
                    line.replace(
                        place,
                        &own.map_or_else(|| format!("$WORKSPACE/{place}"), str::to_owned),
                    )
                }
                // How many types are not listed changes with the library.
                None if bare.starts_with("and ") && bare.ends_with(" others") => {
                    format!("{}and $N others", " ".repeat(line.len() - bare.len()))
                }
                None => line.to_owned(),
            };
            let line = if elsewhere { unnumbered(&line) } else { line };
            writeln!(told, "{}", line.trim_end()).unwrap();
        }
        let told: Vec<_> = told.trim_end().split("\n\n").map(unindented).collect();
        format!("{}\n", told.join("\n\n"))
    }
}

/// One message without the columns that only the numbers of lines of other files need.
fn unindented(message: &str) -> String {
    let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let numbered = message
        .lines()
        .filter(|line| line.trim_start().starts_with(|first: char| first.is_ascii_digit()));
    let spare = numbered.map(spaces).min().unwrap_or(0);
    let cut = |line: &str| line[spare.min(spaces(line))..].to_owned();
    message.lines().map(cut).collect::<Vec<_>>().join("\n")
}

/// A line of a message without the numbers of lines.
fn unnumbered(line: &str) -> String {
    let bare = line.trim_start();
    if bare.starts_with("--> ") || bare.starts_with("::: ") {
        return line.trim_end_matches(|end: char| end == ':' || end.is_ascii_digit()).to_owned();
    }
    let code = bare.trim_start_matches(|digit: char| digit.is_ascii_digit());
    match code.trim_start().starts_with('|') {
        true => format!("{}{code}", " ".repeat(line.len() - code.len())),
        false => line.to_owned(),
    }
}

fn entries(place: &str) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path())
}

fn done(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}
