//! Options that there are not.

#[derive(upbeat::Wire)]
#[wire(plane)]
struct Unknown {
    a: u64,
}

#[derive(upbeat::Wire)]
#[wire(opaque = "a/1")]
struct Misplaced {
    a: u64,
}

#[derive(upbeat::Wire)]
#[wire(name = "two words")]
struct Name {
    a: u64,
}

#[derive(upbeat::Wire)]
#[wire(version = "2")]
struct Version {
    a: u64,
}

#[derive(upbeat::Wire)]
struct Fields {
    #[wire(skip)]
    a: u64,
    #[wire(opaque)]
    b: u64,
    #[wire(opaque = "name")]
    c: u64,
}

#[derive(upbeat::Wire)]
enum Cases {
    #[wire(name = "B")]
    A,
}

fn main() {}
