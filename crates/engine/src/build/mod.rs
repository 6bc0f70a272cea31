//! The room `build` (skeleton).
