//! Tests the page of `upbeat bill --html` in a real browser: a headless Chromium from Debian's packages.
//!
//! Without Chromium the test prints that it is skipped, or fails if `CI` is set. `UPBEAT_KEEP=<directory>`
//! keeps the page and the pictures in that directory.

/// Work that a test leaves out, as the transport's tests record it.
#[path = "../../transport/tests/left_out/mod.rs"]
mod left_out;
mod program;

use left_out::leave_out;
use program::{Pages, Scratch, bill, printed, program};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use upbeat_core::bill::way::CALL;

/// The time in seconds that the browser has for a page.
const SECONDS: &str = "40";

/// The sizes of common windows: a desktop, and a phone or half a screen.
const WINDOWS: [(u32, u32); 2] = [(1280, 900), (480, 900)];

/// Returns an installed browser, or `None` if the test may be skipped.
fn chromium() -> Option<&'static str> {
    let there = |name: &&str| {
        let version = Command::new(name).arg("--version").stdin(Stdio::null()).output();
        version.is_ok_and(|output| output.status.success())
    };
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(there);
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "no chromium is installed: apt install chromium");
        leave_out("no chromium is installed, so the page is not rendered");
    }
    found
}

/// A rendered page: the document after its scripts ran, and the errors of the scripts.
struct Rendered {
    document: String,
    complaints: Vec<String>,
}

struct Browser {
    name: &'static str,
    scratch: Scratch,
}

impl Browser {
    fn run(&self, (width, height): (u32, u32), arguments: &[&str], page: &str) -> (String, String) {
        let output = Command::new("timeout")
            .args(["--kill-after=5", SECONDS, self.name])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--hide-scrollbars", "--enable-logging=stderr", "--virtual-time-budget=3000"])
            .arg(format!("--user-data-dir={}", self.scratch.path("profile")))
            .arg(format!("--window-size={width},{height}"))
            .args(arguments)
            .arg(format!("file://{page}"))
            .env("HOME", self.scratch.path("."))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
        assert!(output.status.success(), "{}: {}\n{err}", self.name, output.status);
        (out, err)
    }

    fn render(&self, window: (u32, u32), page: &str) -> Rendered {
        let (document, err) = self.run(window, &["--dump-dom"], page);
        let complaints = err.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned);
        Rendered { document, complaints: complaints.collect() }
    }

    /// Renders the page with an additional script at its end.
    fn with_script(&self, page: &str, script: &str) -> String {
        let html = std::fs::read_to_string(page).unwrap();
        assert!(html.contains("</body>"));
        let html = html.replace("</body>", &format!("<script>{script}</script></body>"));
        let path = self.scratch.path("with-script.html");
        std::fs::write(&path, html).unwrap();
        path
    }

    /// Takes a picture of the page. Returns its width, height and bytes.
    fn picture(&self, window: (u32, u32), page: &str) -> (u32, u32, Vec<u8>) {
        let path = self.scratch.path(&format!("{}x{}.png", window.0, window.1));
        self.run(window, &[&format!("--screenshot={path}")], page);
        let bytes = std::fs::read(path).unwrap();
        assert!(bytes.starts_with(b"\x89PNG"));
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        (number(16), number(20), bytes)
    }
}

/// Returns the text of a document without its scripts and tags.
fn words(document: &str) -> String {
    let body = document.split("<body").nth(1).unwrap().split("<script").next().unwrap();
    let (mut words, mut inside) = (String::new(), true);
    for one in body.chars() {
        match one {
            '<' => inside = true,
            '>' => inside = false,
            one if !inside => words.push(one),
            _ => {}
        }
    }
    words
}

#[test]
fn the_page_names_the_causes_of_slow_calls() {
    let Some(name) = chromium() else { return };
    let browser = Browser { name, scratch: Scratch::new("page") };
    let nodes = program("page");
    let (page, before) = (browser.scratch.path("bill.html"), browser.scratch.path("before.json"));
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    printed(&bill(
        &[&names[..], &["--seconds", "0", "--all", "--html", &page, "--save", &before]].concat(),
    ));

    for window in WINDOWS {
        let (width, height, picture) = browser.picture(window, &page);
        assert_eq!((width, height), window);
        assert!(picture.len() > 20_000, "an empty page: {} bytes", picture.len());
    }
    let rendered = browser.render(WINDOWS[0], &page);
    assert_eq!(rendered.complaints, [] as [String; 0]);
    let words = words(&rendered.document);
    for told in [
        "us waiting for the lock accounts",
        "us running the handler, up to 310 us without a pause and beyond its budget",
        "us waking quotes, which slept",
        "us waiting for room in a full lane to page/sink",
        "page/sink lost 12.0% of its bets on handlers",
        "A typical message:",
        "Slowest of 600 samples:",
    ] {
        assert!(words.contains(told), "{told}\n{words}");
    }
    assert!(!rendered.document.contains("id=\"picker\" hidden"), "its script has run");

    // Nothing overflows to the right, on a narrow window either.
    let measure = "document.body.dataset.over = document.documentElement.scrollWidth - innerWidth";
    let measured = browser.with_script(&page, measure);
    for window in WINDOWS {
        let document = browser.render(window, &measured).document;
        assert!(
            document.contains("data-over=\"0\""),
            "{window:?} {:?}",
            document.split("data-over").nth(1)
        );
    }
    compares_a_file(&browser, &page, &before);
    keep(&[
        &page,
        &before,
        &browser.scratch.path("1280x900.png"),
        &browser.scratch.path("480x900.png"),
    ]);
}

/// Checks that the page compares itself with a chosen file.
fn compares_a_file(browser: &Browser, page: &str, before: &str) {
    let text = std::fs::read_to_string(before).unwrap().replace('<', "\\u003c");
    let choose = format!(
        "const chosen = new DataTransfer();\
         chosen.items.add(new File([JSON.stringify({text})], 'before.json'));\
         document.getElementById('file').files = chosen.files;\
         document.getElementById('file').dispatchEvent(new Event('change'));"
    );
    let chosen = browser.render(WINDOWS[0], &browser.with_script(page, &choose));
    assert_eq!(chosen.complaints, [] as [String; 0]);
    assert!(words(&chosen.document).contains("4 of 4 methods are in both."));
    let compared = chosen.document.split("id=\"compared\"").nth(1).unwrap();
    assert!(compared.contains("<table>") && compared.contains("+0.0%"), "{compared}");
    let wrong = choose.replace("\"upbeat bill\"", "\"other\"");
    let chosen = browser.render(WINDOWS[0], &browser.with_script(page, &wrong));
    assert!(words(&chosen.document).contains("cannot be compared"));
}

#[test]
fn names_of_programs_are_text_in_the_browser() {
    let Some(name) = chromium() else { return };
    let browser = Browser { name, scratch: Scratch::new("page-hostile") };
    let node = Pages::new("hostile/page<img src=x onerror=console.log(1)>");
    let evil = "</script><script>console.log('evil')</script><b onclick=1>\"'`{{style}}";
    let text = format!("{evil}\n{evil}\n{evil}\u{202e}\u{1b}[2J");
    let subject = node.samples.subject(&text).unwrap();
    let lock = node.samples.subject(evil).unwrap();
    (0..50).for_each(|n| node.message(subject, CALL, (100_000 * n, lock), |_, _| Some(5_000)));
    let page = browser.scratch.path("hostile.html");
    printed(&bill(&[&node.name, "--seconds", "0", "--all", "--html", &page]));
    let rendered = browser.render(WINDOWS[1], &page);
    assert_eq!(rendered.complaints, [] as [String; 0]);
    assert_eq!(rendered.document.matches("<script").count(), 2);
    assert!(!rendered.document.contains("<img") && !rendered.document.contains("<b onclick"));

    // The check would have seen errors of scripts.
    let noisy = browser.with_script(&page, "nothing.at.all()");
    assert!(!browser.render(WINDOWS[1], &noisy).complaints.is_empty());
}

/// Copies files into the directory `UPBEAT_KEEP`, if it is set.
fn keep(files: &[&str]) {
    let Some(to) = std::env::var_os("UPBEAT_KEEP").map(PathBuf::from) else { return };
    std::fs::create_dir_all(&to).unwrap();
    for file in files {
        let name = PathBuf::from(file);
        std::fs::copy(&name, to.join(name.file_name().unwrap())).unwrap();
    }
}
