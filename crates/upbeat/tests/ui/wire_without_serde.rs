//! The derives of serde are missing.

#[derive(upbeat::Wire)]
struct Neither {
    a: u64,
}

#[derive(serde::Serialize, upbeat::Wire)]
struct Half<T> {
    a: T,
}

fn uses<T: upbeat::Wire>() {}

fn main() {
    uses::<Neither>();
}
