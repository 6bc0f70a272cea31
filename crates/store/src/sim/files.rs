//! Publishers, readers and a collector at once, over few contents, so that they meet.
//!
//! What holds: a generation that was published can be read while it is its shard's newest; one that is pinned can be read until its lease has passed.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use super::seeds::{all_hold, is_noticed};
use super::store::{FickleStore, Moods};
use super::world::{OfWorld, SimulatedWorld};
use crate::generations::{Collecting, FileSource, Generations, ShardGeneration};
use crate::log::{LeaderName, LogError, Opening, Position, ShardId, ShardLog};
use crate::objects::{Advice, ObjectsError, RetryPatience, Surroundings};

/// Seeds where nothing else is said.
const SEEDS: u64 = 60;
const PUBLISHERS: u64 = 3;
const READERS: u64 = 3;
const COLLECTORS: u64 = 2;
const GRACE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(2400);
/// What a request may take, of which the store's time knows nothing.
const MARGIN: Duration = Duration::from_secs(1200);
/// Shorter than some requests take, so that pins pass while something is published.
const PUBLISHING: Duration = Duration::from_secs(30);
const ROUNDS: u64 = 8;
const CONTENTS: u64 = 6;

#[derive(Default)]
struct KnownFiles {
    published: Vec<ShardGeneration>,
    wrong: Option<String>,
}

#[derive(Clone)]
struct Server {
    world: Arc<SimulatedWorld>,
    generations: Generations,
    log: ShardLog,
    common: Rc<RefCell<KnownFiles>>,
}

impl Server {
    fn wrong(&self, why: impl std::fmt::Display) {
        self.common.borrow_mut().wrong.get_or_insert_with(|| why.to_string());
    }

    fn judge(&self, error: &ObjectsError) {
        if error.advice() != Advice::Retry {
            self.wrong(error);
        }
    }

    /// Reads every file until `until`, or once.
    async fn reads(&self, generation: &ShardGeneration, until: Duration) {
        for file in &generation.files {
            if self.world.now() > until {
                return;
            }
            match self.generations.read_range(file, 0..file.length).await {
                Ok(bytes) if xxh3_128(&bytes) == file.hash => {}
                Ok(_) => self.wrong(format!("{} has other bytes", file.object())),
                Err(_) if self.world.now() > until => return,
                Err(ObjectsError::Missing { object }) => {
                    self.wrong(format!("{object} of {:?} is gone", generation.id));
                }
                Err(error) => self.judge(&error),
            }
        }
    }

    async fn publishes(self, shard: ShardId) {
        for round in 1..=ROUNDS {
            self.world.pause(Duration::from_secs(100)).await;
            let file = |number: u64| {
                let content = format!("content {}", self.world.below(CONTENTS));
                (format!("file {number}"), FileSource::Bytes(Bytes::from(content)))
            };
            let files: Vec<_> = (0..1 + self.world.below(3)).map(file).collect();
            let position = Position { term: 1, number: round };
            let made = self.generations.publish(shard, 1, position, b"", &files).await;
            match made {
                Ok(generation) => {
                    self.common.borrow_mut().published.push(generation.clone());
                    // It is its shard's newest until the next one.
                    self.reads(&generation, Duration::MAX).await;
                    self.world.pause(Duration::from_secs(60)).await;
                    self.reads(&generation, Duration::MAX).await;
                }
                Err(error) => self.judge(&error),
            }
        }
    }

    async fn pins(self) {
        for _ in 0..ROUNDS * 2 {
            self.world.pause(Duration::from_secs(60)).await;
            let count = self.common.borrow().published.len() as u64;
            if count == 0 {
                continue;
            }
            let chosen = self.world.below(count) as usize;
            let wanted = self.common.borrow().published[chosen].clone();
            let until = self.world.now() + LEASE - MARGIN;
            match self.generations.pin(wanted.shard, wanted.id, "reader", LEASE).await {
                Ok(Some(mut pin)) => {
                    self.reads(&pin.generation, until).await;
                    self.world.pause(Duration::from_secs(200)).await;
                    self.reads(&pin.generation, until).await;
                    let until = self.world.now() + LEASE - MARGIN;
                    match self.generations.renew(&mut pin).await {
                        Ok(true) => {
                            self.world.pause(Duration::from_secs(60)).await;
                            self.reads(&pin.generation, until).await;
                        }
                        Ok(false) => {}
                        Err(error) => self.judge(&error),
                    }
                    if let Err(error) = self.generations.release(pin).await {
                        self.judge(&error);
                    }
                }
                Ok(None) => {}
                Err(error) => self.judge(&error),
            }
        }
    }

    async fn collects(self, name: LeaderName) {
        for _ in 0..3 {
            let opened = async {
                Opening::new(self.log.clone(), None, name.clone()).await?.finish(|_| Ok(())).await
            };
            let leader = match opened.await {
                Ok(leader) => leader,
                Err(error) => {
                    self.judge_log(&error);
                    continue;
                }
            };
            for _ in 0..ROUNDS {
                self.world.pause(Duration::from_secs(60)).await;
                let what = Collecting { keep: &[], grace: GRACE };
                if let Err(error) = self.generations.collect(&leader, &what).await {
                    self.judge_log(&error);
                    break;
                }
            }
        }
    }

    fn judge_log(&self, error: &LogError) {
        match error {
            LogError::Objects(error) => self.judge(error),
            LogError::Fenced { .. } | LogError::Unreachable { .. } | LogError::Poisoned { .. } => {}
            error => self.wrong(error),
        }
    }
}

fn run(seed: u64, plant: fn(&mut Generations)) -> Result<(), String> {
    let world = SimulatedWorld::new(seed);
    let surroundings: Arc<dyn Surroundings> = Arc::new(OfWorld(Arc::clone(&world)));
    let store = FickleStore::new(Arc::clone(&surroundings), Moods::drawn(&*surroundings));
    let patience = RetryPatience::new(Duration::from_secs(20), surroundings);
    let common = Rc::new(RefCell::new(KnownFiles::default()));
    let server = || {
        let (bucket, cluster) = (store.handle(), Uuid::from_u128(1));
        let mut generations = Generations::new(bucket.clone(), cluster, patience.clone());
        generations.publishing = PUBLISHING;
        plant(&mut generations);
        let log = ShardLog::new(bucket, cluster, ShardId(0), patience.clone());
        Server { world: Arc::clone(&world), generations, log, common: Rc::clone(&common) }
    };
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    for number in 0..PUBLISHERS {
        tasks.push(Box::pin(server().publishes(ShardId(number + 1))));
    }
    for _ in 0..READERS {
        tasks.push(Box::pin(server().pins()));
    }
    for number in 0..COLLECTORS {
        let name = LeaderName::new(format!("collector {number}")).expect("it is short");
        tasks.push(Box::pin(server().collects(name)));
    }
    world.run(tasks);
    let wrong = common.borrow_mut().wrong.take();
    wrong.map_or(Ok(()), Err)
}

#[test]
fn generations_hold() {
    all_hold(SEEDS, |seed| run(seed, |_| ()));
}

#[test]
fn collection_without_pins_is_noticed() {
    is_noticed(|seed| run(seed, |it| it.pins_ignored = true));
}

#[test]
fn a_doom_that_nobody_looks_for_is_noticed() {
    is_noticed(|seed| run(seed, |it| it.dooms_ignored = true));
}
