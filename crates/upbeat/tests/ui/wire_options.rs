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
#[wire]
struct Nothing {
    a: u64,
}

#[derive(upbeat::Wire)]
#[wire = "plain"]
struct Text {
    a: u64,
}

#[derive(upbeat::Wire)]
#[wire("plain")]
struct Literal {
    a: u64,
}

#[derive(upbeat::Wire)]
#[wire(name = 5, version, plain = true)]
struct Values {
    a: u64,
}

#[derive(upbeat::Wire)]
#[wire(name = "a", name = "b")]
#[wire(version = 5_000_000_000)]
struct Twice {
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
    #[wire(opaque = 1)]
    d: u64,
    #[wire]
    e: u64,
}

#[derive(upbeat::Wire)]
enum Cases {
    #[wire(name = "B")]
    A,
}

#[derive(upbeat::Wire)]
#[wire(plain, whole)]
struct PlainAndWhole {
    a: u64,
}

fn main() {}
