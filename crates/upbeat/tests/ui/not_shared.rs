//! Fields of types that cannot be exported: each is told once.

pub struct Mine;

#[derive(upbeat::Shared)]
pub struct Quotes {
    pub count: u64,
    pub names: Vec<String>,
    pub mine: Mine,
    pub size: usize,
    pub good: [u8; 4],
}

fn export(node: &upbeat::Node) {
    let _ = node.export("text", String::new());
}

fn write(node: &upbeat::Node, quotes: upbeat::Import<Quotes>) {
    // A reader writes nothing.
    quotes.count().set(1);
    let _ = node;
}

fn main() {}
