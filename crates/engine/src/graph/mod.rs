//! The room `graph` (skeleton).
