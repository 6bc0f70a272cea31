//! The room `distance` (skeleton).
