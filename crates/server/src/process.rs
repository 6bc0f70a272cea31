//! What every program of pipeann does first and last: its allocator, its log on standard error, and
//! how it ends.

use std::process::ExitCode;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::{allocator, interrupt};

/// To be called before there are other threads, once.
pub fn begin() {
    allocator::keep_little();
    // The engine warns of little, such as io_uring being blocked; people should see it. Of raw devices
    // they see what is done with them, too.
    let shown = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target("pipeann_raw", LevelFilter::INFO)
        .with_target("pipeann_engine::io::raw", LevelFilter::INFO);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(shown)).init();
}

/// The exit code: 0, 1 for an error, which is told in one line with its causes, 130 for Ctrl-C.
pub fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Says what went wrong in one line, and chooses the exit code.
fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<interrupt::Interrupted>() {
        eprintln!("pipeann: interrupted");
        return ExitCode::from(interrupt::EXIT_CODE);
    }
    let closed_pipe = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<std::io::Error>().is_some_and(closed_pipe) {
        // Whoever read the output has seen enough.
        return ExitCode::SUCCESS;
    }
    eprintln!("pipeann: {}", one_line(error));
    ExitCode::FAILURE
}

/// The error and its causes, each once: some errors end with the words of their cause.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(|c| c.to_string().replace('\n', " ")) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    #[test]
    fn causes_are_told_once() {
        let error = anyhow!("too short").context("a.bin: too short").context("run `x`");
        assert_eq!(super::one_line(&error), "run `x`: a.bin: too short");
        let error = anyhow!("two\nlines").context("why");
        assert_eq!(super::one_line(&error), "why: two lines");
    }
}
