//! The page order: a permutation that keeps near nodes together.

use std::sync::atomic::AtomicBool;

use super::Rows;
use crate::build::nearest::Nearest;
use crate::build::random::shuffled;
use crate::build::{
    EMPTY_SLOT, OrderOptions, PageOrder, Silent, VamanaOptions, locality_order, vamana,
};
use crate::distance::PairDistance;
use crate::types::{Metric, VectorType};

fn assert_permutation(order: &PageOrder, rows: usize, per_page: usize) {
    assert_eq!(order.nodes.len(), rows);
    let used = order.rows.iter().filter(|&&row| row != EMPTY_SLOT).count();
    assert_eq!(used, rows, "every row has one place");
    for (row, &node) in order.nodes.iter().enumerate() {
        assert_eq!(order.rows[node as usize], row as u32);
    }
    assert_eq!(order.rows.len() % per_page, 0);
    for page in order.rows.chunks(per_page) {
        let members = page.iter().take_while(|&&row| row != EMPTY_SLOT).count();
        assert!(members > 0, "no page is empty");
        assert!(page[members..].iter().all(|&r| r == EMPTY_SLOT), "free places come last");
    }
}

#[test]
fn packing_is_a_permutation_and_beats_a_random_order_twentyfold() {
    let rows = Rows::clustered(4000, 16, VectorType::U8, 1);
    let pair = PairDistance::new(Metric::L2, rows.set());
    let cancel = AtomicBool::new(false);
    let build = VamanaOptions { degree: 24, list: 48, ..VamanaOptions::default() };
    let graph = vamana(&pair, 0, &build, &Silent, &cancel).expect("nobody cancels");
    let random = shuffled(4000, 3);
    let random = PageOrder::from_pages(4000, 10, random.chunks(10).map(|p| p.iter().copied()));
    let nearest = Nearest::find(&pair, &graph, 10, 1, &cancel).expect("nobody cancels");
    let random = random.locality(&graph, &nearest);
    for threads in [1, 3] {
        let options = OrderOptions { threads, ..OrderOptions::new(10) };
        let (order, packed) =
            locality_order(&pair, &graph, &options, &cancel).expect("nobody cancels");
        assert_permutation(&order, 4000, 10);
        assert!(order.pages() <= 4000 * 100 / 960 + 1 + threads, "the fill is kept");
        assert!(packed.nearest_in_page > 20.0 * random.nearest_in_page, "{packed:?} {random:?}");
        assert!(packed.edges_in_page > 1.0, "{packed:?}");
        let greedy = OrderOptions { sweeps: 0, ..options };
        let greedy = locality_order(&pair, &graph, &greedy, &cancel).expect("nobody cancels").1;
        assert!(packed.nearest_in_page > greedy.nearest_in_page, "{packed:?} {greedy:?}");
    }
}

#[test]
fn every_page_size_and_fill_gives_a_permutation() {
    let rows = Rows::clustered(257, 8, VectorType::U8, 2);
    let pair = PairDistance::new(Metric::L2, rows.set());
    let cancel = AtomicBool::new(false);
    let build = VamanaOptions { degree: 8, list: 16, threads: 1, ..VamanaOptions::default() };
    let graph = vamana(&pair, 0, &build, &Silent, &cancel).expect("nobody cancels");
    for per_page in [1, 2, 7, 64] {
        for fill in [0.3, 0.96, 1.0] {
            let options = OrderOptions { fill, threads: 1, ..OrderOptions::new(per_page) };
            let order = locality_order(&pair, &graph, &options, &cancel);
            assert_permutation(&order.expect("nobody cancels").0, 257, per_page);
        }
    }
}
