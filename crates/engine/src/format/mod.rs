//! The room `format` (skeleton).
