//! The command `pipeann-lab`; see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipeann_lab::run()
}
