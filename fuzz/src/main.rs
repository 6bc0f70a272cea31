//! The fuzzer: libFuzzer over the target that `PIPEANN_FUZZ_TARGET` names.
//!
//! One program for all targets, so that it is compiled and linked once. `cargo xtask fuzz` builds
//! it with counters of coverage, starts it for each target and reads what it prints.
#![no_main]
#![expect(clippy::disallowed_methods, reason = "main and the command line are libFuzzer's")]

use std::sync::OnceLock;

use pipeann_fuzz::{FuzzTarget, target};

static TARGET: OnceLock<&'static FuzzTarget> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("PIPEANN_FUZZ_TARGET").unwrap_or_default();
        let Some(target) = target(&name) else {
            eprintln!("no target `{name}`; name one in PIPEANN_FUZZ_TARGET");
            std::process::exit(2);
        };
        pipeann_fuzz::counting::report_growth();
        TARGET.get_or_init(|| target);
    },
    |data: &[u8]| {
        TARGET.get().expect("set before the first input").run(data);
    }
);
