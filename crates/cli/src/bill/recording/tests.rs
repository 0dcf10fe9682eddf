use super::*;
use crate::bill::example;

#[test]
fn a_saved_recording_is_loaded_unchanged() {
    let recording = example::recording();
    let text = serde_json::to_string(&recording).unwrap();
    let again = Recording::parse(&text).unwrap();
    // The recordings are compared as text, because the file stores numbers as text.
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    assert_eq!(again.subjects.len(), recording.subjects.len());
}

#[test]
fn an_invalid_recording_is_refused_with_the_reason() {
    let text = serde_json::to_string(&example::recording()).unwrap();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Recording::parse(&text.replacen(from, to, 1)).unwrap_err()
    };
    assert!(Recording::parse("{}").unwrap_err().contains("format"));
    assert!(refused("\"upbeat bill\"", "\"other\"").contains("`other`"));
    assert!(refused("\"version\":2", "\"version\":3").contains("version 3"));
    assert!(refused("\"way\":\"call\"", "\"way\":\"swim\"").contains("unknown way `swim`"));
    assert!(refused("\"item\":\"room\"", "\"item\":\"air\"").contains("unknown item `air`"));
    assert!(refused("\"leg\":\"caller\"", "\"leg\":\"sea\"").contains("unknown leg `sea`"));
    assert!(refused("\"phases\":[", "\"phases\":[1.0,").contains("is incomplete"));
}

#[test]
fn control_characters_of_programs_are_replaced() {
    assert_eq!(cleaned("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
    assert_eq!(cleaned("a\u{202e}b\u{2066}c"), "a\u{fffd}b\u{fffd}c");
    assert_eq!(cleaned("Größe <b> 漢字"), "Größe <b> 漢字");
    let mut recording = example::recording();
    recording.subjects[0].method = "x\u{1b}]0;y".into();
    recording.nodes[0].name = "\u{7}".into();
    let again = Recording::parse(&serde_json::to_string(&recording).unwrap()).unwrap();
    assert_eq!(again.subjects[0].method, "x\u{fffd}]0;y");
    assert_eq!(again.nodes[0].name, "\u{fffd}");
}

#[test]
fn methods_are_filtered_by_a_part_of_their_title() {
    let mut recording = example::recording();
    recording.keep("bank.T").unwrap();
    assert_eq!(recording.subjects.len(), 1);
    let error = recording.keep("unicorn").unwrap_err().to_string();
    assert!(error.contains("`unicorn`") && error.contains("`Bank.transfer`"), "{error}");
}

#[test]
fn an_index_without_a_story_gives_none() {
    let mut recording = example::recording();
    recording.subjects[0].slow = Some(usize::MAX);
    assert_eq!(recording.subjects[0].slow(), None);
}
