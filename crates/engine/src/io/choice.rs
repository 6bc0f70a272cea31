//! Backends by the names that users choose them by.

use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use super::backend::Backend;
use super::best;
use super::error::IoError;
use super::injected::{Injected, Speed};
use super::raw::Raw;
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
    /// Pages from raw SSDs, everything else by [`best`]; which SSDs is said by `spdk_bdevs.json`.
    Spdk,
    /// Memory that is as slow as told, for measurements; `injected:LATENCY_US[:RATE]`.
    Injected(Speed),
}

impl BackendChoice {
    /// All choices by name alone.
    pub const ALL: [Self; 5] = [Self::Auto, Self::IoUring, Self::Libaio, Self::Threads, Self::Spdk];

    /// The name used on the command line and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::IoUring => "io_uring",
            Self::Libaio => "libaio",
            Self::Threads => "threads",
            Self::Spdk => "spdk",
            Self::Injected(_) => "injected",
        }
    }

    /// The backend; [`best`], with a warning, where this process may not use one of the kernel's.
    /// `spdk_config` lists the SSDs; without it a file of the working directory does.
    ///
    /// # Errors
    /// [`IoError::Raw`] where SSDs cannot be used. They are not replaced by anything.
    pub fn backend(self, spdk_config: Option<&Path>) -> Result<Arc<dyn Backend>, IoError> {
        Ok(match self {
            Self::Spdk => Raw::shared(spdk_config, best())?,
            Self::Auto | Self::IoUring => best(),
            Self::Libaio => libaio_or_best(),
            Self::Threads => Arc::new(super::threads::Threads::new()),
            Self::Injected(speed) => Arc::new(Injected::new(speed)),
        })
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
        found.ok_or_else(|| UnknownName::new("backend", s, "auto, io_uring, libaio, threads, spdk"))
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
            if choice == BackendChoice::Spdk {
                let error = choice.backend(Some("absent.json".as_ref())).expect_err("no list");
                assert!(error.to_string().contains("absent.json"), "{error}");
                continue;
            }
            let backend = choice.backend(None).expect("nothing that can be refused");
            // Where a choice is refused, the best one takes its place.
            assert!([choice.name(), best().name()].contains(&backend.name()));
        }
        let slow: BackendChoice = "injected:100:20000".parse().expect("a speed");
        assert_eq!((slow.to_string().as_str(), slow.name()), ("injected:100:20000", "injected"));
        assert_eq!(slow.backend(None).map(|b| b.name()).ok(), Some("injected"));
        assert!("injected".parse::<BackendChoice>().is_err(), "no speed is meant by itself");
        let error = "nvme".parse::<BackendChoice>().expect_err("no backend");
        assert!(error.to_string().contains("libaio"), "{error}");
    }
}
