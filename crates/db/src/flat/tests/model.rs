//! Random operations, and a naive search.

use proptest::prelude::*;

use super::*;
use crate::flat::{FlatError, VectorPressure};
use crate::ids::ErrorClass;

#[derive(Clone, Debug)]
enum Op {
    Append {
        rows: usize,
        vectors: Vec<[u8; DIM]>,
        backwards: bool,
    },
    Repeat,
    Flush,
    /// Keeps the rows that are no multiple.
    Retain(u64),
    /// Drops the vectors without a flush and replays the log.
    Crash,
    Search {
        queries: Vec<[u8; DIM]>,
        k: usize,
        metric: u8,
        modulus: u64,
        threads: usize,
    },
}

fn vector() -> impl Strategy<Value = [u8; DIM]> {
    // Few values, so that distances are often equal.
    proptest::array::uniform5(0u8..4)
}

fn op() -> impl Strategy<Value = Op> {
    let queries = proptest::collection::vec(vector(), 1..4);
    prop_oneof![
        5 => (0usize..9, proptest::collection::vec(vector(), 9), any::<bool>())
            .prop_map(|(rows, vectors, backwards)| Op::Append { rows, vectors, backwards }),
        1 => Just(Op::Repeat),
        3 => Just(Op::Flush),
        1 => (1u64..4).prop_map(Op::Retain),
        1 => Just(Op::Crash),
        4 => (queries, 0usize..12, 0u8..3, 1u64..4, 1usize..4).prop_map(
            |(queries, k, metric, modulus, threads)| {
                Op::Search { queries, k, metric, modulus, threads }
            }
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 200, ..Default::default() })]

    #[test]
    fn any_operations_leave_what_the_model_has(ops in proptest::collection::vec(op(), 1..30)) {
        let dir = tempfile::tempdir().unwrap();
        // All that was appended, and the same without what was given up.
        let (mut log, mut left, mut next_row) = (Vec::<Batch>::new(), Vec::<Batch>::new(), 0);
        let mut ops = ops.into_iter().peekable();
        while ops.peek().is_some() {
            let flat = open(dir.path());
            prop_assert_eq!(flat.applied(), flat.durable());
            replay(&flat, &log);
            assert_holds(&flat, &left);
            for op in ops.by_ref() {
                match op {
                    Op::Append { rows, vectors, backwards } => {
                        let mut batch: Batch = (next_row..).zip(vectors).take(rows).collect();
                        next_row += rows as u64;
                        if backwards {
                            batch.reverse();
                        }
                        log.push(batch.clone());
                        left.push(batch);
                        replay(&flat, &log);
                    }
                    Op::Repeat => append(&flat, log.len() as u64, &[(next_row, [9; DIM])]),
                    Op::Flush => prop_assert_eq!(flat.flush().unwrap().0, log.len() as u64),
                    Op::Retain(modulus) => {
                        let keep = |row: u64| !row.is_multiple_of(modulus);
                        let durable = flat.retain(&|row| keep(row.0)).unwrap();
                        prop_assert_eq!(durable.0, log.len() as u64);
                        left.iter_mut().for_each(|batch| batch.retain(|row| keep(row.0)));
                    }
                    Op::Crash => break,
                    Op::Search { queries, k, metric, modulus, threads } => {
                        let metric = Metric::from_code(u16::from(metric) + 1).unwrap();
                        let allow = |row: RowId| row.0.is_multiple_of(modulus);
                        let search = FlatSearch { k, metric, within: DistanceRange::default(), threads, from: RowId(0) };
                        let bytes = queries.concat();
                        let found = flat.search(set(&bytes), search, &allow).unwrap();
                        prop_assert_eq!(found.len(), queries.len());
                        for (query, hits) in queries.iter().zip(found) {
                            prop_assert_eq!(hits, naive(&left, query, k, metric, allow));
                        }
                    }
                }
                assert_holds(&flat, &left);
            }
        }
    }
}

#[test]
fn many_blocks_are_searched_by_several_threads_as_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let flat = open(dir.path());
    // Some 4,700 rows fit a block: two segments of several blocks, and a tail.
    let log = log(30, 4000);
    for upto in [20, 25, 30] {
        replay(&flat, &log[..upto]);
        if upto < 30 {
            flat.flush().unwrap();
        }
    }
    assert_eq!(flat.view().segments.len(), 2);
    let queries: Vec<u8> = log[3].iter().take(5).flat_map(|row| row.1).collect();
    let allow = |row: RowId| row.0 % 7 != 3;
    let last = log.iter().flatten().map(|(row, _)| *row).max().unwrap();
    // Among rows of segments, of the tail, and beyond.
    for (threads, from) in
        [(1, 0), (2, 0), (5, 0), (1, last / 2), (2, last - 1000), (1, last), (1, last + 1)]
    {
        let from = RowId(from);
        let search = FlatSearch {
            k: 20,
            metric: Metric::L2,
            within: DistanceRange::default(),
            threads,
            from,
        };
        let found = flat.search(set(&queries), search, &allow).unwrap();
        let wanted = |row| row >= from && allow(row);
        for (i, hits) in found.iter().enumerate() {
            assert_eq!(*hits, naive(&log, set(&queries).row(i), 20, Metric::L2, wanted));
        }
    }
    assert_holds(&flat, &log);
}

#[test]
fn a_full_tail_asks_for_a_flush_and_then_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let limits = FlatOptions { tail_bytes: 13_000, ..options() };
    let flat = FlatVectors::open(dir.path(), &limits).unwrap();
    let (rows, bytes): (Vec<_>, _) = ((0..100).map(RowId).collect(), [1; 100 * DIM]);
    let pressures: Vec<_> =
        (1..=10).map(|seq| flat.append(Seq(seq), &rows, set(&bytes)).unwrap()).collect();
    assert_eq!(
        pressures[3..6],
        [VectorPressure::Low, VectorPressure::Flush, VectorPressure::Flush]
    );
    let refused = flat.append(Seq(11), &rows, set(&bytes)).unwrap_err();
    assert!(matches!(refused, FlatError::TailFull { held: 13_000, .. }), "{refused}");
    assert_eq!((refused.class(), flat.applied()), (ErrorClass::Retry, Seq(10)));
    assert_eq!(flat.flush().unwrap(), Seq(10));
    assert_eq!(flat.append(Seq(11), &rows, set(&bytes)).unwrap(), VectorPressure::Low);
}

#[test]
fn vectors_of_another_shape_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let flat = open(dir.path());
    let wide = VectorSet::new(&[0; 6], 6, VectorType::U8).unwrap();
    let refused = flat.append(Seq(1), &[RowId(1)], wide).unwrap_err();
    assert_eq!(refused.to_string(), "vectors of 6 u8, where 5 u8 are expected");
    assert_eq!((refused.class(), flat.applied()), (ErrorClass::FixInput, Seq(0)));
    let search = FlatSearch {
        k: 1,
        metric: Metric::L2,
        within: DistanceRange::default(),
        threads: 1,
        from: RowId(0),
    };
    let refused = flat.search(wide, search, &|_| true).unwrap_err();
    assert!(matches!(refused, FlatError::Shape { .. }), "{refused}");
}

#[test]
fn searches_see_whole_batches_while_appends_and_flushes_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let flat = open(dir.path());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for seq in 1..=300u64 {
                let batch: Batch = (0..8).map(|i| (seq * 8 + i, [seq as u8; DIM])).collect();
                append(&flat, seq, &batch);
                if seq % 10 == 0 {
                    flat.flush().unwrap();
                }
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let search = FlatSearch {
            k: usize::MAX >> 1,
            metric: Metric::L2,
            within: DistanceRange::default(),
            threads: 2,
            from: RowId(0),
        };
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let before = flat.applied().0;
            let hits = flat.search(set(&[0; DIM]), search, &|_| true).unwrap().remove(0);
            assert_eq!(hits.len() % 8, 0, "half a batch was seen");
            assert!(hits.len() as u64 >= before * 8, "an applied batch was not seen");
            let mut rows: Vec<_> = hits.iter().map(|hit| hit.row).collect();
            rows.sort_unstable();
            rows.dedup();
            assert_eq!(rows.len(), hits.len(), "a row was seen twice");
        }
    });
    assert_eq!(flat.len(), 2400);
}

#[test]
fn an_export_is_what_a_bulk_build_reads() {
    let dir = tempfile::tempdir().unwrap();
    let flat = open(&dir.path().join("f"));
    let log = log(3, 100);
    replay(&flat, &log[..2]);
    flat.flush().unwrap();
    replay(&flat, &log);
    let path = dir.path().join("base.u8bin");
    let rows = flat.export(&path, |row| row.0 % 3 == 0).unwrap();
    let kept: Vec<_> = log.iter().flatten().filter(|row| row.0 % 3 == 0).collect();
    assert_eq!(rows, kept.iter().map(|row| RowId(row.0)).collect::<Vec<_>>());
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[..8], [100, 0, 0, 0, DIM as u8, 0, 0, 0]);
    assert_eq!(bytes[8..], kept.iter().flat_map(|row| row.1).collect::<Vec<_>>());
    let again = flat.export(&path, |_| true).unwrap_err();
    assert!(again.to_string().contains("base.u8bin"), "{again}");
}

#[test]
fn a_flush_in_another_thread_keeps_each_row_once() {
    let dir = tempfile::tempdir().unwrap();
    let (log, flat) = (log(2000, 4), open(dir.path()));
    let (begins, flush_begins) = std::sync::mpsc::sync_channel(0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let begins = begins;
            while begins.send(()).is_ok() {
                let before = flat.applied();
                let durable = flat.flush().unwrap();
                assert!(before <= durable && durable <= flat.applied());
            }
        });
        // A piece of the log beside each of ten flushes, and the last one beside none.
        for upto in (1..=10).map(|part| part * log.len() / 10) {
            flush_begins.recv().unwrap();
            replay(&flat, &log[..upto]);
        }
        drop(flush_begins);
    });
    assert_holds(&flat, &log);
    let durable = flat.durable();
    drop(flat);
    let flat = open(dir.path());
    assert_eq!(flat.applied(), durable);
    assert_holds(&flat, &log[..durable.0 as usize]);
    replay(&flat, &log);
    assert_holds(&flat, &log);
}
