//! How an index is opened.

use std::sync::Arc;

use crate::io::Backend;
use crate::memory::{Accountant, MemoryLimit};

/// Which pages are kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resident {
    /// None: the least memory.
    #[default]
    None,
    /// As many as the accountant's limit leaves room for; none where there is no limit. They give
    /// way to whatever else is reserved, and are shared by use among the indexes opened so.
    Remaining,
    /// All, read when the index is opened.
    All,
}

/// How to open an index.
#[derive(Clone)]
pub struct OpenOptions {
    /// How pages are read; `None` chooses io_uring, or a pool of threads where it is blocked.
    pub backend: Option<Arc<dyn Backend>>,
    /// Read past the page cache of the operating system (O_DIRECT).
    pub direct: bool,
    /// Where memory is reserved.
    pub accountant: Arc<Accountant>,
    /// Pages to keep in memory.
    pub resident: Resident,
    /// Bytes of the limit that resident pages leave free for other uses.
    pub leave_bytes: u64,
    /// Read absent pages into memory behind searches, where there is room for them; without it
    /// only those that searches read stay.
    pub warm: bool,
    /// Let a kernel thread submit reads; burns a core.
    pub sqpoll: bool,
    /// Numbers of the partitions whose pages are read here; `None`: all. Of the others nothing but
    /// their codes is opened, and a search that needs their pages ends with
    /// [`SearchError::NotHere`](crate::search::SearchError::NotHere) or goes on elsewhere.
    pub own: Option<Arc<[u32]>>,
    /// Where several servers read all partitions: those that searches which go home are to begin at
    /// this one for; none where they begin wherever they come.
    pub home: Option<Arc<[u32]>>,
    /// Node ids beyond those on disk that codes can be put for. Their memory is not reserved
    /// here, and not touched before it is used.
    pub spare_slots: u32,
    /// Codes that are ranked in the time of one page read: what decides whether a search among few
    /// rows ranks them all or walks the graph. `None` learns it from the searches, so that the same
    /// search may be done either way at different times.
    pub codes_per_read: Option<u32>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            backend: None,
            direct: true,
            accountant: Accountant::process(),
            resident: Resident::None,
            leave_bytes: 0,
            warm: true,
            sqpoll: false,
            own: None,
            home: None,
            spare_slots: 0,
            codes_per_read: None,
        }
    }
}

impl From<MemoryLimit> for Resident {
    /// Pages fill what a limit leaves.
    fn from(limit: MemoryLimit) -> Self {
        match limit {
            MemoryLimit::Floor => Self::None,
            MemoryLimit::All => Self::All,
            MemoryLimit::Bytes(_) => Self::Remaining,
        }
    }
}

impl OpenOptions {
    /// The default under a limit for this index alone.
    pub fn under(limit: MemoryLimit) -> Self {
        Self { accountant: limit.accountant(), resident: limit.into(), ..Self::default() }
    }
}
