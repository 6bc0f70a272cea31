//! Who waits for an answer: for how long, and how much of it there may be.
//!
//! Whatever may take long asks here, every now and then, whether somebody still waits, and what grows
//! with an answer asks whether it may. The one who does a call for somebody says so with [`within`],
//! for the thread that it is done on; work that it hands to other threads takes the asker along
//! ([`current`]). Where nobody is known, nothing ends early and nothing is bounded.
//!
//! Rules: [`worked`] may be called under any lock and only notes that nobody waits any more; what is
//! found from then on is of no use, and whoever found it has to ask [`go_on`] before it is kept or
//! answered. [`go_on`] may wait for a turn, so it is called where nothing is held that others wait for.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipeann_engine::memory::OverLimit;

/// Somebody who waits for an answer.
pub trait Asker: Send + Sync {
    /// Why the answer is of no use any more, if so.
    fn gone(&self) -> Option<Gone>;

    /// Lets others have the processor, where this call has had much of it.
    fn pause(&self) {}

    /// Whether much has been done since the last pause.
    fn is_due(&self) -> bool {
        false
    }

    /// The answer becomes larger by so many bytes.
    ///
    /// # Errors
    /// [`TooMuch`].
    fn grows(&self, _bytes: u64) -> Result<(), TooMuch> {
        Ok(())
    }

    /// So many of these bytes are there no more.
    fn shrinks(&self, _bytes: u64) {}
}

/// Why an answer is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// Nobody waits for it.
    #[error("whoever asked has gone")]
    Left,
    /// Its time has passed.
    #[error("context deadline exceeded: the call took longer than its caller waits")]
    Late,
    /// Too many calls that take long are under way.
    #[error("too many calls that take long are under way; try again later")]
    Crowded,
}

/// Why an answer may not become larger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    /// It would not fit what a client takes.
    #[error("the answer would have more than {most_bytes} bytes; ask for fewer rows or fields")]
    Answer {
        /// The most bytes.
        most_bytes: u64,
    },
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] OverLimit),
}

/// Work between two looks at whether somebody waits; comparing a byte is 1.
const BETWEEN_LOOKS: usize = 1 << 16;

thread_local! {
    static ASKER: RefCell<Option<Arc<dyn Asker>>> = const { RefCell::new(None) };
    static LEFT: Cell<usize> = const { Cell::new(BETWEEN_LOOKS) };
    static GONE: Cell<Option<Gone>> = const { Cell::new(None) };
}

/// Restores who asked before.
struct PreviousAsker(Option<Arc<dyn Asker>>, Option<Gone>);

impl Drop for PreviousAsker {
    fn drop(&mut self) {
        ASKER.set(self.0.take());
        GONE.set(self.1);
    }
}

/// Does something on this thread for `asker`, or for nobody known.
pub fn within<T>(asker: Option<Arc<dyn Asker>>, work: impl FnOnce() -> T) -> T {
    let _before = PreviousAsker(ASKER.replace(asker), GONE.replace(None));
    work()
}

/// Who asks, for threads that take part.
pub fn current() -> Option<Arc<dyn Asker>> {
    ASKER.with_borrow(Clone::clone)
}

/// Some work was done, about as much as comparing so many bytes. `false` where nobody waits any
/// more, and going on is of no use.
pub fn worked(units: usize) -> bool {
    let left = LEFT.get();
    if units < left {
        LEFT.set(left - units);
    } else {
        LEFT.set(BETWEEN_LOOKS);
        look();
    }
    GONE.get().is_none()
}

/// Whether going on is of use; waits for a turn where others are to have theirs.
///
/// # Errors
/// [`Gone`].
pub fn go_on() -> Result<(), Gone> {
    if let Some(asker) = current() {
        asker.pause();
        look();
    }
    is_wanted()
}

/// Whether going on is of use, as it was found last; waits for nothing.
///
/// # Errors
/// [`Gone`].
pub fn is_wanted() -> Result<(), Gone> {
    GONE.get().map_or(Ok(()), Err)
}

/// How much is done at once, where it was `before` and is `most` at best: less where it takes long.
pub fn at_once(before: usize, most: usize) -> usize {
    let is_due = ASKER.with_borrow(|asker| asker.as_ref().is_some_and(|asker| asker.is_due()));
    if is_due { (before / 4).max(1) } else { before.saturating_mul(2).min(most) }
}

/// The answer becomes larger by so many bytes.
///
/// # Errors
/// [`TooMuch`].
pub fn grows(bytes: u64) -> Result<(), TooMuch> {
    ASKER.with_borrow(|asker| asker.as_ref().map_or(Ok(()), |asker| asker.grows(bytes)))
}

/// Does something on this thread of which little is kept: what the answer becomes larger by meanwhile
/// counts until it ends. What is kept is to be counted by whoever keeps it.
pub fn in_passing<T>(work: impl FnOnce() -> T) -> T {
    let Some(asker) = current() else { return work() };
    let passing = Arc::new(Passing { asker, bytes: AtomicU64::new(0) });
    within(Some(passing), work)
}

/// Whoever asks, as work in passing sees him. Dropped, he holds nothing of it.
struct Passing {
    asker: Arc<dyn Asker>,
    bytes: AtomicU64,
}

impl Asker for Passing {
    fn gone(&self) -> Option<Gone> {
        self.asker.gone()
    }

    fn pause(&self) {
        self.asker.pause();
    }

    fn is_due(&self) -> bool {
        self.asker.is_due()
    }

    fn grows(&self, bytes: u64) -> Result<(), TooMuch> {
        self.asker.grows(bytes)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn shrinks(&self, bytes: u64) {
        self.asker.shrinks(bytes);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.asker.shrinks(*self.bytes.get_mut());
    }
}

fn look() {
    if GONE.get().is_none() {
        GONE.set(ASKER.with_borrow(|asker| asker.as_ref().and_then(|asker| asker.gone())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[derive(Default)]
    struct Leaver(AtomicBool);

    impl Asker for Leaver {
        fn gone(&self) -> Option<Gone> {
            self.0.load(Ordering::Relaxed).then_some(Gone::Left)
        }
    }

    #[test]
    fn work_ends_soon_after_nobody_waits_and_only_that_work() {
        assert!(worked(usize::MAX) && go_on().is_ok(), "nobody is known");
        let leaver = Arc::new(Leaver::default());
        within(Some(leaver.clone()), || {
            assert!(worked(usize::MAX) && go_on().is_ok());
            leaver.0.store(true, Ordering::Relaxed);
            let steps = (0..).take_while(|_| worked(1 << 10)).count();
            assert!(steps <= BETWEEN_LOOKS >> 10, "{steps}");
            assert_eq!(go_on(), Err(Gone::Left));
            within(current(), || assert_eq!(go_on(), Err(Gone::Left)));
            within(None, || assert_eq!(go_on(), Ok(())));
            assert!(!worked(0), "it stays so");
        });
        assert_eq!(go_on(), Ok(()));
    }

    /// Counts what the answer has.
    #[derive(Default)]
    struct Counter(AtomicU64);

    impl Asker for Counter {
        fn gone(&self) -> Option<Gone> {
            None
        }

        fn grows(&self, bytes: u64) -> Result<(), TooMuch> {
            let sum = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
            if sum > 100 { Err(TooMuch::Answer { most_bytes: 100 }) } else { Ok(()) }
        }

        fn shrinks(&self, bytes: u64) {
            self.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    #[test]
    fn what_is_done_in_passing_counts_while_it_is_there() {
        in_passing(|| grows(u64::MAX)).unwrap();
        let counter = Arc::new(Counter::default());
        within(Some(counter.clone()), || {
            grows(10).unwrap();
            for _ in 0..9 {
                in_passing(|| {
                    grows(40).unwrap();
                    in_passing(|| grows(50)).unwrap();
                    grows(50)
                })
                .unwrap();
            }
            assert_eq!(counter.0.load(Ordering::Relaxed), 10);
            assert!(in_passing(|| grows(91)).is_err());
        });
    }
}
