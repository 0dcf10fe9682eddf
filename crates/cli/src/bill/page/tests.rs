use super::*;
use crate::bill::compare::compare;
use crate::bill::example;
use crate::bill::findings::findings;

fn of(recording: &Recording) -> String {
    let compared = compare(recording, recording);
    page(recording, &findings(recording), Some(&compared))
}

#[test]
fn the_page_has_every_finding() {
    let html = of(&example::recording());
    for told in [
        "waiting for the lock <code><bdi>accounts</bdi></code>",
        "running the handler, up to 310 us without a pause and beyond its budget",
        "waking <code><bdi>quotes</bdi></code>, which slept",
        "waiting for room in a full lane to <code><bdi>sink</bdi></code>",
        "lost 12.0% of its bets on handlers",
        "<details id=\"m0\" class=\"method\" open>",
        "A typical message:",
        "Slowest of 600 samples:",
        "+0.0%",
        "2023-11-14 22:13 UTC",
    ] {
        assert!(html.contains(told), "{told}");
    }
    assert!(!html.contains("{{"));
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let html = of(&example::recording());
    for never in ["http:", "https:", "src=", "@import", "url(", "<link", "<iframe"] {
        assert!(!html.contains(never), "{never}");
    }
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn hostile_names_are_text() {
    let evil = "</script><script>alert(1)</script>\"'><img onerror=x>`{{style}}&";
    let mut recording = example::recording();
    recording.nodes.iter_mut().for_each(|node| node.name = evil.into());
    for subject in &mut recording.subjects {
        let Subject { from, to, service, method, samples, .. } = subject;
        [from, to, service, method, &mut samples.means_from]
            .into_iter()
            .for_each(|text| *text = evil.into());
        subject.told.iter_mut().for_each(|told| told.lock = Some(evil.into()));
        subject.causes.iter_mut().for_each(|delay| delay.name = Some(evil.into()));
    }
    let html = of(&recording);
    assert!(!html.contains("<script>alert") && !html.contains("<img"), "it is markup");
    assert_eq!(html.matches("<script").count(), 2);
    assert_eq!(html.matches("</script").count(), 2);
    assert_eq!(html.matches(":root {").count(), STYLE.matches(":root {").count());
    assert!(html.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn every_element_is_closed() {
    let html = of(&example::recording());
    let body = &html[html.find("<body").unwrap()..html.find("<script id").unwrap()];
    for name in ["div", "span", "table", "tbody", "tr", "td", "details", "figure", "svg", "i", "li"]
    {
        let opened =
            body.matches(&format!("<{name} ")).count() + body.matches(&format!("<{name}>")).count();
        assert_eq!(opened, body.matches(&format!("</{name}>")).count(), "{name}");
    }
}

#[test]
fn among_many_methods_only_late_ones_are_unfolded() {
    let mut recording = example::recording();
    let calm = Subject {
        slow: recording.subjects[0].typical,
        causes: Vec::new(),
        ..recording.subjects[0].clone()
    };
    recording.subjects.extend(std::iter::repeat_n(calm, UNFOLDED));
    let html = of(&recording);
    assert_eq!(html.matches("class=\"method\" open").count(), 4);
    assert_eq!(html.matches("class=\"method\"").count(), 4 + UNFOLDED);
}

#[test]
fn seconds_are_formatted_as_dates() {
    assert_eq!(when(0), "1970-01-01 00:00 UTC");
    assert_eq!(when(951_782_399), "2000-02-28 23:59 UTC");
    assert_eq!(when(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(when(1_735_689_599), "2024-12-31 23:59 UTC");
    when(u64::MAX);
}
