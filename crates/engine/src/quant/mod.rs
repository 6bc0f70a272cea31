//! The room `quant` (skeleton).
