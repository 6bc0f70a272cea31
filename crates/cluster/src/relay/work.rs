//! What a server asks of the search, and what it gets back.

use crate::wire::{FailureCode, Mode};

/// A piece of work at this server. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// A query begins here.
    Begin {
        /// Under which ticket it is answered.
        ticket: Ticket,
        /// How servers work together on it.
        mode: Mode,
        /// How long somebody waits for it, microseconds.
        left_us: u64,
        /// Partitions that are not to be asked.
        missing: Vec<u32>,
        /// What was asked for.
        parameters: Vec<u8>,
        /// The query's vector.
        vector: Vec<u8>,
    },
    /// A query goes on here.
    Wake {
        /// Under which ticket it is answered.
        ticket: Ticket,
        /// The partition for whose sake it came.
        partition: u32,
        /// How long somebody waits for it, microseconds.
        left_us: u64,
        /// Its state.
        state: Vec<u8>,
    },
    /// A step of a query whose list stays with its asker.
    Score {
        /// Under which ticket it is answered.
        ticket: Ticket,
        /// The nodes to be read; none for entries of the head index.
        nodes: Vec<u32>,
        /// Only neighbours below this coded distance are wanted.
        bound: f32,
        /// Neighbours wanted at most.
        most: u32,
        /// Whether every record of a page that is read is used.
        packed: bool,
        /// How long somebody waits for it, microseconds.
        left_us: u64,
        /// What was asked for.
        parameters: Vec<u8>,
        /// The query's vector.
        vector: Vec<u8>,
    },
    /// Nobody waits for this any more.
    Cancel {
        /// What is to be given up.
        ticket: Ticket,
    },
}

/// What became of it. One for each ticket; what comes after a cancellation is ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Walked {
    /// The query has to go on where a partition is.
    Leaves {
        /// Of which work.
        ticket: Ticket,
        /// Where to.
        partition: u32,
        /// What is to be carried there.
        state: Vec<u8>,
    },
    /// The query has its answer.
    Done {
        /// Of which work.
        ticket: Ticket,
        /// The rows found, as [`Hits::pack`](crate::wire::Hits::pack) has them.
        hits: Vec<u8>,
        /// What it cost.
        stats: Vec<u8>,
    },
    /// A step was taken.
    Scored {
        /// Of which work.
        ticket: Ticket,
        /// What was read and scored.
        scores: Scores,
    },
    /// The search gives up.
    Failed {
        /// Of which work.
        ticket: Ticket,
        /// Whether another attempt may do better.
        code: FailureCode,
        /// For a person.
        words: String,
    },
}

/// What a step gave, as messages have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scores {
    /// As [`Reads::pack`](crate::wire::Reads::pack) has them.
    pub reads: Vec<u8>,
    /// As [`Neighbours::pack`](crate::wire::Neighbours::pack) has them.
    pub neighbours: Vec<u8>,
    /// Whether nothing is to be read that is too far by what codes have proved.
    pub early_stop: bool,
    /// What it cost.
    pub stats: Vec<u8>,
}

impl Walked {
    pub(super) fn ticket(&self) -> Ticket {
        match self {
            Self::Leaves { ticket, .. }
            | Self::Done { ticket, .. }
            | Self::Scored { ticket, .. }
            | Self::Failed { ticket, .. } => *ticket,
        }
    }
}

/// Does the work, on threads of its own. `submit` must not wait: there is never more work than twice the
/// slots that were granted, so whoever takes it can have room for all of it.
pub trait Walker {
    /// Takes work. Whether there was room for it: of what was taken the end is told, also where it was
    /// given up meanwhile.
    fn submit(&self, work: Work) -> bool;

    /// Why a query of these parameters and this vector is refused before anything of it is copied; none
    /// where it may be taken.
    fn refuses(&self, _parameters: &[u8], _vector: &[u8]) -> Option<String> {
        None
    }

    /// The first node of each partition, for askers that choose servers by nodes; none where it
    /// scores nothing for them.
    fn starts(&self) -> Vec<u32> {
        Vec::new()
    }
}
