//! Work over numbered items, shared out in chunks to threads with scratch of their own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::progress::{Cancelled, Progress, Silent, check_cancel};

/// Items a thread takes at a time.
const CHUNK: usize = 64;

/// Threads meant by an option where 0 stands for all.
pub(crate) fn thread_count(option: usize) -> usize {
    match option {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => n,
    }
}

/// Runs `work` for every number below `items`; with one thread in ascending order.
pub(crate) fn each_item<S>(
    items: usize,
    threads: usize,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<(), Cancelled> {
    chunks(CHUNK, items, threads, scratch, work, progress, cancel)
}

/// As [`each_item`], `chunk` items at a time, telling of no progress.
pub(crate) fn each_item_of<S>(
    chunk: usize,
    items: usize,
    threads: usize,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
    cancel: &AtomicBool,
) -> Result<(), Cancelled> {
    chunks(chunk, items, threads, scratch, work, &Silent, cancel)
}

fn chunks<S>(
    chunk: usize,
    items: usize,
    threads: usize,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) + Sync,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<(), Cancelled> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut scratch = scratch();
        while !cancel.load(Ordering::Relaxed) {
            let first = next.fetch_add(chunk, Ordering::Relaxed);
            if first >= items {
                break;
            }
            let last = (first + chunk).min(items);
            (first..last).for_each(|i| work(&mut scratch, i));
            progress.advance((last - first) as u64);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.div_ceil(chunk)) {
            scope.spawn(run);
        }
        run();
    });
    check_cancel(cancel)
}
