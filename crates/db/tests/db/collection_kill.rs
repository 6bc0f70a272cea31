//! A process that inserts, upserts and deletes is killed at random moments, again and again: no
//! row that was answered is lost, and none that was deleted is back.
//!
//! The child is this test binary itself, running `works_until_killed`.

use std::collections::BTreeMap;

use pipeann_db::collection::Collection;

use crate::child::{self, Running, say};
use crate::data::{batch, collection, create, keys, open, rows};

const ROUNDS: u64 = 10;
const THREADS: i64 = 3;
/// Keys of one thread, which nobody else writes. Odd, so that each key is deleted and written.
const KEYS: i64 = 41;

/// What a write of a thread is about: a key, and the seed that it has afterwards.
fn effect(thread: i64, count: u32) -> (i64, Option<u32>) {
    let key = thread * KEYS + i64::from(count.wrapping_mul(7919) % KEYS as u32);
    (key, (!count.is_multiple_of(4)).then_some(count))
}

fn write(c: &Collection, thread: i64, count: u32) {
    match effect(thread, count) {
        (key, None) => {
            c.delete(&keys(&[key])).unwrap();
        }
        (key, Some(seed)) => {
            c.upsert(batch(&[(key, seed)]), None).unwrap();
        }
    }
}

#[test]
#[ignore = "runs as the child of `a_killed_process_loses_no_row_and_brings_none_back`"]
fn works_until_killed() {
    let Some((round, dir)) = child::input() else { return };
    let round = u32::try_from(round).unwrap();
    let database = open(&dir);
    let c = if round == 0 { create(&database) } else { collection(&database) };
    say("ready");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let c = &c;
            scope.spawn(move || {
                for count in round * 1_000_000.. {
                    say(&format!("begins {thread} {count} ."));
                    write(c, thread, count);
                    say(&format!("answered {thread} {count} ."));
                    if count % 50 == 49 {
                        c.flush().unwrap();
                    }
                }
            });
        }
    });
}

/// What a key holds according to what was said, and what it may hold instead.
#[derive(Default)]
struct Key {
    answered: Option<u32>,
    begun: Option<Option<u32>>,
}

#[test]
fn a_killed_process_loses_no_row_and_brings_none_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut model: BTreeMap<i64, Key> = BTreeMap::new();
    let mut answers = 0;
    for round in 0..ROUNDS {
        let running = Running::start("collection_kill::works_until_killed", round, dir.path());
        let mut hear = |line: &str| {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            // A line that was cut off does not end with a dot.
            let [what @ ("begins" | "answered"), thread, count, "."] = words[..] else { return };
            let (key, seed) = effect(thread.parse().unwrap(), count.parse().unwrap());
            let key = model.entry(key).or_default();
            if what == "begins" {
                key.begun = Some(seed);
            } else {
                *key = Key { answered: seed, begun: None };
                answers += 1;
            }
        };
        // Another number of lines each time, so that the moment is another one.
        let killed_after = 60 + (round * 7919 + 13) % 500;
        running.kill_after(killed_after as usize, &mut hear);

        let database = open(dir.path());
        let c = collection(&database);
        let found = rows(&c);
        let by_key: BTreeMap<i64, u32> = found.iter().copied().collect();
        assert_eq!(by_key.len(), found.len(), "round {round}: a key comes twice");
        for (key, expected) in &mut model {
            let there = by_key.get(key).copied();
            let fits = there == expected.answered || expected.begun == Some(there);
            assert!(fits, "round {round}, key {key}: {there:?}, answered {:?}", expected.answered);
            *expected = Key { answered: there, begun: None };
        }
        assert!(by_key.keys().all(|key| model.contains_key(key)));
        assert_eq!(c.verify().unwrap(), [], "round {round}");
    }
    assert!(answers > 500, "{answers} writes were answered");
}
