//! A graph in parts: searches that go on where the page is that they want next.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::fixture::{Fixture, Numbers};
use crate::filter::AllowSet;
use crate::search::allowed::AllowPlan;
use crate::search::{
    CandidateProgress, Hit, Issue, Origin, Owned, PageSource, Policy, PortableError, SearchParams,
    SearchState, SearchStats, Step,
};
use crate::types::{NodeId, PageId};

/// What a search found, which pages it read in which order, and what it cost.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) hits: Vec<Hit>,
    pub(super) reads: Vec<PageId>,
    pub(super) stats: SearchStats,
}

/// The part of each page: as many parts, by page ranges or at random.
pub(super) fn cut(pages: usize, parts: usize, at_random: bool) -> Vec<usize> {
    let mut numbers = Numbers(5);
    let random = |_| (numbers.next() % parts as u64) as usize;
    let in_order = |page: usize| page * parts / pages;
    if at_random { (0..pages).map(random).collect() } else { (0..pages).map(in_order).collect() }
}

pub(super) fn of_part(part_of: &[usize], part: usize) -> Owned {
    let own = part_of.iter().enumerate().filter(|(_, of)| **of == part);
    Owned::new(own.map(|(page, _)| page as u32..page as u32 + 1))
}

/// Searches over parts; `looks` is shown each state that is about to leave, with its part.
pub(super) fn walk(
    fixture: &mut Fixture,
    params: &SearchParams,
    query: &[u8],
    part_of: &[usize],
    looks: impl FnMut(&SearchState, &Owned, &Fixture),
) -> Walk {
    walk_among(fixture, params, query, part_of, None, looks)
}

/// What passes a filter of one byte, by a node's number.
pub(super) type Passes = fn(u32, u8) -> bool;

/// What a part knows of a filter: which of its own nodes pass.
fn resolved(fixture: &Fixture, filter: &[u8], passes: Passes) -> Arc<AllowSet> {
    let view = fixture.view();
    let per_page = fixture.layout.records_per_page() as u32;
    let nodes = |pages: &std::ops::Range<u32>| pages.start * per_page..pages.end * per_page;
    let known: Vec<_> = view.owned.unwrap().ranges().iter().map(nodes).collect();
    let own = known.iter().flat_map(Clone::clone).filter(|node| passes(*node, filter[0]));
    let own: Vec<_> = own.map(NodeId).collect();
    let allow = AllowSet::below(view.node_slots, own.len() as u64, own);
    Arc::new(allow.of_part(&known, view.node_slots))
}

/// The same among the nodes that pass a filter, by a plan.
pub(super) fn walk_among(
    fixture: &mut Fixture,
    params: &SearchParams,
    query: &[u8],
    part_of: &[usize],
    filter: Option<(u8, Passes, AllowPlan)>,
    mut looks: impl FnMut(&SearchState, &Owned, &Fixture),
) -> Walk {
    fixture.owned = Some(of_part(part_of, 0));
    let mut state = SearchState::new(&fixture.view());
    match filter {
        None => state.begin(&fixture.view(), query, params, None).unwrap(),
        Some((filter, passes, plan)) => {
            let allow = resolved(fixture, &[filter], passes);
            state.begin_filtered(&fixture.view(), query, params, allow, plan).unwrap();
            state.set_filter(&[filter]);
        }
    }
    let (mut waiting, mut reads) = (VecDeque::new(), Vec::new());
    loop {
        let view = fixture.view();
        match state.step(&view).unwrap() {
            Step::Read(page) => {
                assert!(view.owned.unwrap().holds(page), "it reads what is here");
                waiting.push_back(page);
                reads.push(page);
            }
            Step::Explored => {}
            Step::Wait => {
                let page = waiting.pop_front().expect("it waits for reads under way only");
                state.receive(&view, page, &fixture.pages[page.0 as usize]);
            }
            Step::Elsewhere(page) => {
                assert!(waiting.is_empty(), "nothing is under way when it leaves");
                looks(&state, view.owned.unwrap(), fixture);
                let mut bytes = Vec::new();
                state.export(&view, &mut bytes);
                fixture.owned = Some(of_part(part_of, part_of[page.0 as usize]));
                state = SearchState::new(&fixture.view());
                let filter_of = SearchState::filter_of(&bytes).unwrap();
                let allow = filter.map(|(_, passes, _)| resolved(fixture, filter_of, passes));
                state.import(&fixture.view(), &bytes, allow).unwrap();
                assert!(!state.is_rebuilding(), "nothing is read again");
            }
            Step::Done => {
                fixture.owned = None;
                let hits = state.hits()[..params.k.min(state.hits().len())].to_vec();
                return Walk { hits, reads, stats: state.stats() };
            }
        }
    }
}

pub(super) fn params(policy: Policy) -> SearchParams {
    SearchParams { k: 10, list: 40, policy, ..Default::default() }
}

#[test]
fn one_read_at_a_time_is_the_same_search_however_the_graph_is_cut() {
    let mut fixture = Fixture::new(2000);
    let pages = fixture.pages.len();
    let begun_anywhere = |policy| Policy { home: false, ..policy };
    for policy in [
        Policy::relay(1, 1),
        Policy::baton(1),
        begun_anywhere(Policy::relay(1, 1)),
        begun_anywhere(Policy::baton(1)),
    ] {
        let params = params(policy);
        for query in fixture.queries(10) {
            let whole = walk(&mut fixture, &params, &query, &vec![0; pages], |_, _, _| {});
            assert_eq!(whole.stats.moves, 0);
            for parts in [2, 3, 5, 10] {
                for at_random in [false, true] {
                    let part_of = cut(pages, parts, at_random);
                    let cut = walk(&mut fixture, &params, &query, &part_of, |_, _, _| {});
                    assert_eq!(cut.reads, whole.reads, "{parts} parts");
                    assert_eq!(cut.hits, whole.hits);
                    let spent = |w: &Walk| (w.stats.reads, w.stats.hops, w.stats.exact_distances);
                    assert_eq!(spent(&cut), spent(&whole), "what it costs travels with it");
                    let changes = |w: &[PageId]| {
                        let parts = w.iter().map(|page| part_of[page.0 as usize]);
                        let from = std::iter::once(0).chain(parts.clone());
                        from.zip(parts).filter(|(from, to)| from != to).count()
                    };
                    assert_eq!(cut.stats.moves as usize, changes(&cut.reads));
                }
            }
        }
    }
}

#[test]
fn a_ranking_goes_through_all_parts_and_is_the_same_however_the_graph_is_cut() {
    let mut fixture = Fixture::new(2000);
    let pages = fixture.pages.len();
    let params = params(Policy::relay(1, 1));
    for (nth, passing) in [(2, 1000), (20, 100), (250, 8)] {
        let passes: Passes = |node, nth| node.is_multiple_of(nth.into());
        for query in fixture.queries(10) {
            let among = Some((nth, passes, AllowPlan::Scan));
            let one = vec![0; pages];
            let whole = walk_among(&mut fixture, &params, &query, &one, among, |_, _, _| {});
            assert_eq!((whole.stats.moves, whole.stats.codes_ranked), (0, passing));
            assert_eq!(whole.hits.len(), 10.min(passing as usize));
            for (parts, at_random) in [(2, false), (5, false), (10, false), (3, true)] {
                let part_of = cut(pages, parts, at_random);
                let mut ranked = 0;
                let cut = walk_among(&mut fixture, &params, &query, &part_of, among, |s, _, _| {
                    ranked += s.stats().codes_ranked;
                });
                assert_eq!((cut.hits, cut.reads), (whole.hits.clone(), whole.reads.clone()));
                assert_eq!(ranked + cut.stats.codes_ranked, passing, "each of them once");
            }
        }
    }
}

#[test]
fn a_walk_takes_nodes_for_allowed_until_it_is_where_they_are_known() {
    let mut fixture = Fixture::new(3000);
    let part_of = cut(fixture.pages.len(), 4, false);
    let passes: Passes = |node, nth| node.is_multiple_of(nth.into());
    let params = SearchParams { list: 60, ..params(Policy::relay(2, 8)) };
    let (mut right, mut looked, mut taken) = (0, 0, 0);
    for query in fixture.queries(20) {
        let among = Some((3, passes, AllowPlan::Walk));
        let found =
            walk_among(&mut fixture, &params, &query, &part_of, among, |state, owned, f| {
                for c in state.portable.list.entries() {
                    let (here, pass) = (owned.holds(f.layout.page_of(c.node)), passes(c.node.0, 3));
                    assert!(!here || c.allowed == pass, "{c:?}");
                    taken += usize::from(!here && c.allowed && !pass);
                    looked += usize::from(here);
                }
            });
        assert!(found.hits.iter().all(|hit| passes(hit.node.0, 3)));
        let pages: HashSet<_> = found.reads.iter().collect();
        assert_eq!(pages.len(), found.reads.len(), "no page twice");
        let truth = fixture.truth(&query, 10, |node| passes(node as u32, 3));
        right += found.hits.iter().filter(|hit| truth.contains(&hit.row.0)).count();
    }
    assert!(looked > 100 && taken > 100, "{looked} were known, {taken} were not");
    assert!(right >= 190, "{right} of 200");
}

#[test]
fn it_leaves_when_all_that_it_looks_ahead_for_is_elsewhere() {
    let mut fixture = Fixture::new(3000);
    let part_of = cut(fixture.pages.len(), 5, false);
    for (policy, ahead) in [(Policy::relay(2, 8), 8), (Policy::baton(16), 16)] {
        let params = params(policy);
        let mut left = 0;
        for query in fixture.queries(10) {
            walk(&mut fixture, &params, &query, &part_of, |state, owned, fixture| {
                let next = (0..state.portable.list.entries().len())
                    .filter(|&at| state.is_worth_reading(at));
                let page =
                    |at: usize| fixture.layout.page_of(state.portable.list.entries()[at].node);
                assert!(next.take(ahead).all(|at| !owned.holds(page(at))));
                let at_hand = |progress| {
                    matches!(progress, CandidateProgress::AtHand | CandidateProgress::Issued)
                };
                assert!(!state.portable.list.entries().iter().any(|c| at_hand(c.progress)));
                left += 1;
            });
        }
        assert!(left > 10, "{left}");
    }
}

#[test]
fn no_page_is_read_twice() {
    let mut fixture = Fixture::new(3000);
    let part_of = cut(fixture.pages.len(), 4, true);
    for policy in [Policy::relay(4, 16), Policy { packed: true, ..Policy::baton(8) }] {
        let params = params(policy);
        for query in fixture.queries(10) {
            let Walk { reads, .. } = walk(&mut fixture, &params, &query, &part_of, |_, _, _| {});
            let distinct: HashSet<PageId> = reads.iter().copied().collect();
            assert_eq!(distinct.len(), reads.len());
        }
    }
}

#[test]
fn looking_ahead_spares_moves_and_costs_no_recall() {
    let mut fixture = Fixture::new(4000);
    let part_of = cut(fixture.pages.len(), 5, false);
    let mut means = |policy: Policy| {
        let params = params(policy);
        let (mut found, mut moves, mut reads) = (0, 0, 0);
        for query in fixture.queries(40) {
            let walk = walk(&mut fixture, &params, &query, &part_of, |_, _, _| {});
            let truth = fixture.truth(&query, 10, |_| true);
            found += walk.hits.iter().filter(|hit| truth.contains(&hit.row.0)).count();
            moves += walk.stats.moves;
            reads += walk.stats.reads;
        }
        (found, moves, reads)
    };
    let (found, moves, reads) = means(Policy::relay(1, 1));
    let (ahead_found, ahead_moves, ahead_reads) = means(Policy::relay(2, 8));
    assert!(found >= 380 && ahead_found + 4 >= found, "{found} and {ahead_found} of 400");
    assert!(2 * ahead_moves < moves, "{ahead_moves} moves against {moves}");
    assert!(ahead_reads < reads * 5 / 4, "{ahead_reads} reads against {reads}");
}

#[test]
fn a_state_of_another_index_is_refused_by_name() {
    let fixture = Fixture::new(500);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    state.begin(&view, &fixture.queries(1)[0], &params(Policy::relay(1, 1)), None).unwrap();
    let mut bytes = Vec::new();
    state.export(&view, &mut bytes);
    for origin in [
        Origin { uuid: [8; 16], ..view.origin },
        Origin { generation: 2, ..view.origin },
        Origin { codebook: 2, ..view.origin },
    ] {
        let mut other = view;
        other.origin = origin;
        let refused = SearchState::new(&other).import(&other, &bytes, None).unwrap_err();
        assert_eq!(refused, PortableError::Origin { found: view.origin, here: origin });
        assert!(refused.to_string().contains("0707"), "{refused}");
    }
}

#[test]
fn only_the_best_hits_travel() {
    let mut fixture = Fixture::new(3000);
    let part_of = cut(fixture.pages.len(), 3, true);
    let params =
        SearchParams { k: 5, list: 100, policy: Policy::relay(2, 8), ..Default::default() };
    let query = &fixture.queries(1)[0];
    let Walk { hits, .. } = walk(&mut fixture, &params, query, &part_of, |state, _, fixture| {
        let mut bytes = Vec::new();
        state.export(&fixture.view(), &mut bytes);
        let mut moved = SearchState::new(&fixture.view());
        moved.import(&fixture.view(), &bytes, None).unwrap();
        assert_eq!(moved.hits(), &state.hits()[..state.hits().len().min(5)]);
    });
    assert_eq!(hits.len(), 5);
}

#[test]
fn what_is_at_hand_is_explored_before_a_read_is_chosen() {
    let fixture = Fixture::new(1000);
    let view = fixture.view();
    let mut state = SearchState::new(&view);
    let policy = Policy { issue: Issue::Informed, ..Policy::relay(2, 1) };
    state.begin(&view, &fixture.queries(1)[0], &params(policy), None).unwrap();
    let mut waiting = VecDeque::new();
    loop {
        match state.step(&view).unwrap() {
            Step::Read(page) => {
                let at_hand =
                    |c: &&crate::search::Candidate| c.progress == CandidateProgress::AtHand;
                let window = state.params().window();
                assert_eq!(
                    state.portable.list.entries().iter().take(window).filter(at_hand).count(),
                    0
                );
                waiting.push_back(page);
            }
            Step::Explored => {}
            Step::Wait => {
                let page: PageId = waiting.pop_front().unwrap();
                state.receive(&view, page, &fixture.pages[page.0 as usize]);
            }
            Step::Elsewhere(_) => unreachable!("every page is here"),
            Step::Done => break,
        }
    }
}

#[test]
fn a_state_that_takes_in_one_search_after_the_other_stays_small() {
    let fixture = Fixture::new(2000);
    let view = fixture.view();
    let params = params(Policy::relay(2, 8));
    let mut state = SearchState::new(&view);
    let mut bytes = Vec::new();
    state.begin(&view, &fixture.queries(1)[0], &params, None).unwrap();
    state.export(&view, &mut bytes);
    let mut taken = SearchState::new(&view);
    let mut after_some = 0;
    for round in 0..100 {
        taken.import(&view, &bytes, None).unwrap();
        super::machine::run(&fixture, &mut taken);
        if round == 5 {
            after_some = taken.bytes();
        }
    }
    assert_eq!(taken.bytes(), after_some);
}

#[test]
fn where_all_can_be_read_a_search_goes_home_once_and_reads_what_it_would_have_read() {
    let mut fixture = Fixture::new(2000);
    let pages = fixture.pages.len() as u32;
    let home = Policy { home: true, ..Policy::relay(2, 8) };
    let mut moved = 0;
    for query in fixture.queries(10) {
        let whole = walk(
            &mut fixture,
            &params(home.clone()),
            &query,
            &vec![0; pages as usize],
            |_, _, _| {},
        );
        assert_eq!(whole.stats.moves, 0, "where nobody has a home");
        for own in [0..pages / 2, pages / 2..pages] {
            fixture.home = Some(Owned::new([own.clone()]));
            let mut state = SearchState::new(&fixture.view());
            state.begin(&fixture.view(), &query, &params(home.clone()), None).unwrap();
            let entry = fixture.layout.page_of(state.portable.list.entries()[0].node);
            let step = state.step(&fixture.view()).unwrap();
            if own.contains(&entry.0) {
                assert_eq!(step, Step::Read(entry));
                fixture.home = None;
                continue;
            }
            assert_eq!(step, Step::Elsewhere(entry));
            let mut bytes = Vec::new();
            state.export(&fixture.view(), &mut bytes);
            // Whoever gets it keeps it, whatever home it is.
            state.import(&fixture.view(), &bytes, None).unwrap();
            super::machine::run(&fixture, &mut state);
            fixture.home = None;
            let found = &state.hits()[..10];
            assert_eq!((found, state.stats().moves), (&whole.hits[..], 1));
            assert_eq!(state.stats().reads, whole.stats.reads);
            moved += 1;
        }
    }
    assert!(moved >= 10, "{moved}");
}
