//! Settings of a log.

use std::time::Duration;

/// When a write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// After its record is on stable storage. Writers that come together share a sync.
    #[default]
    Sync,
    /// The same, but the one who syncs first waits this long for others to join: answers come
    /// later, syncs are fewer. Nothing that was answered is lost.
    Group {
        /// The longest wait before the sync, in milliseconds.
        delay_ms: u32,
    },
    /// After its record was handed to the operating system. A kill loses nothing; a power cut
    /// or a crash of the machine may lose every write since the last sync. For bulk loads that
    /// can be repeated.
    None,
}

impl Level {
    /// The name used in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Group { .. } => "group",
            Self::None => "none",
        }
    }

    /// The level with this name, `delay_ms` being for `group` only; absent for unknown names.
    pub fn from_name(name: &str, delay_ms: u32) -> Option<Self> {
        [Self::Sync, Self::Group { delay_ms }, Self::None].into_iter().find(|l| l.name() == name)
    }

    pub(super) const fn delay(self) -> Duration {
        match self {
            Self::Group { delay_ms } => Duration::from_millis(delay_ms as u64),
            Self::Sync | Self::None => Duration::ZERO,
        }
    }
}

/// Settings of a log, with defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// When writes are answered.
    pub level: Level,
    /// A segment that would grow beyond this many bytes is followed by a new one. A single group
    /// of records may exceed it.
    pub segment_bytes: u64,
    /// Records that are submitted and not yet written stay below this many bytes, or the
    /// submitter writes them itself. A single record may exceed it.
    pub queue_bytes: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { level: Level::Sync, segment_bytes: 64 << 20, queue_bytes: 16 << 20 }
    }
}
