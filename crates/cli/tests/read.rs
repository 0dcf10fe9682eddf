//! Tests `upbeat read` with a real program in another process.

#[path = "read/program.rs"]
mod program;

use program::Running;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Output};

/// Runs the program that the tests read. In the test's own process this function does nothing.
#[test]
fn the_program() {
    program::run_if_told();
}

/// The output of a command that succeeds.
fn printed(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that fails with this exit code, and prints nothing else.
fn failed(output: Output, code: i32) -> String {
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    error.strip_prefix("upbeat: ").unwrap().trim_end().to_owned()
}

#[test]
fn values_are_printed_with_their_types() {
    let running = Running::start("values");
    let read = |target: &str| printed(running.read(&[target]));
    for (path, of_type, value) in [
        (".count", "u64", "18446744073709551615"),
        (".open", "bool", "true"),
        (".grade", "char", "'😀'"),
        (".change", "i8", "-3"),
        (".name", "text<16>", "\"EUR\\\"USD\\u{1b}\""),
        (".rates", "[f64; 3]", "[1.0, NaN, -inf]"),
        (".rates[0]", "f64", "1.0"),
        (".book[7]", "Row { bid: f64, ask: f64 }", "Row { bid: 7.05, ask: 7.07 }"),
        (".book[7].bid", "f64", "7.05"),
        (".small", "[u16; 3]", "[1, 2, 3]"),
        (".small[1]", "u16", "2"),
        (".levels[1]", "[f32; 5]", "[10.0, 11.0, 12.0, 13.0, 14.0]"),
        (".levels[1][2]", "f32", "12.0"),
        (".flags[8]", "bool", "true"),
    ] {
        let target = format!("prices/quotes{path}");
        assert_eq!(read(&target), format!("{target}: {of_type}\n{value}\n"));
    }
    // A name may have dots, and the export may be an array.
    assert_eq!(read("prices/limits.v2[1]"), "prices/limits.v2[1]: u32\n20\n");
    assert_eq!(read("prices/limits"), "prices/limits: Limits { v2: u32 }\nLimits { v2: 5 }\n");
    assert_eq!(read("prices/limits.v2"), "prices/limits.v2: [u32; 2]\n[10, 20]\n");
    assert_eq!(read("worker/3/count"), "worker/3/count: u64\n7\n");
}

#[test]
fn a_long_value_has_a_line_for_each_field_and_element() {
    let running = Running::start("long");
    let text = printed(running.read(&["prices/quotes"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("prices/quotes: Quotes { count: u64, open: bool, "), "{text}");
    assert_eq!(
        lines[1..4],
        ["Quotes {", "  count: 18446744073709551615", "  open: true"],
        "{text}"
    );
    assert!(lines.contains(&"  small: [1, 2, 3]"), "{text}");
    let book = lines.iter().position(|line| *line == "  book: [").unwrap();
    assert_eq!(lines[book + 1], "    [0] Row { bid: 0.05, ask: 0.07 }");
    assert_eq!(lines[book + 40], "    [39] Row { bid: 39.05, ask: 39.07 }");
    assert_eq!(lines[book + 41], "  ]");
    assert_eq!(lines.last(), Some(&"}"));
}

#[test]
fn values_are_printed_as_json() {
    let running = Running::start("json");
    let read = |target: &str| -> Value {
        let text = printed(running.read(&[target, "--json"]));
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!(
        read("prices/quotes.book[7]"),
        json!({
            "name": "prices/quotes.book[7]",
            "type": "Row { bid: f64, ask: f64 }",
            "value": { "bid": 7.05, "ask": 7.07 },
        })
    );
    let value = read("prices/quotes")["value"].clone();
    assert_eq!(value["count"], json!(u64::MAX));
    assert_eq!(value["open"], json!(true));
    assert_eq!(value["grade"], json!("😀"));
    assert_eq!(value["change"], json!(-3));
    assert_eq!(value["name"], json!("EUR\"USD\u{1b}"));
    assert_eq!(value["rates"], json!([1.0, "NaN", "-inf"]));
    assert_eq!(value["levels"][3][4], json!(34.0));
    assert_eq!(value["flags"].as_array().unwrap().len(), 9);
    assert_eq!(value["none"], json!([]));
    // Fields stand in the order of the struct.
    let row = printed(running.read(&["prices/quotes.book[0]", "--json"]));
    assert!(row.find("bid").unwrap() < row.find("ask").unwrap(), "{row}");
}

#[test]
fn a_node_lists_its_exports() {
    let running = Running::start("list");
    let text = printed(running.read(&["prices"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "export         size  type");
    assert_eq!(lines[1].split_whitespace().take(3).collect::<Vec<_>>(), ["quotes", "1.2", "KiB"]);
    assert!(lines[1].ends_with("none: [u8; 0] }"), "{text}");
    assert_eq!(lines[2], "limits         16 B  Limits { v2: u32 }");
    assert_eq!(lines[3], "limits.v2       8 B  [u32; 2]");
    assert_eq!(lines[4], "vast       40.0 MiB  [u64; 5242880]");
    assert_eq!(lines.len(), 5);
    // The slash belongs to the node's name.
    assert_eq!(printed(running.read(&["worker/3"])), "export  size  type\ncount    8 B  u64\n");
    assert_eq!(
        printed(running.read(&["worker/3", "--json"])),
        "{\"node\":\"worker/3\",\"exports\":[{\"name\":\"count\",\"type\":\"u64\",\"bytes\":8}]}\n"
    );
    assert_eq!(
        printed(running.read(&["idle"])),
        "idle exports nothing that this command may read\n"
    );
}

#[test]
fn an_error_names_what_there_is() {
    let running = Running::start("errors");
    let error = |target: &str| failed(running.read(&[target]), 1);
    assert_eq!(
        error("prices/quotes.book[7].size"),
        "`prices/quotes` has no such part: `book[7]` is of type `Row`, which has no field `size`; its fields: `bid`, \
         `ask`"
    );
    assert_eq!(
        error("prices/quotes.book[40].bid"),
        "`prices/quotes` has no such part: the index 40 is out of range: `book` is an array of 40 elements"
    );
    assert_eq!(
        error("prices/quotes.book[7"),
        "`prices/quotes` has no such part: `.book[7` is no path, from byte 7 on: write fields and indexes as in \
         `book[7].bid`"
    );
    assert_eq!(
        error("prices/qotes"),
        "there is no export `prices/qotes`: its node exports `quotes`, `limits`, `limits.v2`, `vast`"
    );
    let longer = error("prices/quotescount");
    assert!(longer.starts_with("there is no export `prices/quotescount`: "), "{longer}");
    assert_eq!(
        error("prices/quotes.none"),
        "`prices/quotes` has no such part: `none` is an array without content: there is nothing to read"
    );
    assert_eq!(
        error("idle/quotes"),
        "there is no export `idle/quotes`: its node exports nothing for this reader"
    );
    // The list does not show it.
    for target in ["prices/for.risk", "prices/for.risk.bid", "prices/for.risk[7]"] {
        assert_eq!(
            error(target),
            "`prices/for.risk` is exported for named nodes alone, and a handle has no name: import it by a node that its \
             owner has named in `export_for`"
        );
    }
    for target in ["nobody", "nobody/quotes", "worker/4/count"] {
        let error = error(target);
        let node = target.trim_end_matches("/quotes").trim_end_matches("/count");
        assert!(
            error.starts_with(&format!("there is no node `{node}`: nobody listens at ")),
            "{error}"
        );
    }
    assert_eq!(
        error("prices/vast"),
        "`prices/vast` has 41943048 bytes, and a read returns at most 33554432: read a part of it, such as one element"
    );
    assert_eq!(printed(running.read(&["prices/vast[5242879]"])), "prices/vast[5242879]: u64\n9\n");
    let watched = failed(running.read(&["prices", "--watch"]), 2);
    assert!(watched.starts_with("--watch needs an export, such as "), "{watched}");
}

/// A value that is watched.
struct Watched {
    child: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Watched {
    fn start(running: &Running, arguments: &[&str]) -> Watched {
        let mut child = running.command(arguments).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Watched { child, lines: Box::new(lines.map(Result::unwrap)) }
    }

    fn expect(&mut self, line: &str) {
        assert_eq!(self.lines.next().as_deref(), Some(line));
    }

    /// Returns the exit code and the message.
    fn ended(mut self) -> (Option<i32>, String) {
        assert_eq!(self.lines.next(), None);
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }
}

#[test]
fn a_watched_value_is_printed_when_it_has_changed() {
    let running = Running::start("watch");
    let mut text = Watched::start(&running, &["prices/quotes.small[1]", "--watch"]);
    let mut json = Watched::start(&running, &["prices/quotes.small[1]", "--watch", "--json"]);
    text.expect("prices/quotes.small[1]: u16");
    let object =
        |value: u16| json!({ "name": "prices/quotes.small[1]", "type": "u16", "value": value });
    let mut both = |value: u16| {
        text.expect(&value.to_string());
        let line: Value = serde_json::from_str(&json.lines.next().unwrap()).unwrap();
        assert_eq!(line, object(value));
    };
    let desk = running.desk();
    let desk = desk.blocking();
    // A value that is set anew, or beside which others change, has not changed.
    let unchanged = |value: u16| {
        for _ in 0..4 {
            desk.set_small([9, value, 9]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
    };
    both(2);
    unchanged(2);
    desk.set_small([1, 300, 3]).unwrap();
    both(300);
    unchanged(300);
    desk.set_small([1, 4, 3]).unwrap();
    both(4);
    let pid = rustix::process::Pid::from_child(&text.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(text.ended(), (Some(130), "upbeat: interrupted\n".to_owned()));
    desk.withdraw().unwrap();
    let (code, error) = json.ended();
    assert_eq!(code, Some(1));
    assert_eq!(
        error,
        "upbeat: `prices/quotes.small[1]` was withdrawn by its owner: read it again once it is exported again\n"
    );
}

#[test]
#[ignore = "takes 10 s: the step `exports` of .ci/run includes it"]
fn a_node_that_does_not_answer_is_given_up() {
    let running = Running::start("stopped");
    running.stop();
    let error = failed(running.read(&["prices/quotes.count"]), 1);
    assert!(
        error.contains("node `prices` (process ") && error.contains(" has not answered for "),
        "{error}"
    );
}
