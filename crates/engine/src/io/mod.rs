//! The room `io` (skeleton).
