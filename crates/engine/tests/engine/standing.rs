//! A graph taken out of an index and laid out in other partitions.

use std::sync::atomic::{AtomicBool, Ordering};

use pipeann_engine::build::{
    BuildError, BuildOptions, PartitionBy, Silent, SourceRows, StandingGraph, build_rows,
    repartition, repartition_limited,
};
use pipeann_engine::index::{Index, OpenOptions, StandingError};
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::{Metric, RowId, VectorType};

use crate::data::{build_in, clustered, open, open_options, options, truth};

/// Enough for what is laid out in files.
const LIMIT: u64 = 160 << 20;

/// Row ids and vectors, and of each row the edges in an order of their own.
fn parts(graph: &StandingGraph) -> (Vec<RowId>, Vec<u8>, Vec<Vec<u32>>) {
    let width = graph.manifest.layout.max_degree() + 1;
    let edges = graph.lists.chunks_exact(width).map(|list| {
        let mut edges = list[1..=list[0] as usize].to_vec();
        edges.sort_unstable();
        edges
    });
    (graph.ids.clone(), graph.vectors.clone(), edges.collect())
}

#[test]
fn other_partitions_hold_the_same_graph_and_find_the_same_rows() {
    let none = AtomicBool::new(false);
    let kinds = [(Metric::L2, VectorType::U8), (Metric::Cosine, VectorType::F32)];
    for (metric, ty) in kinds {
        let (base, queries) = (clustered(3000, 24, ty, 1), clustered(60, 24, ty, 2));
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let ids: Vec<_> = (0..3000).map(|at| RowId(2 * at + at / 1000)).collect();
        let rows = SourceRows { ids: &ids, applied: 77 };
        let built = options(metric);
        build_rows(base.set(), rows, &path("one"), &built, &Silent, &none).unwrap();
        let graph = || open(&path("one")).standing_graph(&mut |_| {}).unwrap();
        let expected = parts(&graph());
        assert_eq!((&expected.0, &expected.1), (&ids, &base.bytes));
        let truth = truth(&base, &queries, metric, 10);
        let mut recalls = Vec::new();
        for (name, partitions, by, limit) in [
            ("one", 1, PartitionBy::Graph, None),
            ("four", 4, PartitionBy::Graph, None),
            ("cut", 3, PartitionBy::Order, None),
            ("limited", 4, PartitionBy::Graph, Some(LIMIT)),
            ("limited-strewn", 5, PartitionBy::Random, Some(LIMIT)),
            ("limited-cut", 3, PartitionBy::Order, Some(LIMIT)),
        ] {
            if name != "one" {
                let options = BuildOptions { partitions, partition_by: by, ..built.clone() };
                if let Some(limit) = limit {
                    let one = open(&path("one"));
                    let files = one.standing_files(&path(name), &mut |_| {}).unwrap();
                    repartition_limited(&files, limit, &path(name), &options, &Silent, &none)
                        .unwrap();
                } else {
                    repartition(graph(), &path(name), &options, &Silent, &none).unwrap();
                }
            }
            let index = open(&path(name));
            let manifest = index.manifest();
            assert_eq!((manifest.partitions.len(), manifest.applied), (partitions, 77));
            assert_eq!(index.codebook(), open(&path("one")).codebook());
            assert_eq!(index.verify(&mut |_| {}).unwrap().damage, []);
            assert_eq!(parts(&index.standing_graph(&mut |_| {}).unwrap()), expected);
            let params = SearchParams { k: 10, list: 40, ..SearchParams::default() };
            let set = queries.set();
            let found: usize = (0..set.rows())
                .map(|q| {
                    let hits = index.search(set.row(q), &params, None).unwrap().hits;
                    let near = |row: RowId| truth[q].iter().any(|&at| ids[at as usize] == row);
                    hits.iter().filter(|hit| near(hit.row)).count()
                })
                .sum();
            recalls.push(found as f64 / (10 * set.rows()) as f64);
        }
        assert!(
            recalls[0] > 0.9 && recalls.iter().all(|r| (r - recalls[0]).abs() < 0.02),
            "{recalls:?}"
        );
        let tight = repartition_limited(
            &open(&path("one")).standing_files(&path("tight"), &mut |_| {}).unwrap(),
            1 << 20,
            &path("tight"),
            &BuildOptions { partitions: 4, ..built.clone() },
            &Silent,
            &none,
        );
        assert!(matches!(tight, Err(BuildError::MemoryLimit { limit: 0x10_0000, .. })));
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 6, "nothing but the indexes is left");
        // Whoever has a part only cannot lay it out.
        let own = OpenOptions { own: Some([1].into()), ..open_options() };
        let part = Index::open(&path("four"), &own).unwrap();
        assert!(matches!(part.standing_graph(&mut |_| {}), Err(StandingError::Partly)));
    }
}

#[test]
fn reading_a_graph_ends_when_told_to_and_with_the_first_page_that_is_damaged() {
    let base = clustered(3000, 24, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("one"), dir.path().join("to"));
    build_in(&from, &base, &options(Metric::L2));
    let index = open(&from);
    let pages = u64::from(index.pages());
    assert!(pages > 40, "more than are read at once");
    let cancel = AtomicBool::new(false);
    let mut done = 0;
    let mut told = |pages: u64| {
        done = pages;
        cancel.store(true, Ordering::Relaxed);
    };
    let stopped = index.standing_graph_until(&mut told, &cancel).unwrap_err();
    assert!(matches!(stopped, StandingError::Cancelled(_)), "{stopped}");
    let stopped = index.standing_files_until(&to, &mut |_| {}, &cancel).err().unwrap();
    assert!(matches!(stopped, StandingError::Cancelled(_)), "{stopped}");
    assert_eq!(done, 1, "not the other {pages} pages");

    let segment = from.join("part-0000").join("segment-000000.pages");
    let zeros = vec![0; std::fs::metadata(&segment).unwrap().len() as usize];
    std::fs::write(&segment, zeros).unwrap();
    let mut told = 0;
    let damaged = index.standing_files(&to, &mut |_| told += 1).err().unwrap();
    assert!(damaged.to_string().contains("segment-000000.pages"), "{damaged}");
    assert!(index.standing_graph(&mut |_| told += 1).is_err());
    assert_eq!(told, 0, "each page is damaged");
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 1, "nothing but the index is left");
}

#[test]
fn what_keeps_a_graph_from_being_laid_out_is_told_before_it_is_read() {
    let base = clustered(500, 24, VectorType::U8, 1);
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    build_in(&path("one"), &base, &options(Metric::L2));
    let index = open(&path("one"));
    let check = |limit, to: &str, options: &BuildOptions| {
        index.check_repartition(limit, &path(to), options).map_err(|e| match e {
            StandingError::Files(e) => e,
            other => panic!("{other}"),
        })
    };
    let options = BuildOptions { partitions: 2, ..options(Metric::L2) };
    for limit in [None, Some(LIMIT)] {
        check(limit, "to", &options).unwrap();
        let refused = check(limit, "one", &options).unwrap_err();
        assert!(matches!(refused, BuildError::Exists { .. }), "{refused}");
    }
    let refused = check(Some(1 << 20), "to", &options).unwrap_err();
    assert!(matches!(refused, BuildError::MemoryLimit { .. }), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
