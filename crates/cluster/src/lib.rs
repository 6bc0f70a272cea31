//! One graph on many servers: how a query travels to its data.
//!
//! [`wire`] turns messages into bytes and back, [`transport`] carries them, [`placement`] says which
//! server owns which partition, [`relay`] is the protocol, and [`walker`] joins it to the engine,
//! which alone knows what a state holds.

pub mod placement;
pub mod relay;
pub mod transport;
pub mod walker;
pub mod wire;
