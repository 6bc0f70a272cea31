//! A graph whose pages are laid out anew while its rows are looked for.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeann_engine::distance::QueryDistance;
use pipeann_engine::index::{OpenError, QueryError};
use pipeann_engine::io::ReadFault;
use pipeann_engine::memory::Accountant;
use pipeann_engine::search::{QueryJob, ReadFailure, SearchError, SearchParams};
use pipeann_engine::types::VectorSet;
use pipeann_engine::update::UpdateError;
use roaring::RoaringTreemap;

use super::{
    AllowedRows, BuildProgress, BuildRequest, FieldIndex, FieldIndexError, GraphHit, GraphOptions,
    GraphOutcome, StillWanted, build,
};
use crate::catalog::Properties;
use crate::flat::{FlatOptions, FlatVectors};
use crate::ids::{ErrorClass, Metric, RowId, Seq, VectorType};

const DIM: usize = 8;
const FIELD: u32 = 100;
const ALWAYS: StillWanted<'static> = StillWanted { now: &|| true, between: &|| true };

fn vector(row: u64) -> [u8; DIM] {
    let x = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes()
}

/// A graph over the rows from 0 to `rows`.
fn built(dir: &Path, rows: u64) -> FieldIndex {
    let accountant = Accountant::new(None);
    let flat = FlatOptions {
        accountant: accountant.clone(),
        ..FlatOptions::new(*b"a field's own id", DIM, VectorType::U8)
    };
    let flat = FlatVectors::open(&dir.join("flat"), &flat).unwrap();
    let ids: Vec<RowId> = (0..rows).map(RowId).collect();
    let bytes: Vec<u8> = (0..rows).flat_map(vector).collect();
    flat.append(Seq(1), &ids, VectorSet::new(&bytes, DIM, VectorType::U8).unwrap()).unwrap();
    let live: RoaringTreemap = (0..rows).collect();
    let request = BuildRequest {
        vectors: &flat,
        dim: DIM,
        vector_type: VectorType::U8,
        live: &live,
        applied: Seq(1),
        any_scale: false,
        metric: Metric::L2,
        parameters: &Properties::default(),
    };
    let options = GraphOptions { direct: false, ..GraphOptions::default() };
    let graph = dir.join("graph");
    build(&request, &graph, (&options, &accountant), &BuildProgress::default()).unwrap();
    let graph = FieldIndex::open(&graph, FIELD, &options, &accountant).unwrap();
    graph.begin(&live, &graph.rows_in_graph());
    graph
}

fn link(graph: &FieldIndex, rows: std::ops::Range<u64>) {
    graph.add(rows.clone().map(RowId));
    let vectors: Vec<_> = rows.map(|row| (RowId(row), vector(row))).collect();
    let rows: Vec<_> = vectors.iter().map(|(row, vector)| (*row, &vector[..])).collect();
    let mut links = Vec::new();
    graph.link(&rows, &mut links).unwrap();
    assert_eq!(links.len(), rows.len());
    assert!(links.iter().all(|link| link.field == FIELD));
}

fn search(
    graph: &FieldIndex,
    query: &[u8],
    params: &SearchParams,
    among: AllowedRows<'_>,
) -> Vec<GraphHit> {
    let job = QueryJob { number: 0, query, params };
    graph.search_together(&[job], among, ALWAYS).remove(0).unwrap().0
}

/// How many of the ten nearest of `among` are found, over some queries.
fn found(graph: &FieldIndex, among: AllowedRows<'_>, params: &SearchParams) -> usize {
    let mut right = 0;
    for query in (0..50u64).map(|q| vector(1_000_000 + q)) {
        let distance = QueryDistance::new(Metric::L2, VectorType::U8, &query);
        let mut all: Vec<(f32, u64)> =
            among.rows.iter().map(|row| (distance.distance(&vector(row)), row)).collect();
        all.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let hits = search(graph, &query, params, among);
        assert_eq!(hits.len(), 10);
        assert!(hits.iter().all(|hit| among.rows.contains(hit.row.0)), "{hits:?}");
        right += hits.iter().filter(|hit| all[..10].iter().any(|a| a.1 == hit.row.0)).count();
    }
    right
}

#[test]
fn a_graph_whose_directory_another_one_has_got_has_ended() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let graph = built(dir.path(), 1_000);
    drop(built(other.path(), 500));
    link(&graph, 1_000..1_010);
    std::fs::remove_dir_all(dir.path().join("graph")).unwrap();
    std::fs::rename(other.path().join("graph"), dir.path().join("graph")).unwrap();
    assert!(!graph.has_ended());
    graph.checkpoint(Seq(2)).unwrap();
    assert!(graph.is_changed() && graph.has_ended(), "it is not written, and opened again");
}

#[test]
fn a_row_whose_id_is_too_high_for_a_graph_is_refused_with_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let graph = built(dir.path(), 500);
    let (row, vector) = (RowId(1 << 32), vector(7));
    assert!(!graph.lacks_row_ids());
    graph.add([RowId(row.0 - 1), row]);
    assert!(graph.lacks_row_ids());
    let refused = graph.link(&[(row, &vector[..])], &mut Vec::new()).unwrap_err();
    assert!(refused.lacks_row_ids() && refused.class() == ErrorClass::FixInput, "{refused}");
    assert!(refused.explained().contains("bring its rows into a new collection"), "{refused}");
}

#[test]
fn rows_looked_up_before_a_layout_are_found_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let graph = built(dir.path(), 3_000);
    assert!(!graph.is_layout_due() && !graph.is_changed());
    link(&graph, 3_000..4_000);
    assert!(graph.is_layout_due(), "more than a fifth is new");
    let among: RoaringTreemap = (0..4_000).filter(|row| row % 2 == 0).collect();
    let allow = graph.allow(&among);
    let params = SearchParams { k: 10, list: 80, ..SearchParams::default() };
    let among = AllowedRows { rows: &among, nodes: Some(&allow) };
    let before = found(&graph, among, &params);
    assert!(before >= 475, "{before} of 500");
    graph.reorder(Seq(2)).unwrap();
    assert!(!graph.is_layout_due() && !graph.is_changed());
    assert_eq!(graph.applied(), Seq(2));
    let after = found(&graph, among, &params);
    assert!(after >= 475, "{after} of 500 by nodes from before the layout");
    let none = graph.allow(&(5_000..5_010).collect());
    let among = AllowedRows { nodes: Some(&none), ..among };
    assert!(search(&graph, &vector(7), &params, among).is_empty());
}

#[test]
fn a_row_that_is_there_or_that_nothing_can_find_is_not_linked_and_waits_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let graph = built(dir.path(), 3_000);
    graph.add([RowId(5), RowId(3_000), RowId(3_001)]);
    let (good, short) = (vector(3_000), [1u8; DIM - 1]);
    let mut links = Vec::new();
    let rows: [(RowId, &[u8]); 3] =
        [(RowId(5), &good), (RowId(3_000), &good), (RowId(3_001), &short)];
    graph.link(&rows, &mut links).unwrap();
    assert_eq!(links.iter().map(|link| link.row).collect::<Vec<_>>(), [RowId(3_000)]);
    assert!(graph.pending().is_empty(), "{:?}", graph.pending());
}

#[test]
fn a_graph_that_nobody_searches_keeps_no_drivers_from_the_second_rest_on() {
    let dir = tempfile::tempdir().unwrap();
    let graph = built(dir.path(), 1_000);
    assert!(!graph.trim(), "there was no search");
    let among: RoaringTreemap = (0..1_000).collect();
    let params = SearchParams { k: 10, list: 40, ..SearchParams::default() };
    let among = AllowedRows { rows: &among, nodes: None };
    for _ in 0..2 {
        assert_eq!(search(&graph, &vector(7), &params, among)[0].row, RowId(7));
        assert!(!graph.trim(), "there was one");
        assert!(graph.trim());
        assert!(!graph.trim(), "there is nothing left");
    }
}

/// Something of which as much as can be is damaged, but for what opening reads.
fn damage_pages(dir: &Path) {
    let part = dir.join("graph/part-0000");
    for file in std::fs::read_dir(part).unwrap().map(Result::unwrap) {
        if file.file_name().to_str().unwrap().starts_with("segment") {
            let mut bytes = std::fs::read(file.path()).unwrap();
            bytes.iter_mut().for_each(|byte| *byte ^= 1);
            std::fs::write(file.path(), bytes).unwrap();
        }
    }
}

#[test]
fn a_graph_whose_pages_are_damaged_says_so_once() {
    let dir = tempfile::tempdir().unwrap();
    let graph = built(dir.path(), 3_000);
    damage_pages(dir.path());
    let among: RoaringTreemap = (0..3_000).collect();
    let among = AllowedRows { rows: &among, nodes: None };
    let params = SearchParams { k: 10, list: 40, ..SearchParams::default() };
    let query = vector(7);
    let job = QueryJob { number: 0, query: &query, params: &params };
    let error = graph.search_together(&[job], among, ALWAYS).remove(0).unwrap_err();
    assert!(error.is_lasting_damage(), "{error}");
    assert!(graph.note_damage() && !graph.note_damage());
}

#[test]
fn a_graph_that_could_not_be_read_just_then_is_not_built_anew() {
    let refused = |error| FieldIndexError::Graph(UpdateError::Open(error));
    for (fault, retry) in [(ReadFault::Shortage, true), (ReadFault::Failed, false)] {
        let unread = refused(OpenError::Unread(ReadFailure { why: "codes".to_owned(), fault }));
        assert!(!unread.needs_build(), "{unread:?}");
        assert_eq!(unread.class() == ErrorClass::Retry, retry);
    }
    let kept = |errno| {
        let source = std::io::Error::from_raw_os_error(errno);
        !refused(OpenError::File { path: "MANIFEST".into(), source }).needs_build()
    };
    // Out of descriptors or memory, not permitted, and not read.
    assert!([24, 12, 13, 5].into_iter().all(kept));
    assert!(refused(OpenError::Damaged("codes".to_owned())).needs_build());
    assert!(refused(OpenError::NoIndex("graph".into())).needs_build());
}

#[test]
fn searches_that_nobody_waits_for_end_and_are_not_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let graph = built(dir.path(), 3_000);
    // None of the nearest rows lives, so each query is searched again, for more.
    let among: RoaringTreemap = (0..3_000).filter(|row| row % 50 == 0).collect();
    let among = AllowedRows { rows: &among, nodes: None };
    let params = SearchParams { k: 10, list: 40, ..SearchParams::default() };
    let queries: Vec<_> = (0..20).map(vector).collect();
    let numbered = queries.iter().enumerate();
    let jobs: Vec<_> =
        numbered.map(|(number, query)| QueryJob { number, query, params: &params }).collect();
    let times = AtomicU64::new(0);
    let between = || times.fetch_add(1, Ordering::Relaxed) < 3;
    let outcomes =
        graph.search_together(&jobs, among, StillWanted { now: &|| true, between: &between });
    let stopped = |outcome: &GraphOutcome| {
        matches!(outcome, Err(FieldIndexError::Search(QueryError::Search(SearchError::Stopped))))
    };
    assert!(outcomes[3..].iter().all(stopped), "{outcomes:?}");
    assert_eq!(times.into_inner(), 20 + 3 - outcomes.iter().filter(|o| o.is_ok()).count() as u64);
    let gone =
        graph.search_together(&jobs, among, StillWanted { now: &|| false, between: &|| true });
    assert!(gone.iter().all(stopped));
    let found = graph.search_together(&jobs, among, ALWAYS);
    assert!(found.iter().all(|outcome| outcome.as_ref().is_ok_and(|found| found.0.len() == 10)));
}
