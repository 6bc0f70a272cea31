//! The objects of a log in order, each held against the one before it.

use std::future::Future;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;

use super::format::{DecodedObject, ObjectKind};
use super::{Batch, LogError, Position, ShardLog, Stamp};

/// Objects that are fetched while the caller applies those before.
const READ_AHEAD: usize = 4;
/// Objects that are asked for by their names, one after the other, before a listing tells how many more
/// there are.
const ASKED_BY_NAME: u32 = 256;

type Fetch = Pin<Box<dyn Future<Output = Result<Option<DecodedObject>, LogError>> + Send>>;

/// Reads a log from a position on. Ends for now where the log ends, and goes on when there is more.
pub struct Reader {
    log: ShardLog,
    last: Tip,
    /// Objects up to this number were listed.
    listed: u64,
    /// Listings so far that showed something.
    listings: u64,
    /// Objects that were found by their names since the last listing, or since there was none.
    by_name: u32,
    /// What is being fetched, in order, and the number after it.
    ahead: FuturesOrdered<Fetch>,
    ahead_next: u64,
}

/// The last object of a log that somebody has read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tip {
    /// Counted from 1; 0 before the first object.
    pub(super) number: u64,
    pub(super) term: u64,
    pub(super) checksum: u64,
    /// Number of the opening of that term.
    pub(super) opening: u64,
    pub(super) stamp: Stamp,
}

impl Tip {
    pub(super) fn of(object: &DecodedObject) -> Self {
        let head = &object.head;
        let opening = match head.kind {
            ObjectKind::Opening => head.number,
            ObjectKind::Records => head.opening,
        };
        let (number, term, stamp) = (head.number, head.term, head.stamp);
        Self { number, term, checksum: object.checksum, opening, stamp }
    }

    pub(super) fn position(&self) -> Position {
        Position { term: self.term, number: self.number }
    }

    /// What of `object` does not follow `self`.
    fn objection(&self, object: &DecodedObject) -> Option<String> {
        let head = &object.head;
        let Tip { term, checksum, opening, .. } = *self;
        if head.previous != checksum {
            return Some("does not follow the object before it".to_owned());
        }
        if head.opening != opening {
            return Some(format!("names {} as its opening, not {opening}", head.opening));
        }
        match head.kind {
            ObjectKind::Opening if head.term <= term => {
                Some(format!("opens term {} after term {term}", head.term))
            }
            ObjectKind::Records if head.term != term => {
                Some(format!("holds records of term {} in term {term}", head.term))
            }
            _ if head.stamp.timestamp < self.stamp.timestamp => {
                Some("has a timestamp below that of the object before it".to_owned())
            }
            _ => None,
        }
    }
}

impl Reader {
    /// A reader of what follows `from`, which the caller has applied; of everything if it has nothing.
    ///
    /// Fails with `Cut` where the log no longer reaches back to there, and with `Diverged` where `from`
    /// is in no place of it.
    pub async fn open(log: ShardLog, from: Option<Position>) -> Result<Self, LogError> {
        let last = match from {
            None => Tip::default(),
            Some(from) => match log.get(from.number).await? {
                Some(object) if object.head.term == from.term => Tip::of(&object),
                Some(_) | None => {
                    log.not_cut(from.number).await?;
                    let Position { term, number } = from;
                    return Err(LogError::Diverged { shard: log.shard, number, term });
                }
            },
        };
        // Also where the object was found: what is below a cut is no part of the log.
        log.not_cut(last.number.max(1)).await?;
        let (listed, ahead_next) = (last.number, last.number + 1);
        let (listings, by_name, ahead) = (0, 0, FuturesOrdered::new());
        Ok(Self { log, last, listed, listings, by_name, ahead, ahead_next })
    }

    /// The position of the last batch that was given out, or where reading began.
    pub fn position(&self) -> Option<Position> {
        (self.last.number > 0).then(|| self.last.position())
    }

    /// The stamp of the object at that position, where there is one.
    pub fn stamp(&self) -> Option<Stamp> {
        (self.last.number > 0).then_some(self.last.stamp)
    }

    pub(super) fn log(&self) -> &ShardLog {
        &self.log
    }

    pub(super) fn tip(&self) -> Tip {
        self.last
    }

    /// Tells that the log reaches `number`, as its leader says, which spares a listing.
    pub fn expect(&mut self, number: u64) {
        self.listed = self.listed.max(number);
    }

    /// How many listings have shown something so far.
    pub fn listings(&self) -> u64 {
        self.listings
    }

    /// Whether all objects are given out that the last listing has shown.
    pub fn has_given_all_listed(&self) -> bool {
        self.listed <= self.last.number
    }

    /// The next batch, or `None` where there is no more for now.
    ///
    /// After an error the reader stands where it stood; `Objects` errors may pass.
    pub async fn next(&mut self) -> Result<Option<Batch>, LogError> {
        let number = self.last.number + 1;
        if self.ahead.is_empty() && self.listed < number {
            if self.log.asks_by_name && self.by_name < ASKED_BY_NAME {
                let Some(object) = self.log.get(number).await? else {
                    self.by_name = 0;
                    return self.log.not_cut(number).await.map(|()| None);
                };
                self.by_name += 1;
                self.ahead.push_back(Box::pin(std::future::ready(Ok(Some(object)))));
                (self.listed, self.ahead_next) = (number, number + 1);
            } else if !self.list(number).await? {
                return Ok(None);
            }
        }
        while self.ahead.len() < READ_AHEAD && self.ahead_next <= self.listed {
            let (log, next) = (self.log.clone(), self.ahead_next);
            self.ahead.push_back(Box::pin(async move { log.get(next).await }));
            self.ahead_next += 1;
        }
        let fetched = self.ahead.next().await.expect("something is fetched");
        let object = match fetched {
            Ok(Some(object)) => object,
            Ok(None) => {
                let told = self.listed;
                self.forget();
                self.log.not_cut(number).await?;
                // A leader may have told of an object that a lost put has left out.
                if self.log.numbers_after(number - 1).await?.is_empty() {
                    return Ok(None);
                }
                if let Some(object) = self.log.get(number).await? {
                    (self.listed, self.ahead_next) = (told, number + 1);
                    object
                } else {
                    self.log.not_cut(number).await?;
                    let name = self.log.name(number);
                    let why = format!("is missing, and others up to {told} are there");
                    return Err(LogError::damaged(&name, why));
                }
            }
            Err(error) => {
                self.forget();
                return Err(error);
            }
        };
        if let Some(why) = self.last.objection(&object) {
            self.forget();
            // A name below a cut may hold anything.
            self.log.not_cut(number).await?;
            return Err(LogError::damaged(&self.log.name(number), why));
        }
        if object.head.kind == ObjectKind::Opening {
            // A candidate may have opened a term at a name that a cut had freed.
            if let Err(error) = self.log.not_cut(number).await {
                self.forget();
                return Err(error);
            }
        }
        self.last = Tip::of(&object);
        Ok(Some(object.batch()))
    }

    /// Lists from `number` on; `false` where there is nothing.
    async fn list(&mut self, number: u64) -> Result<bool, LogError> {
        self.by_name = 0;
        let numbers = self.log.numbers_after(number - 1).await?;
        if numbers.is_empty() {
            return Ok(false);
        }
        self.listings += 1;
        // A listing is no moment: it may show an object and miss the one before it. A name that is
        // missing for good is told from that when it is fetched.
        self.listed = *numbers.last().expect("not empty");
        self.ahead_next = number;
        Ok(true)
    }

    /// Begins anew behind the last object given out.
    fn forget(&mut self) {
        self.ahead = FuturesOrdered::new();
        self.listed = self.last.number;
        self.ahead_next = self.last.number + 1;
    }
}
