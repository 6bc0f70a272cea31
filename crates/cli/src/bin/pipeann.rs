//! The command `pipeann`; see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipeann_cli::run()
}
