//! pipeann command (skeleton).
fn main() {}
