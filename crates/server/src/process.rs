//! What every program of pipeann does first and last: its allocator, its log on standard error, what it
//! says to people, and how it ends.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::{allocator, interrupt};

/// Names what is told on standard error, as `warn,pipeann_db=debug`.
const LOG: &str = "RUST_LOG";
/// What is told unless somebody says otherwise. The engine warns of little, such as io_uring being
/// blocked; people should see it. Of raw devices they see what is done with them, too.
const USUAL_LOG: &str = "warn,pipeann_raw=info,pipeann_engine::io::raw=info";

/// To be called before there are other threads, once.
pub fn begin() {
    allocator::keep_little();
    let asked = asked_log();
    let shown = shown(&asked).unwrap_or_else(|why| {
        say(format_args!("{LOG}={asked} is not understood, and has no effect: {why}"));
        EnvFilter::new(USUAL_LOG)
    });
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(shown)).init();
}

#[expect(
    clippy::disallowed_methods,
    reason = "it holds before there are options, for what reads them"
)]
fn asked_log() -> String {
    std::env::var(LOG).unwrap_or_default()
}

/// What is told where somebody asks for this, or for nothing.
fn shown(asked: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    EnvFilter::builder().parse(if asked.is_empty() { USUAL_LOG } else { asked })
}

/// Says a line on standard error. Who listens there may have gone, which ends nothing.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "pipeann: {line}");
}

/// Says a line on standard output, likewise.
pub(crate) fn tell(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
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
        say("interrupted");
        return ExitCode::from(interrupt::EXIT_CODE);
    }
    let closed_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref::<io::Error>().is_some_and(closed_pipe) {
        // Whoever read the output has seen enough.
        return ExitCode::SUCCESS;
    }
    say(one_line(error));
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

    #[test]
    fn what_is_told_is_asked_for_as_in_other_programs() {
        assert!(super::shown("").unwrap().to_string().contains("pipeann_raw=info"));
        for asked in ["debug", "pipeann_db=trace", "warn,pipeann_milvus::service=debug"] {
            assert_eq!(super::shown(asked).unwrap().to_string().len(), asked.len(), "{asked}");
        }
        assert!(super::shown("pipeann_db=loudly").is_err());
    }
}
