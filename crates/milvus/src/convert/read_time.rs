//! How new the data of a read has to be: from the consistency levels and guarantee timestamps of the
//! wire.

use pipeann_db::catalog::ConsistencyLevel;

use crate::proto::common::ConsistencyLevel as WireLevel;

/// What clients send for a read of anything that is there.
pub(crate) const EVENTUALLY: u64 = 1;
/// What they send for a read that may be a little old.
const BOUNDED: u64 = 2;
/// How old a bounded read may be, as in Milvus.
const STALENESS_MS: u64 = 5_000;

/// How new the data of a read has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadTime {
    /// As new as anything that was answered before the read came: Strong.
    Latest,
    /// With everything up to this timestamp: Session, and timestamps that users choose. One that the
    /// leader has not come to names nothing yet, and asks for no more than `Latest`.
    AtLeast(u64),
    /// With everything that is older than this, and everything up to a timestamp: Bounded. Clients
    /// name their last write beside a default level, so that they find it; 0 where they name none.
    Bounded {
        /// How far behind it may be.
        staleness_ms: u64,
        /// What it has in any case.
        at_least: u64,
    },
    /// Whatever there is: Eventually.
    Any,
}

impl ReadTime {
    /// For a read that another server sent on which has everything up to a timestamp: what may be a
    /// little old is not older than there.
    pub(crate) fn not_before(self, seen: u64) -> Self {
        match self {
            Self::Bounded { staleness_ms, at_least } => {
                Self::Bounded { staleness_ms, at_least: at_least.max(seen) }
            }
            Self::Latest | Self::AtLeast(_) | Self::Any => self,
        }
    }
}

/// What a request says about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarantee {
    pub(crate) timestamp: u64,
    pub(crate) level: WireLevel,
    /// Whether the level of the collection counts.
    pub(crate) by_default: bool,
}

impl Guarantee {
    /// Of a read of a collection with this level.
    pub(crate) fn read_time(self, of_collection: ConsistencyLevel) -> ReadTime {
        use ConsistencyLevel as Level;
        let asked = match self.level {
            _ if self.by_default => of_collection,
            WireLevel::Strong => Level::Strong,
            WireLevel::Session => Level::Session,
            WireLevel::Bounded => Level::Bounded,
            WireLevel::Eventually => Level::Eventually,
            WireLevel::Customized => Level::Customized,
        };
        let at_least = if self.timestamp > BOUNDED { self.timestamp } else { 0 };
        let bounded = ReadTime::Bounded { staleness_ms: STALENESS_MS, at_least };
        match (asked, self.timestamp) {
            (Level::Strong, _) | (Level::Session | Level::Customized, 0) => ReadTime::Latest,
            (Level::Bounded, _) | (_, BOUNDED) => bounded,
            (Level::Eventually, _) | (_, EVENTUALLY) => ReadTime::Any,
            (_, timestamp) => ReadTime::AtLeast(timestamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(at_least: u64) -> ReadTime {
        ReadTime::Bounded { staleness_ms: STALENESS_MS, at_least }
    }

    #[test]
    fn levels_and_timestamps_are_read_as_clients_send_them() {
        use WireLevel as L;
        // Level, timestamp, and what is read.
        let asked = [
            (L::Strong, 0, ReadTime::Latest),
            (L::Strong, 900, ReadTime::Latest),
            (L::Session, 900, ReadTime::AtLeast(900)),
            (L::Session, 1, ReadTime::Any),
            (L::Session, 0, ReadTime::Latest),
            (L::Bounded, 2, bounded(0)),
            (L::Bounded, 900, bounded(900)),
            (L::Eventually, 1, ReadTime::Any),
            (L::Eventually, 900, ReadTime::Any),
            (L::Customized, 0, ReadTime::Latest),
            (L::Customized, 1, ReadTime::Any),
            (L::Customized, 2, bounded(0)),
            (L::Customized, 900, ReadTime::AtLeast(900)),
        ];
        for (level, timestamp, read) in asked {
            let guarantee = Guarantee { timestamp, level, by_default: false };
            assert_eq!(
                guarantee.read_time(ConsistencyLevel::Eventually),
                read,
                "{level:?} {timestamp}"
            );
        }
    }

    #[test]
    fn what_is_sent_on_is_no_older_than_where_it_came_from() {
        assert_eq!(bounded(0).not_before(7), bounded(7));
        assert_eq!(bounded(9).not_before(7), bounded(9));
        for other in [ReadTime::Latest, ReadTime::AtLeast(3), ReadTime::Any] {
            assert_eq!(other.not_before(7), other);
        }
    }

    #[test]
    fn the_level_of_the_collection_counts_where_a_request_leaves_it_to_it() {
        let read = |timestamp, level| {
            let guarantee = Guarantee { timestamp, level: WireLevel::Strong, by_default: true };
            guarantee.read_time(level)
        };
        assert_eq!(read(1, ConsistencyLevel::Strong), ReadTime::Latest);
        assert_eq!(read(1, ConsistencyLevel::Session), ReadTime::Any);
        assert_eq!(read(900, ConsistencyLevel::Session), ReadTime::AtLeast(900));
        assert_eq!(read(900, ConsistencyLevel::Bounded), bounded(900), "its own last write");
        assert_eq!(read(1, ConsistencyLevel::Bounded), bounded(0));
        assert_eq!(read(900, ConsistencyLevel::Eventually), ReadTime::Any);
    }
}
