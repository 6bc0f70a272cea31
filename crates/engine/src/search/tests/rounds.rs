//! The search in rounds against the paper's Algorithm 2, in our own words, and what becomes of each
//! candidate of a search that goes from part to part.

use std::collections::{HashSet, VecDeque};

use super::fixture::Fixture;
use super::relay::{cut, of_part, params};
use crate::search::{
    Candidate, CandidateProgress, PageSource, Policy, SearchParams, SearchState, Step,
};
use crate::types::{NodeId, PageId};

/// Searches over parts, and shows each step with the list as it was before; gives the state at its end.
fn steps(
    fixture: &mut Fixture,
    params: &SearchParams,
    query: &[u8],
    part_of: &[usize],
    mut show: impl FnMut(&[Candidate], &SearchState, &Step, &Fixture),
) -> SearchState {
    fixture.owned = Some(of_part(part_of, 0));
    let mut state = SearchState::new(&fixture.view());
    state.begin(&fixture.view(), query, params, None).unwrap();
    let mut waiting = VecDeque::new();
    loop {
        let before = state.portable.list.entries().to_vec();
        let step = state.step(&fixture.view()).unwrap();
        show(&before, &state, &step, fixture);
        match step {
            Step::Read(page) => waiting.push_back(page),
            Step::Explored => {}
            Step::Wait => {
                let page: PageId = waiting.pop_front().expect("it waits for reads under way");
                state.receive(&fixture.view(), page, &fixture.pages[page.0 as usize]);
            }
            Step::Elsewhere(page) => {
                let mut bytes = Vec::new();
                state.export(&fixture.view(), &mut bytes);
                fixture.owned = Some(of_part(part_of, part_of[page.0 as usize]));
                state = SearchState::new(&fixture.view());
                state.import(&fixture.view(), &bytes, None).unwrap();
            }
            Step::Done => {
                fixture.owned = None;
                return state;
            }
        }
    }
}

/// What a round of the paper's search does.
#[derive(Debug, PartialEq)]
enum Round {
    /// Reads these, all at once.
    Read(Vec<NodeId>),
    /// Goes to the owner of this one.
    Send(NodeId),
    Done,
}

/// Algorithm 2: from the nearest candidate that is not expanded on, the beam is looked through until W of
/// those have been seen. The ones that are here are read together, and those elsewhere stay as they
/// are. Where all of them are elsewhere the search is sent to the owner of the nearest, and where there
/// are none it has ended.
///
/// The paper has one record a page. Here candidates of one page are read as one, and are one of the W.
fn round_of_the_paper(
    beam: &[Candidate],
    w: usize,
    is_here: impl Fn(NodeId) -> bool,
    page_of: impl Fn(NodeId) -> PageId,
) -> Round {
    let mut frontier: Vec<NodeId> = Vec::new();
    let mut elsewhere = None;
    let mut seen = 0;
    for candidate in beam {
        if candidate.progress == CandidateProgress::Explored {
            continue;
        }
        if seen == w {
            break;
        }
        let node = candidate.node;
        if is_here(node) {
            seen += usize::from(frontier.iter().all(|other| page_of(*other) != page_of(node)));
            frontier.push(node);
        } else {
            seen += 1;
            elsewhere = elsewhere.or(Some(node));
        }
    }
    match elsewhere {
        _ if !frontier.is_empty() => Round::Read(frontier),
        Some(nearest) => Round::Send(nearest),
        None => Round::Done,
    }
}

fn is_under_way(candidate: &Candidate) -> bool {
    matches!(candidate.progress, CandidateProgress::Issued | CandidateProgress::AtHand)
}

#[test]
fn a_search_in_rounds_does_in_each_what_the_papers_algorithm_says() {
    let mut fixture = Fixture::new(2000);
    let (mut rounds, mut sent, mut partly) = (0, 0, 0);
    for w in [1, 4, 16, 64] {
        // It begins wherever it came.
        let params = params(Policy { home: false, ..Policy::baton(w) });
        for (parts, at_random) in [(1, false), (3, false), (5, true)] {
            let part_of = cut(fixture.pages.len(), parts, at_random);
            for query in fixture.queries(4) {
                let (mut left, mut read) = (VecDeque::<NodeId>::new(), Vec::new());
                steps(&mut fixture, &params, &query, &part_of, |before, _, step, fixture| {
                    let view = fixture.view();
                    let page = |node| fixture.layout.page_of(node);
                    let beam = &before[..before.len().min(params.list)];
                    let mut round = None;
                    if left.is_empty() && !beam.iter().any(is_under_way) {
                        rounds += 1;
                        let found =
                            round_of_the_paper(beam, w.into(), |n| view.reads_here(n), page);
                        read.clear();
                        if let Round::Read(nodes) = &found {
                            left.extend(nodes);
                            partly += usize::from(nodes.len() < w.into() && parts > 1);
                        }
                        round = Some(found);
                    }
                    match step {
                        Step::Read(next) => {
                            assert_eq!(left.pop_front().map(page), Some(*next), "W = {w}");
                            read.push(*next);
                        }
                        Step::Explored if !left.is_empty() => {
                            let joined = left.pop_front().map(page).expect("it is not empty");
                            assert!(read.contains(&joined), "W = {w}");
                        }
                        Step::Wait | Step::Explored => assert!(left.is_empty(), "W = {w}"),
                        Step::Elsewhere(to) => {
                            let Some(Round::Send(node)) = round else {
                                panic!("{round:?}, W = {w}")
                            };
                            assert_eq!(page(node), *to);
                            sent += 1;
                        }
                        Step::Done => assert_eq!(round, Some(Round::Done), "W = {w}"),
                    }
                });
            }
        }
    }
    assert!(rounds > 500 && sent > 50 && partly > 50, "{rounds} rounds, {sent}, {partly}");
}

#[test]
fn all_of_the_final_list_has_been_explored_and_nothing_twice() {
    let mut fixture = Fixture::new(3000);
    let part_of = cut(fixture.pages.len(), 4, true);
    let packed = Policy { packed: true, ..Policy::baton(8) };
    for policy in [Policy::baton(1), Policy::baton(16), packed, Policy::relay(4, 16)] {
        let params = params(policy);
        let mut moves = 0;
        for query in fixture.queries(10) {
            let (mut explored, mut hops) = (HashSet::new(), 0);
            let state = steps(&mut fixture, &params, &query, &part_of, |before, state, _, _| {
                if state.stats().hops > hops {
                    hops += 1;
                    let at_hand = |c: &&Candidate| c.progress == CandidateProgress::AtHand;
                    let node = before.iter().find(at_hand).expect("one was at hand").node;
                    assert!(explored.insert(node), "{node:?} twice with {:?}", params.policy);
                }
            });
            assert_eq!(explored.len() as u64, state.stats().hops);
            let entries = state.portable.list.entries();
            for (at, candidate) in entries.iter().enumerate().take(params.window()) {
                let is_explored = explored.contains(&candidate.node);
                assert_eq!(is_explored, candidate.progress == CandidateProgress::Explored);
                if params.policy.early_stop {
                    assert_ne!(candidate.progress, CandidateProgress::AtHand);
                    assert!(!state.is_worth_reading(at), "{candidate:?} was left out");
                } else {
                    assert!(is_explored, "{candidate:?} stayed behind with {:?}", params.policy);
                }
            }
            moves += state.stats().moves;
        }
        assert!(moves > 10, "{moves} moves with {:?}", params.policy);
    }
}
