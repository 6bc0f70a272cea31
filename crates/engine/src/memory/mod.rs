//! The room `memory` (skeleton).
