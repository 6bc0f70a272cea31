//! Who writes a log: one put in flight, each acknowledged when the store is known to have it.

use tokio::sync::Mutex;

use super::format::{EncodedEntries, ObjectHead, ObjectKind};
use super::put::Settled;
use super::reader::Tip;
use super::{LeaderName, LogError, Position, ShardLog, Stamp};

/// The leader of a term. Calls at once wait for each other.
pub struct TermLeader {
    log: ShardLog,
    name: LeaderName,
    term: u64,
    opening: u64,
    state: Mutex<LeaderState>,
}

struct LeaderState {
    tip: Tip,
    /// Set before each put, and cleared when its outcome is known.
    poisoned: bool,
    /// Acknowledged already, where that is the planted fault.
    #[cfg(test)]
    unput: Option<(u64, bytes::Bytes, u128)>,
}

impl TermLeader {
    pub(super) fn new(log: ShardLog, name: LeaderName, opened: Tip) -> Self {
        let state = Mutex::new(LeaderState {
            tip: opened,
            poisoned: false,
            #[cfg(test)]
            unput: None,
        });
        Self { log, name, term: opened.term, opening: opened.number, state }
    }

    /// The term that it opened.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The log.
    pub fn log(&self) -> &ShardLog {
        &self.log
    }

    /// The last object known to be in the log.
    pub async fn position(&self) -> Position {
        self.state.lock().await.tip.position()
    }

    /// The stamp of that object.
    pub async fn stamp(&self) -> Stamp {
        self.state.lock().await.tip.stamp
    }

    /// Puts records as the next object, and answers when it is known to be in the log.
    ///
    /// After `Fenced`, `Unreachable` or `Damaged`, and after being dropped midway, the leader writes no
    /// more. After `TooLarge` and `Backwards` nothing has changed.
    pub async fn append(
        &self,
        stamp: Stamp,
        entries: &EncodedEntries,
    ) -> Result<Position, LogError> {
        let mut state = self.writable().await?;
        let tip = state.tip;
        if stamp.timestamp < tip.stamp.timestamp {
            let (given, last) = (stamp.timestamp, tip.stamp.timestamp);
            return Err(LogError::Backwards { shard: self.log.shard, given, last });
        }
        let head = ObjectHead {
            kind: ObjectKind::Records,
            cluster: self.log.cluster,
            shard: self.log.shard,
            number: tip.number + 1,
            term: self.term,
            token: self.log.patience.token(),
            stamp,
            previous: tip.checksum,
            opening: self.opening,
            leader: self.name.as_str().to_owned(),
        };
        let (bytes, checksum) = head.encode(entries);
        let (number, term, opening) = (head.number, self.term, self.opening);
        #[cfg(test)]
        if self.log.planted == Some(super::Planted::AcknowledgedEarly) {
            let before = state.unput.replace((number, bytes, head.token));
            if let Some((number, bytes, token)) = before {
                self.log.put_settled(number, bytes, token).await?;
            }
            state.tip = Tip { number, term, checksum, opening, stamp };
            return Ok(head.position());
        }
        state.poisoned = true;
        match self.log.put_settled(number, bytes, head.token).await? {
            Settled::Own => {
                state.tip = Tip { number, term, checksum, opening, stamp };
                state.poisoned = false;
                Ok(state.tip.position())
            }
            Settled::Taken(other) => {
                Err(self.fenced(other.head.term, other.head.number, other.head.leader))
            }
        }
    }

    /// Fails where a later term is known to be open. Costs a listing, and looks at no clock.
    pub async fn verify(&self) -> Result<(), LogError> {
        let mut state = self.writable().await?;
        let after = state.tip.number;
        let Some(number) = self.log.next_number(after).await? else {
            return Ok(());
        };
        state.poisoned = true;
        match self.log.get(number).await? {
            Some(other) => Err(self.fenced(other.head.term, number, other.head.leader)),
            // It was cut already, which only somebody else can have done.
            None => Err(self.fenced(self.term + 1, number, String::new())),
        }
    }

    /// Makes `position` the first object of the log; what is below is deleted, but for openings.
    /// Returns how many objects were deleted.
    ///
    /// `position` is one that the log has, that of a current generation or before it, and below all
    /// that anybody still wants to read. A reader that is behind meets `Cut`. An error leaves the log
    /// whole; what was not deleted is deleted by the next call.
    ///
    /// # Panics
    /// If `position` is beyond the leader's own.
    pub async fn truncate_before(&self, position: Position) -> Result<u64, LogError> {
        self.verify().await?;
        let tip = self.position().await;
        assert!(position <= tip, "a log is cut within: {position:?} is beyond {tip:?}");
        self.log.cut(position.number, self.opening).await
    }

    async fn writable(&self) -> Result<tokio::sync::MutexGuard<'_, LeaderState>, LogError> {
        let state = self.state.lock().await;
        if state.poisoned {
            return Err(LogError::Poisoned { shard: self.log.shard, term: self.term });
        }
        Ok(state)
    }

    fn fenced(&self, later: u64, number: u64, by: String) -> LogError {
        LogError::Fenced { shard: self.log.shard, term: self.term, later, number, by }
    }
}
