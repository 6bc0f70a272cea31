//! A graph taken out of an index and laid out in other partitions.

use std::sync::atomic::AtomicBool;

use pipeann_engine::build::{
    BuildError, BuildOptions, PartitionBy, Silent, SourceRows, StandingGraph, build_rows,
    repartition, repartition_limited,
};
use pipeann_engine::index::{Index, OpenOptions, StandingError};
use pipeann_engine::search::SearchParams;
use pipeann_engine::types::{Metric, RowId, VectorType};

use crate::data::{clustered, open, open_options, options, truth};

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
