//! Finds the functions from which an instruction was inlined: asks `addr2line` about the lines of debugging
//! information.

use super::outside::failure;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// A function that an instruction stands in, by itself or inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its name without its path and its parameters.
    pub(crate) function: String,
    /// The file, from the root of the repository or of the program; none if the file belongs to neither.
    pub(crate) file: Option<String>,
}

/// The functions of each of these addresses, the innermost first.
pub(crate) fn frames(
    binary: &Path,
    roots: &[&Path],
    addresses: impl Iterator<Item = u64>,
) -> Result<BTreeMap<u64, Vec<Frame>>, String> {
    let mut command = Command::new("addr2line");
    command.args(["--inlines", "--functions", "--demangle", "--addresses", "--exe"]).arg(binary);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| match error.kind() {
        ErrorKind::NotFound => "addr2line, which knows what was inlined, is not installed: \
                                `apt-get install binutils`, `dnf install binutils`, or the like"
            .to_owned(),
        _ => format!("cannot start addr2line: {error}"),
    })?;
    let asked: String = addresses.map(|address| format!("{address:#x}\n")).collect();
    let to = child.stdin.take();
    // `addr2line` answers while it is asked, so a thread must read its output meanwhile.
    let asking = std::thread::spawn(move || to.map(|mut to| to.write_all(asked.as_bytes())));
    let output = child.wait_with_output().map_err(|error| format!("addr2line: {error}"))?;
    if !output.status.success() || !matches!(asking.join(), Ok(Some(Ok(())))) {
        return Err(failure("addr2line", &output));
    }
    read(&String::from_utf8_lossy(&output.stdout), roots)
}

/// Reads an address, then pairs of lines: a function, and a file with a line.
pub(super) fn read(text: &str, roots: &[&Path]) -> Result<BTreeMap<u64, Vec<Frame>>, String> {
    let mut all: BTreeMap<u64, Vec<Frame>> = BTreeMap::new();
    let mut current = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(address) = line.strip_prefix("0x") {
            let address = u64::from_str_radix(address, 16);
            current = Some(address.map_err(|_| format!("addr2line: `{line}` is no address"))?);
            continue;
        }
        let (Some(address), Some(place)) = (current, lines.next()) else {
            return Err(format!("addr2line: `{line}` belongs to no address"));
        };
        let path = place.rsplit_once(':').map_or(place, |(path, _)| path);
        let ours = roots.iter().find_map(|root| Path::new(path).strip_prefix(root).ok());
        let file = ours.and_then(Path::to_str).map(str::to_owned);
        all.entry(address).or_default().push(Frame { function: plain(line).to_owned(), file });
    }
    Ok(all)
}

/// The last word of a function's path, without parameters.
fn plain(name: &str) -> &str {
    let mut depth = 0;
    let mut from = 0;
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'{' | b'(' => depth += 1,
            // An arrow is no bracket.
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b'}' | b')' => depth -= 1,
            b':' if depth == 0 => from = at + 1,
            _ => {}
        }
    }
    let last = &name[from..];
    match last.find('<') {
        Some(at) if at > 0 => &last[..at],
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_last_words_of_paths() {
        assert_eq!(plain("upbeat::node::Node::turn"), "turn");
        assert_eq!(plain("<upbeat::task::Spawned<F> as upbeat::task::Task>::poll"), "poll");
        assert_eq!(plain("run<(), (), o::{impl#9}::{closure_env#0}<o::N>, u::S>"), "run");
        assert_eq!(plain("core::ptr::drop_in_place<upbeat::call::Call<(),()>>"), "drop_in_place");
        assert_eq!(plain("map<fn(u8) -> u8, u8>"), "map");
        assert_eq!(plain("{closure#0}<outside::Nothing>"), "{closure#0}");
    }

    #[test]
    fn files_are_ours_or_nobodys() {
        let text = "0x10\nget\n/rustc/core/src/cell.rs:5\nlook\n/r/crates/a.rs:7 (discriminator 2)\n\
                    0x12\nmain\n/r/target/outside/main.rs:1\n??\n??:0\n";
        let roots = [Path::new("/r/target/outside"), Path::new("/r")];
        let all = read(text, &roots).unwrap();
        let files = |address: u64| -> Vec<Option<&str>> {
            all[&address].iter().map(|frame| frame.file.as_deref()).collect()
        };
        assert_eq!(files(0x10), [None, Some("crates/a.rs")]);
        assert_eq!(files(0x12), [Some("main.rs"), None]);
        assert!(read("look\n/r/a.rs:1\n", &roots).is_err());
        assert!(read("0xzz\n", &roots).is_err());
    }
}
