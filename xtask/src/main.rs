//! Project checks (skeleton).
fn main() {}
