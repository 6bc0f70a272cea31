//! Refinement of a packing: exchanges between two pages that raise the weight inside them.
//!
//! Greedy packing leaves its last pages with what nobody wanted. A sweep takes every page and
//! the few pages it is drawn to most, and for each such pair exchanges members as long as that
//! gains (Kernighan and Lin's step). A free place counts as a member that draws nobody, so
//! that moves are exchanges too. Threads hold both pages while they change them, and skip
//! pages that another thread holds.

use std::sync::atomic::{AtomicBool, Ordering};

use super::affinity::Affinity;
use super::huge::prefetch;
use super::pack::Packing;
use super::progress::{Cancelled, Silent};
use super::threads::{Shared, each_item};

/// How many partners a page tries in a sweep.
const PARTNERS: usize = 6;

/// Sweeps once over all pages.
pub(crate) fn sweep(
    affinity: &Affinity,
    packing: &Packing,
    threads: usize,
    cancel: &AtomicBool,
) -> Result<(), Cancelled> {
    let held: Vec<AtomicBool> = (0..packing.pages()).map(|_| AtomicBool::new(false)).collect();
    let work = |exchange: &mut Exchange, page: usize| {
        let page = page as u32;
        let Some(_guard) = hold(&held, page) else { return };
        exchange.find_partners(affinity, packing, page);
        for at in 0..exchange.partners.len().min(PARTNERS) {
            let other = exchange.partners[at].1;
            if let Some(_guard) = hold(&held, other) {
                exchange.run(affinity, packing, page, other);
            }
        }
    };
    let pages = Shared::new(packing.pages(), threads);
    each_item(pages, Exchange::default, work, &Silent, cancel)
}

struct Held<'a>(&'a AtomicBool);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn hold(held: &[AtomicBool], page: u32) -> Option<Held<'_>> {
    let flag = &held[page as usize];
    // Lazily: a guard made for a page that another thread holds would release it when dropped.
    (!flag.swap(true, Ordering::Acquire)).then(|| Held(flag))
}

/// Scratch for one pair of pages.
#[derive(Default)]
struct Exchange {
    /// Pages that the page at hand is drawn to: weight and page, strongest first.
    partners: Vec<(u32, u32)>,
    drawn: Vec<(u32, u32)>,
    /// Members of both pages: first one page's places, then the other's.
    members: Vec<Option<u32>>,
    /// Weight between any two of them.
    between: Vec<i32>,
    /// What a place's member would gain by changing sides.
    gain: Vec<i32>,
}

impl Exchange {
    fn find_partners(&mut self, affinity: &Affinity, packing: &Packing, page: u32) {
        self.drawn.clear();
        for member in packing.of(page) {
            for (near, weight) in affinity.of(member) {
                let other = packing.page_of[near as usize].load(Ordering::Relaxed);
                if other != page {
                    self.drawn.push((other, weight));
                }
            }
        }
        self.drawn.sort_unstable();
        self.partners.clear();
        for run in self.drawn.chunk_by(|a, b| a.0 == b.0) {
            self.partners.push((run.iter().map(|d| d.1).sum(), run[0].0));
        }
        let strongest = |a: &(u32, u32), b: &(u32, u32)| b.0.cmp(&a.0).then(a.1.cmp(&b.1));
        if self.partners.len() > PARTNERS {
            self.partners.select_nth_unstable_by(PARTNERS - 1, strongest);
            self.partners.truncate(PARTNERS);
        }
        self.partners.sort_unstable_by(strongest);
        for &(_, other) in &self.partners {
            packing.of(other).for_each(|member| prefetch(affinity.row(member)));
        }
    }

    fn run(&mut self, affinity: &Affinity, packing: &Packing, a: u32, b: u32) {
        let half = packing.capacity;
        self.weigh(affinity, packing, a, b);
        let mut changed = false;
        // Each exchange raises the weight; half the places are more than ever pay.
        for _ in 0..half.div_ceil(2) {
            let mut best = (0, 0, 0);
            for i in 0..half {
                for j in half..2 * half {
                    let gain = self.gain[i] + self.gain[j] - 2 * self.between[i * 2 * half + j];
                    if gain > best.0 {
                        best = (gain, i, j);
                    }
                }
            }
            let (gain, i, j) = best;
            if gain <= 0 || !self.keeps_both(half, i, j) {
                break;
            }
            self.swap(half, i, j);
            changed = true;
        }
        if changed {
            packing.set(a, self.members[..half].iter().flatten().copied());
            packing.set(b, self.members[half..].iter().flatten().copied());
        }
    }

    /// Fills members, weights and gains for the pair.
    fn weigh(&mut self, affinity: &Affinity, packing: &Packing, a: u32, b: u32) {
        let half = packing.capacity;
        self.members.clear();
        self.members.extend(packing.of(a).map(Some));
        self.members.resize(half, None);
        self.members.extend(packing.of(b).map(Some));
        self.members.resize(2 * half, None);
        self.between.clear();
        self.between.resize(4 * half * half, 0);
        self.gain.clear();
        self.gain.resize(2 * half, 0);
        for i in 0..2 * half {
            let Some(member) = self.members[i] else { continue };
            for (near, weight) in affinity.of(member) {
                let page = packing.page_of[near as usize].load(Ordering::Relaxed);
                if page != a && page != b {
                    continue;
                }
                let Some(j) = self.members.iter().position(|&m| m == Some(near)) else { continue };
                let weight = weight as i32;
                self.between[i * 2 * half + j] += weight;
                self.gain[i] += if (i < half) == (j < half) { -weight } else { weight };
            }
        }
    }

    /// Whether neither page is empty after the exchange.
    fn keeps_both(&self, half: usize, i: usize, j: usize) -> bool {
        let count = |side: &[Option<u32>]| side.iter().flatten().count();
        match (self.members[i], self.members[j]) {
            (Some(_), None) => count(&self.members[..half]) > 1,
            (None, Some(_)) => count(&self.members[half..]) > 1,
            _ => true,
        }
    }

    fn swap(&mut self, half: usize, i: usize, j: usize) {
        let width = 2 * half;
        for k in 0..width {
            // Seen from k, i has moved away or come to its side, and j the reverse.
            let toward = if k < half { 1 } else { -1 };
            let (to_i, to_j) = (self.between[k * width + i], self.between[k * width + j]);
            self.gain[k] += 2 * toward * (to_i - to_j);
        }
        self.members.swap(i, j);
        for k in 0..width {
            self.between.swap(k * width + i, k * width + j);
        }
        for k in 0..width {
            self.between.swap(i * width + k, j * width + k);
        }
        // The two have changed places, so their gains are counted anew.
        for at in [i, j] {
            self.gain[at] = (0..width)
                .map(|k| {
                    let weight = self.between[at * width + k];
                    if (k < half) == (at < half) { -weight } else { weight }
                })
                .sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_page_stays_held_when_another_wants_it() {
        let held = [AtomicBool::new(false)];
        let first = hold(&held, 0);
        assert!(first.is_some());
        assert!(hold(&held, 0).is_none());
        assert!(hold(&held, 0).is_none(), "the refused attempt released the page");
        drop(first);
        assert!(hold(&held, 0).is_some());
    }
}
