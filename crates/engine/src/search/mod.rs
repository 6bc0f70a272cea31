//! The room `search` (skeleton).
