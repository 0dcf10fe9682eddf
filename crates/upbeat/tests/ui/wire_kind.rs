//! Types that cannot be `Wire`.

#[derive(upbeat::Wire)]
union Either {
    a: u64,
    b: f64,
}

#[derive(upbeat::Wire)]
struct Borrows<'a> {
    text: &'a str,
}

#[derive(Clone, Copy, upbeat::Wire)]
#[wire(plain)]
enum Cases {
    A,
    B,
}

fn main() {}
