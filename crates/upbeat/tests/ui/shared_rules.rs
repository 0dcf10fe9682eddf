//! Types that cannot be exported are told what to write.

#[derive(upbeat::Shared)]
pub enum Side {
    Bid,
    Ask,
}

#[derive(upbeat::Shared)]
pub union Bits {
    pub whole: u64,
}

#[derive(upbeat::Shared)]
pub struct Pair(u64, u64);

#[derive(upbeat::Shared)]
pub struct Nothing;

#[derive(upbeat::Shared)]
pub struct Many<T, const N: usize> {
    pub items: [T; N],
}

#[derive(upbeat::Shared)]
pub struct Methods {
    pub read: u64,
    pub lock: u64,
    pub name: u64,
}

#[derive(upbeat::Shared)]
#[shared(nme = "other")]
pub struct Options {
    #[shared(skip)]
    pub count: u64,
}

#[derive(upbeat::Shared)]
pub enum Order {
    Limit(u64),
    Market,
}

fn main() {}
