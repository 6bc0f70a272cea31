//! How many searches of an index are under way, on all threads together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub struct Load(Arc<AtomicU32>);

impl Load {
    /// Searches under way.
    pub fn searches(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts a search until what is returned is dropped.
    #[must_use]
    pub fn begin(&self) -> UnderWay {
        self.0.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }
}

/// A search that counts as being under way.
#[derive(Debug)]
pub struct UnderWay(Load);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_counts_until_it_is_dropped() {
        let load = Load::default();
        let (first, second) = (load.begin(), load.begin());
        assert_eq!(load.searches(), 2);
        drop(first);
        assert_eq!(load.clone().searches(), 1);
        drop(second);
        assert_eq!(load.searches(), 0);
    }
}
