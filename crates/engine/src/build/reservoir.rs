//! The nearest candidates of every node while several threads find some.
//!
//! A candidate is one word, distance above number, so that the order of words is the order of
//! candidates. A row is sorted and bounded; what remains in it does not depend on the order in
//! which candidates came.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const LOCK: u32 = 1 << 31;

/// Bounded, sorted lists of candidates.
pub(crate) struct Reservoirs {
    words: Vec<AtomicU64>,
    /// How many candidates a row has, and whether a thread is changing it.
    lens: Vec<AtomicU32>,
    width: usize,
}

fn word(distance: f32, node: u32) -> u64 {
    // Distances are not negative, so their bits are in the order of their values.
    u64::from(distance.to_bits()) << 32 | u64::from(node)
}

impl Reservoirs {
    /// `rows` empty lists of at most `width` candidates.
    pub(crate) fn new(rows: usize, width: usize) -> Self {
        let mut words = super::huge::with_capacity(rows * width);
        words.resize_with(rows * width, || AtomicU64::new(u64::MAX));
        let lens = (0..rows).map(|_| AtomicU32::new(0)).collect();
        Self { words, lens, width }
    }

    /// Offers a candidate to a row. A node must come with the same distance each time.
    pub(crate) fn offer(&self, row: usize, distance: f32, node: u32) {
        let places = &self.words[row * self.width..(row + 1) * self.width];
        let word = word(distance, node);
        // The last word only ever falls, so a look without the lock refuses nothing wrongly.
        if places.last().is_none_or(|last| word >= last.load(Ordering::Relaxed)) {
            return;
        }
        let len = self.lock(row);
        let at = places[..len].partition_point(|w| w.load(Ordering::Relaxed) < word);
        let mut grown = len;
        if at < self.width && places[at].load(Ordering::Relaxed) != word {
            grown = (len + 1).min(self.width);
            for i in (at + 1..grown).rev() {
                places[i].store(places[i - 1].load(Ordering::Relaxed), Ordering::Relaxed);
            }
            places[at].store(word, Ordering::Relaxed);
        }
        self.lens[row].store(grown as u32, Ordering::Release);
    }

    fn lock(&self, row: usize) -> usize {
        let len = &self.lens[row];
        loop {
            let seen = len.load(Ordering::Relaxed);
            let free = seen & LOCK == 0;
            let order = (Ordering::Acquire, Ordering::Relaxed);
            if free && len.compare_exchange_weak(seen, seen | LOCK, order.0, order.1).is_ok() {
                return seen as usize;
            }
            std::hint::spin_loop();
        }
    }

    /// The candidates of a row, nearest first, once no thread offers any more.
    pub(crate) fn of(&self, row: usize) -> impl Iterator<Item = u32> + '_ {
        let len = self.lens[row].load(Ordering::Acquire) as usize;
        self.words[row * self.width..][..len].iter().map(|w| w.load(Ordering::Relaxed) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_nearest_once_whatever_their_order() {
        let offered = [(3.0, 7), (1.0, 9), (2.0, 4), (3.0, 7), (1.0, 2), (0.5, 1), (9.0, 3)];
        let mut backwards = offered;
        backwards.reverse();
        for offered in [offered, backwards] {
            let reservoirs = Reservoirs::new(2, 4);
            offered.iter().for_each(|&(distance, node)| reservoirs.offer(1, distance, node));
            assert_eq!(reservoirs.of(1).collect::<Vec<_>>(), [1, 2, 9, 4]);
            assert_eq!(reservoirs.of(0).count(), 0);
        }
    }

    #[test]
    fn threads_lose_no_candidate() {
        let reservoirs = Reservoirs::new(1, 64);
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let reservoirs = &reservoirs;
                let offer =
                    move |i: u32| reservoirs.offer(0, (i * 4 + thread) as f32, i * 4 + thread);
                scope.spawn(move || (0..1000).rev().for_each(offer));
            }
        });
        assert_eq!(reservoirs.of(0).collect::<Vec<_>>(), (0..64).collect::<Vec<_>>());
    }
}
