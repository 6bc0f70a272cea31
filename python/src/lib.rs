//! Python binding (skeleton).
