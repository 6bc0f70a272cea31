//! Settings of a driver.

/// See the module's description.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// Queries in flight, 1 to 64.
    pub queries: usize,
    /// Reads in flight at most.
    pub depth: usize,
    /// Let a kernel thread submit (burns a core).
    pub sqpoll: bool,
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self { queries: 16, depth: 256, sqpoll: false }
    }
}
