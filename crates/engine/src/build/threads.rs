//! Work over numbered items, shared out in chunks to threads with scratch of their own.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::progress::{Cancelled, Progress, check_cancel};

/// Threads meant by an option where 0 stands for all.
pub(crate) fn thread_count(option: usize) -> usize {
    match option {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => n,
    }
}

/// Numbered items, and how threads take them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    items: usize,
    threads: usize,
    chunk: usize,
}

impl Shared {
    /// All numbers below `items`; a thread takes 64 at a time.
    pub(crate) fn new(items: usize, threads: usize) -> Self {
        Self { items, threads, chunk: 64 }
    }

    /// The same, `chunk` at a time.
    pub(crate) fn by(self, chunk: usize) -> Self {
        Self { chunk, ..self }
    }
}

/// Runs `work` for every item; with one thread in ascending order.
pub(crate) fn each_item<S>(
    Shared { items, threads, chunk }: Shared,
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
