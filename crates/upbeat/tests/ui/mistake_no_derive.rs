//! An argument or a result of a type without the derive is named itself, also inside of other types.

pub struct Point {
    pub x: u32,
}

#[upbeat::service]
pub trait Map {
    async fn paths(&self, near: u32) -> Vec<Option<Point>>;
}

fn main() {}
