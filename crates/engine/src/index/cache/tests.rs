use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use super::*;

const BYTES: usize = 4096;

fn cache(accountant: &Arc<Accountant>, total: u32, pages: u32) -> PageCache {
    PageCache::new(accountant, BYTES, total, (pages, 2)).unwrap()
}

/// What stands in a page: anyone can tell whether it is whole, and which page it is.
fn image(page: u32) -> Vec<u8> {
    page.to_le_bytes().repeat(BYTES / 4)
}

fn byte_at(cache: &PageCache, page: u32) -> Option<u8> {
    let lease = cache.lease(0);
    let bytes = cache.get(&lease, PageId(page))?;
    assert!(bytes.iter().all(|b| *b == bytes[0]), "page {page} is torn");
    Some(bytes[0])
}

#[test]
fn keeps_what_fits_and_counts_it() {
    let accountant = Accountant::new(None);
    let cache = cache(&accountant, 10, 2);
    let tables = 10 * 5 + 12 * 4;
    assert_eq!(accountant.pool_bytes(Pool::PageCache), 2 * 4096 + tables);
    for page in 0..5 {
        cache.admit(PageId(page), &[page as u8 + 1; BYTES]);
        cache.admit(PageId(page), &[99; BYTES]);
    }
    assert_eq!(cache.pages(), 2);
    assert_eq!([0, 1, 2, 1000].map(|p| byte_at(&cache, p)), [Some(1), Some(2), None, None]);
    assert!(
        cache.get(&EpochGuard::none(), PageId(0)).is_none(),
        "nothing is borrowed without a lease"
    );
    drop(cache);
    assert_eq!(accountant.held_bytes(), 0);
}

#[test]
fn what_fills_room_displaces_nothing_and_makes_room_itself() {
    let accountant = Accountant::new(None);
    let cache = cache(&accountant, 100, 20);
    (0..10).for_each(|page| cache.admit(PageId(page), &image(page)));
    let kept: Vec<bool> = (5..30).map(|page| cache.fill(PageId(page), &image(page))).collect();
    assert!(kept[..15].iter().all(|kept| *kept), "those held, and those that fit");
    assert!(kept[15..].iter().all(|kept| !kept));
    assert_eq!((cache.pages(), cache.displaced(), cache.has_room()), (20, 0, false));
    used(&cache, 50);
    assert_eq!(cache.displaced(), 1, "a page that is used comes in place of one that was not");
    // The place of that one is kept for another page that is used.
    assert!(!cache.has_room() && !cache.fill(PageId(60), &image(60)));
    assert!(cache.shrink(10, None));
    assert!(!cache.has_room());
    cache.grow(accountant.reserve(Pool::PageCache, 90 * BYTES as u64).unwrap());
    cache.settle();
    assert!((0..100).all(|page| cache.has_room() && cache.fill(PageId(page), &image(page))
        || cache.holds(PageId(page))));
    assert!(cache.is_whole() && !cache.has_room());
}

#[test]
fn a_successor_shares_what_did_not_change_and_takes_over_the_rest() {
    let accountant = Accountant::new(None);
    let old = cache(&accountant, 4, 3);
    (0..3).for_each(|page| old.admit(PageId(page), &[page as u8 + 1; BYTES]));
    let granted = accountant.reserve(Pool::PageCache, 4096).unwrap();
    let next = old.successor(5, &|page| page.0 == 1, Some(granted));
    let at = |cache: &PageCache| cache.get(&cache.lease(0), PageId(0)).map(<[u8]>::as_ptr);
    assert_eq!(at(&next), at(&old));
    assert_eq!((next.pages(), byte_at(&next, 1)), (2, None));
    // The memory granted is for one page; the old generation still has its own.
    next.admit(PageId(4), &[40; BYTES]);
    next.admit(PageId(1), &[20; BYTES]);
    assert_eq!((byte_at(&next, 4), byte_at(&next, 1)), (Some(40), None));
    assert_eq!(byte_at(&old, 1), Some(2));
    drop(old);
    // What the old one gave back waits for leases, of which there are none.
    (0..3).for_each(|_| next.admit(PageId(1), &[20; BYTES]));
    assert_eq!(byte_at(&next, 1), Some(20));
    assert_eq!(byte_at(&next, 2), Some(3));
    drop(next);
    assert_eq!(accountant.held_bytes(), 0);
}

/// Uses a page as a search does: looks for it, and offers what it had to read.
fn used(cache: &PageCache, page: u32) -> bool {
    cache.heat().touch(PageId(page));
    cache.heat().passed(1);
    let lease = cache.lease(0);
    let found = cache.get(&lease, PageId(page)).is_some();
    drop(lease);
    if !found {
        cache.admit(PageId(page), &image(page));
    }
    found
}

/// Numbers from a seed.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state ^ (state >> 29)) >> 16
    }
}

/// A stream as searches make it: page `i` of those in use comes in proportion to 1 / (i + 20), and
/// the numbers of hot pages say nothing. Every `scan`-th use is of a page that comes once.
fn stream(uses: usize, in_use: u32, scan: usize) -> Vec<u32> {
    let mut next = numbers(7);
    let weights: Vec<f64> = (0..in_use).map(|i| 1.0 / f64::from(i + 20)).collect();
    let sums: Vec<f64> = weights
        .iter()
        .scan(0.0, |sum, w| {
            *sum += w;
            Some(*sum)
        })
        .collect();
    let whole = sums[sums.len() - 1];
    (0..uses)
        .map(|i| {
            if scan > 0 && i % scan == 0 {
                return in_use + (i / scan) as u32;
            }
            let at = (next() % (1 << 32)) as f64 / (1u64 << 32) as f64 * whole;
            let nth = sums.partition_point(|sum| *sum < at) as u32;
            nth * 769 % in_use
        })
        .collect()
}

/// Hits of the second half of a stream: of the cache, of one that keeps what came first, and of
/// the pages that are used most in that half.
fn compared(stream: &[u32], total: u32, pages: u32) -> [usize; 3] {
    let accountant = Accountant::new(None);
    let cache = cache(&accountant, total, pages);
    let half = stream.len() / 2;
    let hits: Vec<bool> = stream.iter().map(|&page| used(&cache, page)).collect();
    let mut first = Vec::new();
    for page in stream {
        if first.len() < pages as usize && !first.contains(page) {
            first.push(*page);
        }
    }
    let mut counts: HashMap<u32, usize> = HashMap::new();
    stream[half..].iter().for_each(|page| *counts.entry(*page).or_default() += 1);
    let mut counts: Vec<usize> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    [
        hits[half..].iter().filter(|hit| **hit).count(),
        stream[half..].iter().filter(|page| first.contains(page)).count(),
        counts.iter().take(pages as usize).sum(),
    ]
}

#[test]
fn the_pages_used_most_find_their_way_in() {
    let (total, pages) = (2000, 200);
    let [hits, first, best] = compared(&stream(60_000, total, 0), total, pages);
    assert!(hits * 100 >= best * 90, "{hits} hits of {best} possible");
    assert!(first * 100 < best * 80, "the stream tells them apart: {first} of {best}");
}

#[test]
fn pages_that_come_once_push_nothing_out() {
    let (in_use, pages) = (2000, 200);
    let uses = 60_000;
    let total = in_use + uses as u32 / 2;
    // As many uses are of pages that never come again.
    let [hits, first, best] = compared(&stream(uses, in_use, 2), total, pages);
    assert!(hits * 100 >= best * 85, "{hits} hits of {best} possible");
    assert!(first * 2 < best, "such a scan fills what comes first: {first} of {best}");
}

#[test]
fn what_is_hot_may_change() {
    let (total, pages) = (400, 40);
    let before = stream(20_000, total, 0);
    let after = before.iter().map(|page| (page + 133) % total);
    let both: Vec<u32> = before.iter().copied().chain(after.clone()).chain(after).collect();
    let accountant = Accountant::new(None);
    let cache = cache(&accountant, total, pages);
    let hits: Vec<usize> = both
        .chunks(10_000)
        .map(|uses| uses.iter().filter(|&&page| used(&cache, page)).count())
        .collect();
    let last = hits[hits.len() - 1];
    assert!(hits[2] < hits[1], "another set is hot from then on: {hits:?}");
    assert!(last * 100 >= hits[1] * 90, "it is known in the end: {hits:?}");
}

#[test]
fn readers_see_whole_pages_while_others_displace_them_and_memory_comes_and_goes() {
    let accountant = Accountant::new(None);
    let total = 256;
    let cache = cache(&accountant, total, 40);
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        for seed in 0..3 {
            let (cache, done) = (&cache, &done);
            s.spawn(move || {
                let mut next = numbers(seed);
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) {
                    rounds += 1;
                    let lease = cache.lease(seed as usize);
                    let borrowed: Vec<(u32, &[u8])> = (0..16)
                        .filter_map(|_| {
                            // Low numbers come most, but which pages they stand for changes.
                            let nth = (next() % (1 + next() % u64::from(total))) as u32;
                            let page = (nth + rounds / 200 * 37) % total;
                            cache.heat().touch(PageId(page));
                            cache.heat().passed(1);
                            let bytes = cache.get(&lease, PageId(page));
                            if bytes.is_none() {
                                cache.admit(PageId(page), &image(page));
                            }
                            Some((page, bytes?))
                        })
                        .collect();
                    for (page, bytes) in borrowed {
                        let whole = bytes.chunks_exact(4).all(|at| at == page.to_le_bytes());
                        assert!(whole, "page {page} changed under a lease");
                    }
                }
            });
        }
        for pages in [8, 100, 3, 64].repeat(6) {
            let before = cache.granted();
            if pages < before {
                assert!(cache.shrink(pages, None));
                assert!(cache.pages() <= pages);
            } else {
                let bytes = u64::from(pages - before) * BYTES as u64;
                cache.grow(accountant.reserve(Pool::PageCache, bytes).unwrap());
            }
            let held = accountant.pool_bytes(Pool::PageCache);
            let tables = PageCache::table_bytes(total, total + 2);
            assert_eq!(held, u64::from(pages) * BYTES as u64 + tables);
            let displaced = cache.displaced();
            while cache.displaced() == displaced {
                std::thread::yield_now();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    drop(cache);
    assert_eq!(accountant.held_bytes(), 0);
}

#[test]
fn a_cache_with_room_for_all_pages_comes_to_hold_them_also_after_it_had_less() {
    let accountant = Accountant::new(None);
    let cache = cache(&accountant, 100, 100);
    (0..100).for_each(|page| cache.admit(PageId(page), &image(page)));
    assert!(cache.is_whole());
    assert!(cache.shrink(50, None));
    assert_eq!((cache.pages(), cache.is_whole()), (50, false));
    for i in 0..1000 {
        used(&cache, i * 37 % 100);
    }
    assert!(cache.displaced() > 0 && cache.pages() <= 50);
    cache.grow(accountant.reserve(Pool::PageCache, 50 * BYTES as u64).unwrap());
    for _ in 0..3 {
        (0..100).for_each(|page| cache.admit(PageId(page), &image(page)));
    }
    assert!(cache.is_whole());
}

#[test]
fn a_cache_that_says_it_is_whole_holds_every_page() {
    const ROUNDS: usize = 300;
    const TOTAL: u32 = 4;
    let accountant = Accountant::new(None);
    let images: Vec<_> = (0..TOTAL).map(image).collect();
    for _ in 0..ROUNDS {
        let cache = cache(&accountant, TOTAL, TOTAL);
        std::thread::scope(|scope| {
            for page in 0..TOTAL {
                let (cache, image) = (&cache, &images[page as usize]);
                scope.spawn(move || cache.load(PageId(page), image));
            }
            let lease = cache.lease(0);
            while !cache.is_whole() {
                std::hint::spin_loop();
            }
            assert!((0..TOTAL).all(|page| cache.get(&lease, PageId(page)).is_some()));
        });
    }
}
