//! Ctrl-C: the first one asks the command to stop at the next chance, the second ends it at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of a command that was interrupted: 128 + SIGINT, as shells have it.
pub const EXIT_CODE: u8 = 130;

/// The command was stopped from outside.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// A flag that the first SIGINT or SIGTERM raises.
///
/// # Errors
/// Where the handler cannot be installed.
pub fn flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the flag is still down when the first signal arrives here.
        let exit = i32::from(EXIT_CODE);
        signal_hook::flag::register_conditional_shutdown(signal, exit, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .context("the handler for Ctrl-C cannot be installed")?;
    }
    Ok(flag)
}

/// Err where the flag is up.
///
/// # Errors
/// [`Interrupted`].
pub fn check(flag: &AtomicBool) -> Result<(), Interrupted> {
    if flag.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}
