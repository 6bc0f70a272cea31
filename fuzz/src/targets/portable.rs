//! Searches that come as bytes: taken over, and gone on with to their end.

use std::collections::VecDeque;
use std::sync::LazyLock;

use pipeann_engine::search::{PortableError, SearchState, Step};
use pipeann_engine::types::PageId;

use super::graph::SmallGraph;
use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &[
    "plain",
    "walk",
    "scan",
    "range",
    "filter",
    "dynamic width",
    "candidates",
    "hits",
    "reads under way",
    "nodes read for",
];

/// Flags of a walk, a scan and a width that changes.
const FLAGS: [(&str, u16); 3] = [("scan", 1 << 7), ("walk", 1 << 10), ("dynamic width", 1 << 8)];
const FLAGS_AT: usize = 2;
/// The ends of the range.
const ENDS_AT: usize = 10;
/// Numbers of candidates, hits, reads and nodes, in the last bytes of the header.
const COUNTS_AT: usize = 170;
const COUNTS: [&str; 4] = ["candidates", "hits", "reads under way", "nodes read for"];
/// Steps after which a search on a few nodes is going in circles.
const STEPS: usize = 100_000;

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    static GRAPH: LazyLock<SmallGraph> = LazyLock::new(SmallGraph::new);
    let graph = &*GRAPH;
    let view = graph.view();
    let filter = bounded(data.len(), || SearchState::filter_of(data).map(<[u8]>::len));
    for allow in [None, Some(SmallGraph::every(3)), Some(SmallGraph::tested())] {
        let restricted = allow.is_some();
        let same = allow.clone();
        let mut state = SearchState::new(&view);
        if bounded(data.len(), || state.import(&view, data, allow)).is_err() {
            continue;
        }
        let word = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
        reached.mark("plain", !restricted);
        let filter = filter.as_ref().expect("a state says what its filter is");
        reached.mark("filter", *filter > 0);
        reached.mark("range", word(ENDS_AT) != 0);
        FLAGS.iter().for_each(|(name, bit)| reached.mark(name, word(FLAGS_AT) & bit != 0));
        for (i, name) in COUNTS.into_iter().enumerate() {
            reached.mark(name, word(COUNTS_AT + 4 * i) != 0);
        }
        finish(graph, &mut state);
        assert!(state.hits().is_sorted_by(|a, b| a.distance <= b.distance));
        // What was read can be written, and read once more, but where a counter came to its end.
        let mut again = Vec::new();
        state.export(&view, &mut again);
        match SearchState::new(&view).import(&view, &again, same) {
            Ok(()) | Err(PortableError::Malformed("a counter out of range")) => {}
            Err(error) => panic!("it was just written: {error}"),
        }
    }
}

/// Hands the search the pages that it asks for until it is done.
fn finish(graph: &SmallGraph, state: &mut SearchState) {
    let view = graph.view();
    let mut waiting: VecDeque<PageId> = VecDeque::new();
    for _ in 0..STEPS {
        match state.step(&view).expect("all codes are in memory") {
            Step::Read(page) => waiting.push_back(page),
            Step::Explored => {}
            Step::Wait => {
                let page = waiting.pop_front().expect("it waits for a page it asked for");
                state.receive(&view, page, graph.page(page));
            }
            Step::Elsewhere(_) => unreachable!("every page is here"),
            Step::Done => return,
        }
    }
    panic!("a search that comes to no end");
}
