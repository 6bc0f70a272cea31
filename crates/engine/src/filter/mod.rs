//! The room `filter` (skeleton).
