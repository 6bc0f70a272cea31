//! The program `pipeann_milvus_server`; see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    pipeann_server::run()
}
