//! The derives of zerocopy are missing.

#[derive(upbeat::Wire)]
#[wire(plain)]
struct None {
    a: u64,
}

#[derive(Clone, Copy, zerocopy::IntoBytes, zerocopy::Immutable, upbeat::Wire)]
#[repr(C)]
#[wire(plain)]
struct Half {
    a: u64,
}

fn uses<T: upbeat::Wire>() {}

fn main() {
    uses::<None>();
}
