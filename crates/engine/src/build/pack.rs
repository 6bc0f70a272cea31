//! Greedy packing: fills page after page with nodes that draw each other.
//!
//! A page starts from a node that the pages before it wanted and had no room for, so the
//! walk stays on one front through the data. Then the unassigned node with the highest
//! weight to the members joins, until the page is full. Threads fill pages of their own and
//! claim nodes by compare-and-swap.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use super::affinity::Affinity;
use super::progress::{Cancelled, check_cancel};

/// Not in a page yet.
const UNASSIGNED: u32 = u32::MAX;
/// About to be in a page.
const CLAIMED: u32 = u32::MAX - 1;

/// Pages with the nodes in them, shared by the threads that fill and refine.
pub(crate) struct Packing {
    /// The page of every node.
    pub(crate) page_of: Vec<AtomicU32>,
    /// Members, `capacity` places a page.
    pub(crate) members: Vec<AtomicU32>,
    /// How many members each page has; they stand in its first places.
    pub(crate) len: Vec<AtomicU32>,
    pub(crate) capacity: usize,
}

impl Packing {
    /// Number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.len.len()
    }

    /// The members of `page`.
    pub(crate) fn of(&self, page: u32) -> impl Iterator<Item = u32> + '_ {
        let len = self.len[page as usize].load(Ordering::Relaxed) as usize;
        self.members[page as usize * self.capacity..][..len]
            .iter()
            .map(|n| n.load(Ordering::Relaxed))
    }

    /// Gives `page` new members.
    pub(crate) fn set(&self, page: u32, members: impl Iterator<Item = u32>) {
        let places = &self.members[page as usize * self.capacity..][..self.capacity];
        let mut len = 0;
        for (place, member) in places.iter().zip(members) {
            place.store(member, Ordering::Relaxed);
            self.page_of[member as usize].store(page, Ordering::Relaxed);
            len += 1;
        }
        self.len[page as usize].store(len, Ordering::Relaxed);
    }
}

/// So many nodes are worth a thread.
const NODES_PER_THREAD: usize = 4096;

/// Pages that threads could not fill, at most, where `rows` rows are packed in so many sets.
pub(crate) fn unfilled_pages(rows: u64, sets: u64, threads: u64) -> u64 {
    (rows / NODES_PER_THREAD as u64 + sets).min(threads * sets)
}

fn atomics(n: usize, value: u32) -> Vec<AtomicU32> {
    (0..n).map(|_| AtomicU32::new(value)).collect()
}

/// How many nodes page `page` gets so that `fill` of all places are taken.
fn target(page: usize, capacity: usize, fill: f64) -> usize {
    let per_page = (capacity as f64 * fill).clamp(1.0, capacity as f64);
    let until = |pages: usize| (pages as f64 * per_page + 1e-9) as usize;
    (until(page + 1) - until(page)).clamp(1, capacity)
}

/// Packs all nodes into pages of `capacity`, `fill` of the places taken on average.
pub(crate) fn pack(
    affinity: &Affinity,
    capacity: usize,
    fill: f64,
    threads: usize,
    cancel: &AtomicBool,
) -> Result<Packing, Cancelled> {
    let nodes = affinity.count();
    let per_page = (capacity as f64 * fill).clamp(1.0, capacity as f64);
    // Each thread may end on a page that it could not fill.
    let most = (nodes as f64 / per_page).ceil() as usize + threads + 1;
    let packing = Packing {
        page_of: atomics(nodes, UNASSIGNED),
        members: atomics(most * capacity, UNASSIGNED),
        len: atomics(most, 0),
        capacity,
    };
    let (next_page, next_node) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let run = || {
        let mut filler = Filler::new(affinity, &packing);
        while !cancel.load(Ordering::Relaxed) && filler.fill(&next_page, &next_node, fill) {}
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(nodes.div_ceil(NODES_PER_THREAD)) {
            scope.spawn(run);
        }
        run();
    });
    check_cancel(cancel)?;
    let pages = next_page.into_inner();
    let Packing { page_of, mut members, mut len, capacity } = packing;
    members.truncate(pages * capacity);
    len.truncate(pages);
    Ok(Packing { page_of, members, len, capacity })
}

/// Unassigned nodes remembered as starts of later pages.
const FRONT: usize = 4096;

struct Filler<'a> {
    affinity: &'a Affinity,
    packing: &'a Packing,
    /// Unassigned nodes that the page at hand draws, and how strongly.
    drawn: Vec<u32>,
    strength: Vec<u32>,
    front: VecDeque<u32>,
}

impl<'a> Filler<'a> {
    fn new(affinity: &'a Affinity, packing: &'a Packing) -> Self {
        let front = VecDeque::with_capacity(FRONT);
        Self { affinity, packing, drawn: Vec::new(), strength: Vec::new(), front }
    }

    fn is_free(&self, node: u32) -> bool {
        self.packing.page_of[node as usize].load(Ordering::Relaxed) == UNASSIGNED
    }

    fn claim(&self, node: u32) -> bool {
        self.packing.page_of[node as usize]
            .compare_exchange(UNASSIGNED, CLAIMED, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Fills one page; false where no node is left.
    fn fill(&mut self, next_page: &AtomicUsize, next_node: &AtomicUsize, fill: f64) -> bool {
        let Some(seed) = self.seed(next_node) else { return false };
        let page = next_page.fetch_add(1, Ordering::Relaxed);
        let want = target(page, self.packing.capacity, fill);
        self.drawn.clear();
        self.strength.clear();
        let mut len = 0;
        let mut joining = Some(seed);
        while let Some(node) = joining {
            self.packing.page_of[node as usize].store(page as u32, Ordering::Relaxed);
            self.packing.members[page * self.packing.capacity + len].store(node, Ordering::Relaxed);
            len += 1;
            if len == want {
                break;
            }
            self.draw(node);
            joining = self.strongest().or_else(|| self.seed(next_node));
        }
        self.packing.len[page].store(len as u32, Ordering::Relaxed);
        for &node in &self.drawn {
            if self.front.len() == FRONT {
                self.front.pop_front();
            }
            self.front.push_back(node);
        }
        true
    }

    fn draw(&mut self, member: u32) {
        for (node, weight) in self.affinity.of(member) {
            if let Some(at) = self.drawn.iter().position(|&n| n == node) {
                self.strength[at] += weight;
            } else if self.is_free(node) {
                self.drawn.push(node);
                self.strength.push(weight);
            }
        }
    }

    /// Claims the node that is drawn most.
    fn strongest(&mut self) -> Option<u32> {
        loop {
            // The first of equals, so that one thread always packs alike.
            let pairs = self.strength.iter().enumerate();
            let (at, _) = pairs.max_by(|a, b| a.1.cmp(b.1).then(b.0.cmp(&a.0)))?;
            self.strength.swap_remove(at);
            let node = self.drawn.swap_remove(at);
            if self.claim(node) {
                return Some(node);
            }
        }
    }

    /// Claims a node to go on from: one on the front, else the next of all.
    fn seed(&mut self, next_node: &AtomicUsize) -> Option<u32> {
        while let Some(node) = self.front.pop_back() {
            if self.claim(node) {
                return Some(node);
            }
        }
        loop {
            let node = next_node.fetch_add(1, Ordering::Relaxed);
            if node >= self.packing.page_of.len() {
                return None;
            }
            if self.claim(node as u32) {
                return Some(node as u32);
            }
        }
    }
}
