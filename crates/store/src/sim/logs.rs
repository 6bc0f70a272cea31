//! Several leaders, one after the other and at once, and readers beside them.
//!
//! What holds: a record that was acknowledged is in the log once; everybody who applies the log has
//! applied the beginning of what it is in the end; records are of the term that was open; no position
//! is acknowledged twice; nothing looks damaged or foreign to those who did nothing wrong.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use uuid::Uuid;

use super::seeds::{all_hold, is_noticed};
use super::store::{FickleStore, Moods};
use super::world::{OfWorld, SimulatedWorld};
use crate::log::{
    Batch, EncodedEntries, EntryRef, LeaderName, LogError, Opening, OpeningStep, Planted, Position,
    Reader, ShardId, ShardLog, Stamp, TermLeader,
};
use crate::objects::{RetryPatience, Surroundings};

/// Seeds where nothing else is said.
const SEEDS: u64 = 60;
const LEADERS: u64 = 3;
const READERS: u64 = 2;
/// How often a server comes up.
const LIVES: u64 = 4;
/// Appends of a life, at most.
const APPENDS: u64 = 12;

/// What somebody has applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AppliedLog {
    position: Option<Position>,
    records: Vec<u64>,
}

impl AppliedLog {
    fn apply(&mut self, batch: &Batch) -> Result<(), String> {
        if self.position.is_some_and(|it| it >= batch.position || it.term > batch.position.term) {
            return Err(format!("{:?} follows {:?}", batch.position, self.position));
        }
        for entry in &batch.entries {
            if entry.payload != batch.position.term.to_le_bytes() {
                return Err(format!("a record of {:?} is of another term", batch.position));
            }
            self.records.push(entry.seq);
        }
        self.position = Some(batch.position);
        Ok(())
    }
}

/// What all servers of a run know, beside the store.
#[derive(Default)]
struct KnownOfLog {
    /// States at positions, as generations hold them.
    generations: Vec<AppliedLog>,
    acknowledged: BTreeMap<Position, u64>,
    records: u64,
    applied: Vec<AppliedLog>,
    wrong: Option<String>,
    /// What has happened, so that a run in which nothing does is noticed too.
    happened: BTreeMap<&'static str, u64>,
}

#[derive(Clone)]
struct Server {
    world: Arc<SimulatedWorld>,
    log: ShardLog,
    common: Rc<RefCell<KnownOfLog>>,
}

impl Server {
    fn wrong(&self, why: impl std::fmt::Display) {
        self.common.borrow_mut().wrong.get_or_insert_with(|| why.to_string());
    }

    fn count(&self, what: &'static str) {
        *self.common.borrow_mut().happened.entry(what).or_default() += 1;
    }

    /// What can't happen to a server that follows the rules.
    fn judge(&self, error: &LogError, state: &mut AppliedLog) {
        match error {
            LogError::Cut { .. } => self.count("cut"),
            LogError::Fenced { .. } => self.count("fenced"),
            LogError::Unreachable { .. } => self.count("unreachable"),
            _ => {}
        }
        match error {
            LogError::Cut { begin, .. } => {
                let common = self.common.borrow();
                let newest = common.generations.iter().max_by_key(|it| it.position).cloned();
                drop(common);
                match newest {
                    Some(it) if it.position.is_some_and(|at| at.number >= *begin) => *state = it,
                    _ => self.wrong(format!("{error}, and no generation reaches there")),
                }
            }
            LogError::Objects(it) if it.advice() == crate::objects::Advice::Retry => {}
            LogError::Fenced { .. } | LogError::Unreachable { .. } | LogError::Poisoned { .. } => {}
            error => self.wrong(error),
        }
    }

    async fn leads(self, name: LeaderName) {
        let mut state = AppliedLog::default();
        for _ in 0..LIVES {
            self.world.pause(Duration::from_secs(5)).await;
            match self.opened(&name, &mut state).await {
                Ok(leader) => self.term(&leader, &mut state).await,
                Err(error) => self.judge(&error, &mut state),
            }
            if self.world.happens(300) {
                state = AppliedLog::default();
            }
        }
        self.common.borrow_mut().applied.push(state);
    }

    async fn opened(
        &self,
        name: &LeaderName,
        state: &mut AppliedLog,
    ) -> Result<TermLeader, LogError> {
        let mut opening = Opening::new(self.log.clone(), state.position, name.clone()).await?;
        loop {
            match opening.step().await? {
                OpeningStep::Opened(leader) => {
                    self.count("opened");
                    state.position = Some(leader.position().await);
                    return Ok(*leader);
                }
                OpeningStep::Batch(batch) => {
                    if let Err(why) = state.apply(&batch) {
                        self.wrong(why);
                    }
                    if self.world.happens(20) {
                        // The server stands still: the log goes on without it.
                        self.world.pause(Duration::from_secs(60)).await;
                    }
                }
            }
        }
    }

    async fn term(&self, leader: &TermLeader, state: &mut AppliedLog) {
        for _ in 0..self.world.below(APPENDS) {
            self.world.pause(Duration::from_millis(300)).await;
            if self.world.happens(100) {
                self.world.pause(Duration::from_secs(60)).await;
            }
            if self.world.happens(150) {
                self.common.borrow_mut().generations.push(state.clone());
                let at = state.position.expect("a leader has its opening");
                match leader.truncate_before(at).await {
                    Ok(0) => {}
                    Ok(_) => self.count("truncated"),
                    Err(error) => return self.judge(&error, state),
                }
            }
            let count = self.world.below(3) + 1;
            let first = self.common.borrow().records + 1;
            self.common.borrow_mut().records += count;
            let payload = leader.term().to_le_bytes();
            let entry = |seq| EntryRef { seq, kind: 1, payload: &payload };
            let entries: Vec<_> = (first..first + count).map(entry).collect();
            let encoded = EncodedEntries::new(&entries).expect("they are few");
            let stamp =
                Stamp { catalogue_version: 1, timestamp: leader.stamp().await.timestamp + 1 };
            match leader.append(stamp, &encoded).await {
                Ok(position) => {
                    self.count("acknowledged");
                    let twice = self.common.borrow_mut().acknowledged.insert(position, first);
                    if twice.is_some() {
                        self.wrong(format!("{position:?} is acknowledged twice"));
                    }
                    state.position = Some(position);
                    state.records.extend(first..first + count);
                }
                Err(error) => return self.judge(&error, state),
            }
        }
    }

    async fn reads(self) {
        let mut state = AppliedLog::default();
        for _ in 0..LIVES * 2 {
            self.world.pause(Duration::from_secs(10)).await;
            if let Err(error) = self.follow(&mut state).await {
                self.judge(&error, &mut state);
            }
        }
        self.common.borrow_mut().applied.push(state);
    }

    async fn follow(&self, state: &mut AppliedLog) -> Result<(), LogError> {
        let mut reader = Reader::open(self.log.clone(), state.position).await?;
        for _ in 0..self.world.below(30) {
            match reader.next().await? {
                Some(batch) => {
                    if let Err(why) = state.apply(&batch) {
                        self.wrong(why);
                    }
                    self.world.pause(Duration::from_millis(100)).await;
                }
                None => self.world.pause(Duration::from_secs(2)).await,
            }
        }
        Ok(())
    }

    /// The log as it is in the end, read by somebody new.
    async fn end(self) {
        let mut state = AppliedLog::default();
        for _ in 0..3 {
            let read = async {
                let mut reader = Reader::open(self.log.clone(), state.position).await?;
                while let Some(batch) = reader.next().await? {
                    state
                        .apply(&batch)
                        .map_err(|why| LogError::Damaged { object: "the end".into(), why })?;
                }
                Ok::<_, LogError>(())
            };
            match read.await {
                Ok(()) => return self.common.borrow_mut().applied.push(state),
                Err(error) => self.judge(&error, &mut state),
            }
        }
        self.wrong("the log can't be read in the end");
    }
}

/// What has happened in a run, or what was wrong.
fn run(seed: u64, planted: Option<Planted>) -> Result<BTreeMap<&'static str, u64>, String> {
    let world = SimulatedWorld::new(seed);
    let surroundings: Arc<dyn Surroundings> = Arc::new(OfWorld(Arc::clone(&world)));
    let store = FickleStore::new(Arc::clone(&surroundings), Moods::drawn(&*surroundings));
    let patience = RetryPatience::new(Duration::from_secs(20), surroundings);
    let common = Rc::new(RefCell::new(KnownOfLog::default()));
    let server = || {
        let (bucket, patience) = (store.handle(), patience.clone());
        let mut log = ShardLog::new(bucket, Uuid::from_u128(1), ShardId(1), patience);
        log.planted = planted;
        Server { world: Arc::clone(&world), log, common: Rc::clone(&common) }
    };
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    for number in 0..LEADERS {
        let name = LeaderName::new(format!("leader {number}")).expect("it is short");
        tasks.push(Box::pin(server().leads(name)));
    }
    for _ in 0..READERS {
        tasks.push(Box::pin(server().reads()));
    }
    world.run(tasks);
    store.heal();
    world.run(vec![Box::pin(server().end())]);

    let common = common.borrow();
    if let Some(why) = &common.wrong {
        return Err(why.clone());
    }
    let last = common.applied.last().expect("the end was read");
    let once: HashSet<_> = last.records.iter().collect();
    if once.len() != last.records.len() {
        return Err("a record is in the log twice".into());
    }
    for (position, record) in &common.acknowledged {
        if !once.contains(record) {
            return Err(format!("record {record} was acknowledged at {position:?} and is lost"));
        }
    }
    for state in common.applied.iter().chain(&common.generations) {
        if !last.records.starts_with(&state.records) {
            return Err(format!("{:?} has applied another history", state.position));
        }
    }
    Ok(common.happened.clone())
}

#[test]
fn logs_hold() {
    let all = Mutex::new(BTreeMap::<&str, u64>::new());
    all_hold(SEEDS, |seed| {
        let happened = run(seed, None)?;
        let mut all = all.lock().unwrap();
        for (what, count) in happened {
            *all.entry(what).or_default() += count;
        }
        Ok(())
    });
    let all = all.into_inner().unwrap();
    println!("{all:?}");
    for what in ["acknowledged", "cut", "fenced", "opened", "truncated", "unreachable"] {
        assert!(all.get(what).is_some_and(|it| *it > 10), "{what} is rare: {all:?}");
    }
}

#[test]
fn an_early_acknowledgement_is_noticed() {
    is_noticed(|seed| run(seed, Some(Planted::AcknowledgedEarly)).map(drop));
}

#[test]
fn a_freed_name_is_noticed() {
    is_noticed(|seed| run(seed, Some(Planted::OpeningsDeleted)).map(drop));
}

#[test]
fn a_missing_look_back_is_noticed() {
    is_noticed(|seed| run(seed, Some(Planted::NoReadBack)).map(drop));
}

#[test]
fn an_opening_below_a_cut_is_noticed() {
    is_noticed(|seed| run(seed, Some(Planted::CutIgnored)).map(drop));
}
