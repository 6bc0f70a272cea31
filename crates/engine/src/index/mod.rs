//! The room `index` (skeleton).
