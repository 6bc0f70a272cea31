//! Backends by the names that users choose them by.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::backend::Backend;
use super::best;
use super::injected::{Injected, Speed};
use crate::types::UnknownName;

/// Backends of the file system, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// [`best`].
    #[default]
    Auto,
    /// io_uring.
    IoUring,
    /// libaio.
    Libaio,
    /// The pread pool.
    Threads,
    /// Memory that is as slow as told, for measurements; `injected:LATENCY_US[:RATE]`.
    Injected(Speed),
}

impl BackendChoice {
    /// All choices that read the disk.
    pub const ALL: [Self; 4] = [Self::Auto, Self::IoUring, Self::Libaio, Self::Threads];

    /// The name used on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::IoUring => "io_uring",
            Self::Libaio => "libaio",
            Self::Threads => "threads",
            Self::Injected(_) => "injected",
        }
    }

    /// The backend; [`best`], with a warning, where this process may not use it.
    pub fn backend(self) -> Arc<dyn Backend> {
        match self {
            Self::Auto | Self::IoUring => best(),
            Self::Libaio => libaio_or_best(),
            Self::Threads => Arc::new(super::threads::Threads::new()),
            Self::Injected(speed) => Arc::new(Injected::new(speed)),
        }
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let Self::Injected(speed) = self { write!(f, ":{speed}") } else { Ok(()) }
    }
}

impl FromStr for BackendChoice {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        if let Some(speed) = s.strip_prefix("injected:").and_then(|speed| speed.parse().ok()) {
            return Ok(Self::Injected(speed));
        }
        let found = Self::ALL.into_iter().find(|choice| choice.name() == s);
        found.ok_or_else(|| UnknownName::new("backend", s, "auto, io_uring, libaio, threads"))
    }
}

#[cfg(target_os = "linux")]
fn libaio_or_best() -> Arc<dyn Backend> {
    match super::libaio::Libaio::new() {
        Ok(backend) => Arc::new(backend),
        Err(error) => {
            let other = best();
            tracing::warn!(%error, instead = other.name(), "libaio is not available");
            other
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn libaio_or_best() -> Arc<dyn Backend> {
    best()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_has_a_backend_and_its_name_leads_to_it() {
        for choice in BackendChoice::ALL {
            assert_eq!(choice.name().parse(), Ok(choice));
            let backend = choice.backend();
            // Where a choice is refused, the best one takes its place.
            assert!([choice.name(), best().name()].contains(&backend.name()));
        }
        let slow: BackendChoice = "injected:100:20000".parse().expect("a speed");
        assert_eq!((slow.to_string().as_str(), slow.name()), ("injected:100:20000", "injected"));
        assert_eq!(slow.backend().name(), "injected");
        assert!("injected".parse::<BackendChoice>().is_err(), "no speed is meant by itself");
        let error = "spdk".parse::<BackendChoice>().expect_err("no backend");
        assert!(error.to_string().contains("libaio"), "{error}");
    }
}
