//! The README shows the examples as they are.

#[test]
fn every_piece_of_rust_in_the_readme_is_in_an_example() {
    let readme = include_str!("../../../../README.md");
    let examples = [
        include_str!("../../examples/counter/mod.rs"),
        include_str!("../../examples/counter_server.rs"),
        include_str!("../../examples/counter_client.rs"),
        include_str!("../../examples/counter_handle.rs"),
        include_str!("../../examples/counter_hosts.rs"),
    ];
    let pieces: Vec<&str> =
        readme.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(pieces.len(), 6);
    for piece in pieces {
        let shown = examples.iter().any(|example| example.contains(piece));
        assert!(shown, "no example has:\n{piece}");
    }
}

#[test]
fn every_page_of_the_guide_is_compiled() {
    let compiled = include_str!("../../src/guide.rs");
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide");
    for entry in std::fs::read_dir(guide).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        if text.contains("```rust") {
            assert!(compiled.contains(&format!("\"{name}\"")), "src/guide.rs does not name {name}");
        }
    }
}
