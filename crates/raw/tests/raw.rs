//! Devices, pollers, ports and the store, from outside: over simulated devices and over files.

#[path = "raw/copies.rs"]
mod copies;
#[path = "raw/crash.rs"]
mod crash;
#[path = "raw/loss.rs"]
mod loss;
#[path = "raw/markers.rs"]
mod markers;
#[path = "raw/pins.rs"]
mod pins;
#[path = "raw/ports.rs"]
mod ports;
#[path = "raw/rig.rs"]
mod rig;
