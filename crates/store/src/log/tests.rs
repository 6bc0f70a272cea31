//! A log in memory: order, fences, cuts, and what is refused.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::format::*;
use super::*;
use crate::objects::{self, OfThisMachine, RetryPatience};

fn log() -> ShardLog {
    let bucket = objects::open("memory://").unwrap();
    let patience = RetryPatience::new(Duration::from_secs(2), Arc::new(OfThisMachine::default()));
    ShardLog::new(bucket, Uuid::from_u128(9), ShardId(3), patience)
}

async fn lead(log: &ShardLog, name: &str) -> TermLeader {
    let opening = Opening::new(log.clone(), None, LeaderName::new(name).unwrap()).await.unwrap();
    opening.finish(|_| Ok(())).await.unwrap()
}

fn record(seq: u64) -> EncodedEntries {
    EncodedEntries::new(&[EntryRef { seq, kind: 2, payload: b"row" }]).unwrap()
}

fn at(timestamp: u64) -> Stamp {
    Stamp { catalogue_version: 1, timestamp }
}

async fn read_all(log: &ShardLog, from: Option<Position>) -> Result<Vec<Batch>, LogError> {
    let mut reader = Reader::open(log.clone(), from).await?;
    let mut found = Vec::new();
    while let Some(batch) = reader.next().await? {
        found.push(batch);
    }
    Ok(found)
}

fn seqs(batches: &[Batch]) -> Vec<u64> {
    batches.iter().flat_map(|it| &it.entries).map(|it| it.seq).collect()
}

#[tokio::test]
async fn what_was_appended_is_read_in_order() {
    let log = log();
    let leader = lead(&log, "a").await;
    assert_eq!((leader.term(), leader.position().await), (1, Position { term: 1, number: 1 }));
    for seq in 1..=20 {
        let position = leader.append(at(seq), &record(seq)).await.unwrap();
        assert_eq!(position, Position { term: 1, number: seq + 1 });
    }
    let all = read_all(&log, None).await.unwrap();
    assert_eq!(seqs(&all), (1..=20).collect::<Vec<_>>());
    assert_eq!(all[0].entries, []);
    assert_eq!((all[5].timestamp, all[5].catalogue_version), (5, 1));
    let rest = read_all(&log, Some(Position { term: 1, number: 11 })).await.unwrap();
    assert_eq!(seqs(&rest), (11..=20).collect::<Vec<_>>());
    assert_eq!(shards(&log.bucket, &log.patience).await.unwrap(), [ShardId(3)]);
}

#[tokio::test]
async fn a_reader_at_the_end_goes_on_when_there_is_more() {
    let log = log();
    let leader = lead(&log, "a").await;
    let mut reader = Reader::open(log.clone(), None).await.unwrap();
    assert!(reader.next().await.unwrap().is_some());
    assert_eq!(reader.next().await.unwrap(), None);
    // Told of an object that is not there yet.
    reader.expect(2);
    assert_eq!(reader.next().await.unwrap(), None);
    let position = leader.append(at(1), &record(1)).await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap().position, position);
    assert_eq!(reader.next().await.unwrap(), None);
    assert_eq!(reader.position(), Some(position));
}

#[tokio::test]
async fn a_reader_knows_that_it_has_come_to_where_a_listing_ended_also_while_others_write() {
    for log in [log(), log().asking_by_name()] {
        let leader = lead(&log, "a").await;
        let mut reader = Reader::open(log.clone(), None).await.unwrap();
        // One more comes with each that is read.
        for seq in 1..=40 {
            leader.append(at(seq), &record(seq)).await.unwrap();
        }
        let mut ends = 0;
        for seq in 41..=1_000 {
            leader.append(at(seq), &record(seq)).await.unwrap();
            let listings = reader.listings();
            assert!(reader.next().await.unwrap().is_some());
            ends += u32::from(reader.listings() > listings);
        }
        assert!(ends > 1, "{ends} listings");
        while !reader.has_given_all_listed() {
            leader.append(at(2_000), &record(2_000)).await.unwrap();
            reader.next().await.unwrap().unwrap();
        }
        assert!(reader.next().await.unwrap().is_some(), "that is not the end of the log");
    }
}

#[tokio::test]
async fn an_old_leader_is_fenced_and_stays_so() {
    let log = log();
    let old = lead(&log, "old").await;
    old.append(at(5), &record(1)).await.unwrap();
    let new = lead(&log, "new").await;
    assert_eq!((new.term(), new.stamp().await), (2, at(5)));
    match old.append(at(6), &record(2)).await.unwrap_err() {
        LogError::Fenced { term: 1, later: 2, number: 3, by, .. } => assert_eq!(by, "new"),
        other => panic!("{other}"),
    }
    assert!(matches!(old.append(at(6), &record(2)).await, Err(LogError::Poisoned { .. })));
    new.append(at(6), &record(3)).await.unwrap();
    assert_eq!(seqs(&read_all(&log, None).await.unwrap()), [1, 3]);
}

#[tokio::test]
async fn an_old_leader_is_fenced_also_when_the_log_was_cut_above_it() {
    let log = log();
    let old = lead(&log, "old").await;
    let new = lead(&log, "new").await;
    for seq in 1..=5 {
        new.append(at(seq), &record(seq)).await.unwrap();
    }
    // Objects 1 and 2 are openings; 3 to 6 go.
    assert_eq!(new.truncate_before(Position { term: 2, number: 7 }).await.unwrap(), 4);
    assert_eq!(new.truncate_before(Position { term: 2, number: 7 }).await.unwrap(), 0);
    assert!(matches!(old.append(at(9), &record(9)).await, Err(LogError::Fenced { .. })));
    match read_all(&log, None).await.unwrap_err() {
        LogError::Cut { wanted: 1, begin: 7, .. } => {}
        other => panic!("{other}"),
    }
    let behind = Some(Position { term: 2, number: 6 });
    assert!(matches!(read_all(&log, behind).await, Err(LogError::Cut { .. })));
    assert_eq!(read_all(&log, Some(new.position().await)).await.unwrap(), []);
}

/// A candidate that was slow puts its opening at a name that a cut has freed.
#[tokio::test]
async fn an_opening_below_a_cut_is_void() {
    let log = log();
    let leader = lead(&log, "a").await;
    let mut slow = Reader::open(log.clone(), None).await.unwrap();
    slow.next().await.unwrap();
    let tip = slow.tip();
    let mut behind = Reader::open(log.clone(), Some(tip.position())).await.unwrap();
    for seq in 1..=4 {
        leader.append(at(seq), &record(seq)).await.unwrap();
    }
    leader.truncate_before(leader.position().await).await.unwrap();
    let head = ObjectHead {
        kind: ObjectKind::Opening,
        cluster: log.cluster,
        shard: log.shard,
        number: 2,
        term: 2,
        token: 5,
        stamp: tip.stamp,
        previous: tip.checksum,
        opening: 1,
        leader: "slow".into(),
    };
    let (bytes, _) = head.encode(&EncodedEntries::default());
    log.put_settled(2, bytes, 5).await.unwrap();
    assert!(matches!(log.not_cut(2).await, Err(LogError::Cut { wanted: 2, begin: 5, .. })));
    assert!(matches!(behind.next().await, Err(LogError::Cut { .. })));
    leader.append(at(9), &record(9)).await.unwrap();
}

#[tokio::test]
async fn a_foreign_position_is_told() {
    let log = log();
    let leader = lead(&log, "a").await;
    leader.append(at(1), &record(1)).await.unwrap();
    for position in [Position { term: 2, number: 2 }, Position { term: 1, number: 3 }] {
        match read_all(&log, Some(position)).await.unwrap_err() {
            LogError::Diverged { number, .. } => assert_eq!(number, position.number),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_hole_and_a_broken_chain_end_reading() {
    let log = log();
    let leader = lead(&log, "a").await;
    for seq in 1..=3 {
        leader.append(at(seq), &record(seq)).await.unwrap();
    }
    let kept = log.bucket.get(&log.name(3), OBJECT_MAX).await.unwrap().unwrap();
    log.bucket.delete(&log.name(3)).await.unwrap();
    let error = read_all(&log, None).await.unwrap_err();
    assert!(error.to_string().starts_with("log/3/00000000000000000003: is missing"), "{error}");

    let mut other = decode("x", &kept).unwrap().head;
    other.previous ^= 1;
    let (bytes, _) = other.encode(&record(2));
    log.bucket.put_over(&log.name(3), bytes).await.unwrap();
    let error = read_all(&log, None).await.unwrap_err();
    assert!(error.to_string().ends_with("does not follow the object before it"), "{error}");

    let mut bytes = kept.to_vec();
    bytes[130] ^= 1;
    log.bucket.put_over(&log.name(3), bytes.into()).await.unwrap();
    let error = read_all(&log, None).await.unwrap_err();
    assert!(error.to_string().ends_with("has a wrong checksum"), "{error}");
}

#[tokio::test]
async fn what_is_too_large_or_too_old_changes_nothing() {
    let log = log();
    let leader = lead(&log, "a").await;
    leader.append(at(5), &record(1)).await.unwrap();
    let error = leader.append(at(4), &record(2)).await.unwrap_err();
    assert!(matches!(error, LogError::Backwards { given: 4, last: 5, .. }), "{error}");
    let long = vec![0; (OBJECT_MAX / 2) as usize];
    let twice = [EntryRef { seq: 1, kind: 1, payload: &long }; 2];
    assert!(matches!(EncodedEntries::new(&twice), Err(LogError::TooLarge { .. })));
    assert!(LeaderName::new("").is_err() && LeaderName::new("x".repeat(256)).is_err());
    leader.append(at(5), &record(2)).await.unwrap();
}

fn example() -> (ObjectHead, EncodedEntries) {
    let head = ObjectHead {
        kind: ObjectKind::Records,
        cluster: Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        shard: ShardId(3),
        number: 4,
        term: 2,
        token: 5,
        stamp: Stamp { catalogue_version: 6, timestamp: 7 },
        previous: 8,
        opening: 3,
        leader: "node-1".into(),
    };
    let entries = [
        EntryRef { seq: 10, kind: 2, payload: b"one" },
        EntryRef { seq: 11, kind: 3, payload: b"" },
    ];
    (head, EncodedEntries::new(&entries).unwrap())
}

/// Bytes of a version that is out in the world do not change.
#[test]
fn an_object_has_the_bytes_that_were_written_first() {
    let (head, entries) = example();
    let (bytes, checksum) = head.encode(&entries);
    let shown: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    assert_eq!(shown, include_str!("golden.hex").split_whitespace().collect::<String>());
    let object = decode("x", &bytes).unwrap();
    assert_eq!((object.head, object.checksum), (head, checksum));
    assert_eq!(object.entries[0].payload, b"one");
    assert_eq!((object.entries[1].seq, object.entries[1].kind), (11, 3));
}

#[test]
fn every_flipped_byte_and_every_cut_is_noticed() {
    let (head, entries) = example();
    let (bytes, _) = head.encode(&entries);
    for at in 0..bytes.len() {
        let mut other = bytes.to_vec();
        other[at] ^= 0x01;
        assert!(decode("x", &other).is_err(), "byte {at}");
        assert!(decode("x", &bytes[..at]).is_err(), "{at} bytes");
    }
}

/// Fields that claim more than is there are refused although the checksum is right.
#[test]
fn hostile_counts_are_refused_before_anything_is_allocated() {
    let (head, entries) = example();
    let (bytes, _) = head.encode(&entries);
    for (at, claim) in [(104, u32::MAX), (104, 3), (HEAD_BYTES + 6 + 9, u32::MAX)] {
        let mut other = bytes[..bytes.len() - CHECKSUM_BYTES].to_vec();
        other[at..at + 4].copy_from_slice(&claim.to_le_bytes());
        crate::objects::seal(&mut other);
        let error = decode("x", &other).unwrap_err();
        assert!(error.to_string().contains("wrong fields"), "{error}");
    }
}

/// The byte table in the documentation is that of the code.
#[test]
fn the_documented_bytes_are_those_of_the_code() {
    let document = include_str!("../../../../docs/store-format.md");
    let section = document.split("\n## ").find(|it| it.starts_with("Object of a log")).unwrap();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit())
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut offset = 0;
    for row in &rows {
        assert_eq!(row[0].parse::<usize>().unwrap(), offset, "{row:?}");
        offset += row[1].parse::<usize>().unwrap();
    }
    assert_eq!(offset, HEAD_BYTES);
    let (head, entries) = example();
    let (bytes, _) = head.encode(&entries);
    let at = |field: &str| {
        let row = rows.iter().find(|row| row[2].starts_with(field)).unwrap_or_else(|| {
            panic!("{field} is in no row");
        });
        let (from, length) = (row[0].parse::<usize>().unwrap(), row[1].parse::<usize>().unwrap());
        bytes[from..from + length].iter().rev().fold(0u128, |all, it| all << 8 | u128::from(*it))
    };
    assert_eq!(at("magic"), u128::from(u64::from_le_bytes(MAGIC)));
    assert_eq!(at("version"), u128::from(VERSION));
    assert_eq!(at("kind"), 2);
    assert_eq!(at("uuid"), u128::from_le_bytes(*head.cluster.as_bytes()));
    for (field, value) in [
        ("shard", 3),
        ("number of the object", 4),
        ("term", 2),
        ("token", 5),
        ("version of the catalogue", 6),
        ("timestamp", 7),
        ("checksum of the object before", 8),
        ("number of the opening", 3),
        ("records", 2),
        ("length of the leader", 6),
    ] {
        assert_eq!(at(field), value, "{field}");
    }
    for number in [OBJECT_MAX, ENTRIES_MAX as u64, LEADER_MAX as u64] {
        assert!(section.contains(&number.to_string()), "{number}");
    }
}
