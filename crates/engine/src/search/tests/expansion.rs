//! Expansions for a search whose list is kept elsewhere.

use std::collections::{HashMap, HashSet};

use super::fixture::{DEGREE, Fixture};
use super::machine::run;
use crate::distance::QueryDistance;
use crate::format::PageView;
use crate::search::candidates::{Candidate, CandidateProgress};
use crate::search::deferred::NO_STASH;
use crate::search::frontier::Expanding;
use crate::search::{
    CandidateList, Expanded, Expansion, Frontier, FrontierError, Owned, PageSource, Policy,
    SearchParams, SearchState, SearchStats,
};
use crate::types::{NodeId, PageId};

fn expand(fixture: &Fixture, frontier: &Frontier) -> (Expansion, SearchStats) {
    let view = fixture.view();
    frontier.check(&view).unwrap();
    let mut state = SearchState::new(&view);
    // What went before leaves nothing behind.
    state.begin(&view, &frontier.query, &SearchParams::default(), None).unwrap();
    assert_eq!(state.expansion(), None);
    state.begin_expansion(&view, frontier).unwrap();
    run(fixture, &mut state);
    (state.expansion().expect("it is one"), state.stats())
}

fn frontier(query: &[u8], nodes: &[u32], bound: f32, most: usize) -> Frontier {
    let nodes = nodes.iter().copied().map(NodeId).collect();
    Frontier { query: query.to_vec(), nodes, bound, most, packed: false }
}

fn neighbours(fixture: &Fixture, node: u32) -> Vec<u32> {
    let page = fixture.layout.page_of(NodeId(node));
    let slot = node - fixture.layout.node(page, 0).0;
    let mut ids = Vec::new();
    PageView::new(&fixture.layout, &fixture.pages[page.0 as usize])
        .neighbours_append(slot as usize, &mut ids);
    ids
}

#[test]
fn every_node_is_read_once_and_all_its_neighbours_are_scored() {
    let fixture = Fixture::new(1500);
    let query = &fixture.queries(1)[0];
    let nodes = [700, 3, 4, 5, 1200, 9];
    let (found, stats) = expand(&fixture, &frontier(query, &nodes, f32::INFINITY, 4000));
    let mut read: Vec<u32> = found.expanded.iter().map(|e| e.node.0).collect();
    read.sort_unstable();
    assert_eq!(read, [3, 4, 5, 9, 700, 1200]);
    let pages: HashSet<PageId> =
        nodes.iter().map(|&node| fixture.layout.page_of(NodeId(node))).collect();
    assert_eq!((stats.reads, stats.hops), (pages.len() as u64, 6));
    let view = fixture.view();
    let exact = QueryDistance::new(fixture.metric, view.layout.vector_type(), query);
    for e in &found.expanded {
        assert_eq!(e.distance, exact.distance(fixture.set().row(e.node.0 as usize)));
        assert_eq!(e.row.unwrap().0, u64::from(e.node.0) + 1000);
    }
    assert!(found.expanded.is_sorted_by_key(|e| e.distance));
    assert!(found.neighbours.is_sorted_by_key(|(distance, _)| *distance));
    let told: HashSet<u32> = found.neighbours.iter().map(|(_, node)| node.0).collect();
    assert_eq!(told.len(), found.neighbours.len(), "each once");
    let all: HashSet<u32> = nodes.iter().flat_map(|&node| neighbours(&fixture, node)).collect();
    assert_eq!(told, all.into_iter().filter(|node| !nodes.contains(node)).collect());
    // What is beyond the bound, or behind the last that is wanted, is not told.
    let bound = found.neighbours[20].0;
    let (below, _) = expand(&fixture, &frontier(query, &nodes, bound, 4000));
    let near = found.neighbours.iter().filter(|(distance, _)| *distance < bound);
    assert!(below.neighbours.iter().eq(near));
    assert_eq!(below.expanded, found.expanded);
    let (few, _) = expand(&fixture, &frontier(query, &nodes, f32::INFINITY, 7));
    assert_eq!(few.neighbours, found.neighbours[..7]);
}

#[test]
fn packed_every_record_of_a_page_is_told_and_what_is_near_is_explored() {
    let fixture = Fixture::new(1500);
    let query = &fixture.queries(1)[0];
    let nodes = [700, 3];
    let packed = |bound| Frontier { packed: true, ..frontier(query, &nodes, bound, 4000) };
    let (found, stats) = expand(&fixture, &packed(f32::INFINITY));
    let page = |node: u32| fixture.layout.page_of(NodeId(node));
    let beside: Vec<u32> =
        (0..1500).filter(|other| nodes.iter().any(|node| page(*node) == page(*other))).collect();
    let mut read: Vec<u32> = found.expanded.iter().map(|e| e.node.0).collect();
    read.sort_unstable();
    assert_eq!(read, beside);
    assert_eq!((stats.reads, stats.hops), (2, beside.len() as u64));
    let exact = QueryDistance::new(fixture.metric, fixture.layout.vector_type(), query);
    for e in &found.expanded {
        assert_eq!(e.distance, exact.distance(fixture.set().row(e.node.0 as usize)));
        assert_eq!(e.row.unwrap().0, u64::from(e.node.0) + 1000);
    }
    assert!(found.expanded.is_sorted_by_key(|e| e.distance));
    let told: HashSet<u32> = found.neighbours.iter().map(|(_, node)| node.0).collect();
    assert_eq!(told.len(), found.neighbours.len(), "each once");
    let all: HashSet<u32> = beside.iter().flat_map(|&node| neighbours(&fixture, node)).collect();
    assert_eq!(told, all.into_iter().filter(|node| !beside.contains(node)).collect());
    // What was asked for is explored however far it is, and what lies beside it only where it is near.
    let bound = found.expanded[2].distance;
    let (below, stats) = expand(&fixture, &packed(bound));
    assert_eq!(below.expanded, found.expanded);
    let explored = |e: &&Expanded| nodes.contains(&e.node.0) || e.distance < bound;
    assert_eq!(stats.hops, found.expanded.iter().filter(explored).count() as u64);
    assert!(found.early_stop, "codes say how far candidates are");
    let (alone, _) = expand(&fixture, &frontier(query, &nodes, f32::INFINITY, 4000));
    assert!(!alone.early_stop && alone.expanded.len() == 2);
}

#[test]
fn however_many_neighbours_are_met_twice_as_many_are_kept_as_may_be_told() {
    for most in [0, 7, 1500] {
        let mut expanding = Expanding::default();
        expanding.begin(most, false);
        for node in 0..10_000 {
            expanding.meet((node * 7919 % 10_000) as f32, NodeId(node));
            assert!(expanding.met.len() <= 2 * most.max(1024));
        }
        let told: Vec<f32> = expanding.end().neighbours.iter().map(|of| of.0).collect();
        assert!(told.iter().copied().eq((0..most).map(|at| at as f32)), "{most}");
    }
}

/// A best-first search whose list is kept here, one expansion at a time at whoever has the page.
fn kept_here(fixture: &mut Fixture, query: &[u8], list_len: usize) -> (Vec<u64>, u64) {
    let half = fixture.pages.len() as u32 / 2;
    let (mut list, mut seen) = (CandidateList::new(list_len), HashSet::new());
    let (mut rows, mut reads) = (Vec::new(), 0);
    let (first, _) = expand(fixture, &frontier(query, &[], f32::INFINITY, list_len));
    let mut met = first.neighbours;
    loop {
        for (distance, node) in met {
            if distance < list.bound() && seen.insert(node) {
                let (stash, progress) = (NO_STASH, CandidateProgress::Unread);
                list.insert(Candidate { distance, node, stash, progress, allowed: true });
            }
        }
        let Some(next) = list.first_unread(list_len) else { break };
        let entry = list.remove_at(next);
        let page = fixture.layout.page_of(entry.node);
        let own = if page.0 < half { 0..half } else { half..fixture.pages.len() as u32 };
        fixture.owned = Some(Owned::new([own]));
        let asked = frontier(query, &[entry.node.0], list.bound(), list_len + seen.len());
        let (found, stats) = expand(fixture, &asked);
        reads += stats.reads;
        let read = found.expanded[0];
        list.insert(Candidate {
            distance: read.distance,
            progress: CandidateProgress::Explored,
            ..entry
        });
        rows.push((read.distance, read.row.unwrap().0));
        met = found.neighbours;
    }
    fixture.owned = None;
    rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
    (rows.into_iter().map(|(_, row)| row).take(10).collect(), reads)
}

#[test]
fn one_node_at_a_time_is_the_search_of_one_server() {
    let mut fixture = Fixture::new(2000);
    let params = SearchParams { k: 10, list: 30, policy: Policy::beam(1), ..Default::default() };
    for query in fixture.queries(20) {
        let (rows, reads) = kept_here(&mut fixture, &query, 30);
        let view = fixture.view();
        let mut state = SearchState::new(&view);
        state.begin(&view, &query, &params, None).unwrap();
        run(&fixture, &mut state);
        let whole: Vec<u64> = state.hits().iter().take(10).map(|hit| hit.row.0).collect();
        assert_eq!((rows, reads), (whole, state.stats().reads));
    }
}

#[test]
fn what_cannot_be_expanded_here_is_named() {
    let mut fixture = Fixture::new(1000);
    let query = fixture.queries(1).remove(0);
    let own = 0..20;
    fixture.owned = Some(Owned::new([own]));
    let view = fixture.view();
    let elsewhere = fixture.layout.node(PageId(20), 0).0;
    let many: Vec<u32> = (0..513).collect();
    let refused: HashMap<&str, Frontier> = HashMap::from([
        ("node 4294967295 is beyond the index", frontier(&query, &[1, u32::MAX], 0.0, 1)),
        ("node 7 is named twice", frontier(&query, &[7, 1, 7], 0.0, 1)),
        ("the bound of an expansion is NaN", frontier(&query, &[7], f32::NAN, 1)),
        ("nodes to expand is 513, but may be 512 at most", frontier(&query, &many, 0.0, 1)),
        (
            "neighbours to tell is 65537, but may be 65536 at most",
            frontier(&query, &[7], 0.0, 65_537),
        ),
    ]);
    for (words, asked) in refused {
        assert_eq!(asked.check(&view).unwrap_err().to_string(), words);
    }
    let refused = frontier(&query, &[elsewhere], 0.0, 1).check(&view);
    assert_eq!(refused, Err(FrontierError::NotHere(elsewhere)));
    assert_eq!(frontier(&query, &[elsewhere - 1], 0.0, DEGREE).check(&view), Ok(()));
}
