//! The first message of either side, and whether the two may go on together.

use std::fmt;

use super::ids::PeerId;
use super::lists::Numbers;

/// Who speaks, and of which index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The cluster's name.
    pub cluster: &'a str,
    /// Who speaks.
    pub who: PeerId,
    /// Which index. A client that has not asked yet sends zeros and takes the server's.
    pub index: [u8; 16],
    /// Which generation of it; zero from such a client.
    pub generation: u64,
    /// Which codebook its codes were made by; zero from such a client.
    pub codebook: u32,
    /// The partitions that this server owns; none from a client.
    pub partitions: Numbers<'a>,
    /// How many queries of the other side may have a state here at once.
    pub slots: u32,
    /// How many bytes the other side may send before it is granted more.
    pub credit: u64,
}

/// Why two peers do not go on together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mismatch {
    /// They belong to different clusters.
    Cluster {
        /// The other's.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// They serve different indexes.
    Index {
        /// The other's.
        theirs: [u8; 16],
        /// Ours.
        ours: [u8; 16],
    },
    /// They serve different generations of an index.
    Generation {
        /// The other's.
        theirs: u64,
        /// Ours.
        ours: u64,
    },
    /// Their codes were made by different codebooks.
    Codebook {
        /// The other's.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// The one that was dialled is somebody else.
    NotWhoWasDialled {
        /// Who answered.
        theirs: PeerId,
        /// Who should have.
        dialled: PeerId,
    },
    /// A server of this number is not in the topology, or it is ourselves.
    UnknownServer(u32),
    /// The partitions of a server are not those of the topology.
    Partitions(PeerId),
}

struct Hex<'a>(&'a [u8; 16]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster { theirs, ours } => {
                write!(f, "the peer belongs to cluster `{theirs}`, this one to `{ours}`")
            }
            Self::Index { theirs, ours } => {
                write!(f, "the peer serves index {}, this one {}", Hex(theirs), Hex(ours))
            }
            Self::Generation { theirs, ours } => {
                write!(f, "the peer serves generation {theirs} of the index, this one {ours}")
            }
            Self::Codebook { theirs, ours } => {
                write!(f, "the peer's codes are of codebook {theirs}, ours of {ours}")
            }
            Self::NotWhoWasDialled { theirs, dialled } => {
                write!(f, "{theirs} answered at the address of {dialled}")
            }
            Self::UnknownServer(number) => {
                write!(f, "no other server of the topology has the number {number}")
            }
            Self::Partitions(peer) => {
                write!(f, "{peer} owns other partitions than the topology gives it")
            }
        }
    }
}

impl std::error::Error for Mismatch {}

impl Hello<'_> {
    /// Whether this one may go on with whoever sent `theirs`. A client may leave open which index
    /// it searches; servers have to agree.
    pub fn admits(&self, theirs: &Hello<'_>) -> Result<(), Mismatch> {
        if self.cluster != theirs.cluster {
            return Err(Mismatch::Cluster {
                theirs: theirs.cluster.to_owned(),
                ours: self.cluster.to_owned(),
            });
        }
        if self.is_open() || theirs.is_open() {
            return Ok(());
        }
        if self.index != theirs.index {
            return Err(Mismatch::Index { theirs: theirs.index, ours: self.index });
        }
        if self.generation != theirs.generation {
            return Err(Mismatch::Generation { theirs: theirs.generation, ours: self.generation });
        }
        if self.codebook != theirs.codebook {
            return Err(Mismatch::Codebook { theirs: theirs.codebook, ours: self.codebook });
        }
        Ok(())
    }

    /// Whether this is a client that takes whatever index the servers have.
    fn is_open(&self) -> bool {
        matches!(self.who, PeerId::Client(_))
            && self.index == [0; 16]
            && self.generation == 0
            && self.codebook == 0
    }
}
