//! From a log that somebody else led to a term of one's own.

use super::format::{DecodedObject, EncodedEntries, ObjectHead, ObjectKind};
use super::leader::TermLeader;
use super::put::Settled;
use super::reader::{Reader, Tip};
use super::{Batch, BoxError, LeaderName, LogError, Position, ShardLog};

/// A candidate: reads a log to its end, and opens a term there.
pub struct Opening {
    reader: Reader,
    leader: LeaderName,
}

/// What a step came to.
pub enum OpeningStep {
    /// A batch that others wrote, to be applied before the next step.
    Batch(Batch),
    /// The term is open. Everything before it was handed out.
    Opened(Box<TermLeader>),
}

impl Opening {
    /// A candidate that has applied the log up to `from`. Fails as [`Reader::open`] does.
    pub async fn new(
        log: ShardLog,
        from: Option<Position>,
        leader: LeaderName,
    ) -> Result<Self, LogError> {
        Ok(Self { reader: Reader::open(log, from).await?, leader })
    }

    /// All steps at once: `apply` is handed every batch, then the term is open.
    pub async fn finish(
        mut self,
        mut apply: impl FnMut(Batch) -> Result<(), BoxError>,
    ) -> Result<TermLeader, LogError> {
        loop {
            match self.step().await? {
                OpeningStep::Opened(leader) => return Ok(*leader),
                OpeningStep::Batch(batch) => {
                    let position = batch.position;
                    let shard = self.reader.log().shard;
                    apply(batch).map_err(|cause| LogError::Apply { shard, position, cause })?;
                }
            }
        }
    }

    /// Reads on, or puts the opening at the first free number.
    pub async fn step(&mut self) -> Result<OpeningStep, LogError> {
        loop {
            if let Some(batch) = self.read().await? {
                return Ok(OpeningStep::Batch(batch));
            }
            if let Some(leader) = self.put().await? {
                return Ok(OpeningStep::Opened(Box::new(leader)));
            }
        }
    }

    /// Reads on; `None` at the end of the log.
    pub async fn read(&mut self) -> Result<Option<Batch>, LogError> {
        self.reader.next().await
    }

    /// Puts the opening behind what was read; `None` where somebody was faster, whose object is read next.
    pub async fn put(&mut self) -> Result<Option<TermLeader>, LogError> {
        let log = self.reader.log().clone();
        let tip = self.reader.tip();
        let head = ObjectHead {
            kind: ObjectKind::Opening,
            cluster: log.cluster,
            shard: log.shard,
            number: tip.number + 1,
            term: tip.term + 1,
            token: log.patience.token(),
            stamp: tip.stamp,
            previous: tip.checksum,
            opening: tip.opening,
            leader: self.leader.as_str().to_owned(),
        };
        let (bytes, checksum) = head.encode(&EncodedEntries::default());
        match log.put_settled(head.number, bytes, head.token).await? {
            Settled::Taken(_) => return Ok(None),
            Settled::Own => {}
        }
        // If the name had been freed by a cut, the log goes on elsewhere, and this opening is void.
        #[cfg(test)]
        let looks = log.planted != Some(super::Planted::CutIgnored);
        #[cfg(not(test))]
        let looks = true;
        if looks {
            log.not_cut(head.number).await?;
        }
        let opened = Tip::of(&DecodedObject { head, entries: Vec::new(), checksum });
        Ok(Some(TermLeader::new(log, self.leader.clone(), opened)))
    }
}
