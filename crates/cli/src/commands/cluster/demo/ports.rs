//! Ports for servers on this machine.

use std::net::TcpListener;

use anyhow::{Context, Result};

/// Ports that are free just now.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>> {
    // All at once, or one port would be told twice.
    let bound: std::io::Result<Vec<_>> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect();
    let bound = bound.context("looking for free ports")?;
    let port = |bound: &TcpListener| Ok(bound.local_addr()?.port());
    let ports: std::io::Result<Vec<_>> = bound.iter().map(port).collect();
    ports.context("looking for free ports")
}
