//! The repository's own checks.

fn main() {}
