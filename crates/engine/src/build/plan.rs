//! How a build divides its rows where memory is limited, and what it needs at least.

use super::error::BuildError;
use super::shards::SPREAD;
use super::sizes::Sizes;

/// Buffers, stacks and scratch of any build.
const FIXED_BYTES: u64 = 72 << 20;
/// Held for each row while shards are built: its shards and its place in the order of pages.
const HELD_BYTES: u64 = 2 * SPREAD as u64 + 5;
/// Held for each row while the index is written, beside its code: the order and its inverse.
const WRITTEN_BYTES: u64 = 9;
/// More shards than this would be small, and their union a poor graph.
const MOST_SHARDS: u64 = 256;
const FEWEST_SHARDS: u64 = SPREAD as u64 + 1;
/// Room of all shards over what stands in them: clusters are not equally large.
const SLACK: f64 = 1.2;

/// A division of rows into shards that fits a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Number of shards.
    pub(crate) shards: usize,
    /// The most rows of a shard.
    pub(crate) room: usize,
    /// The most rows of the sample that clusters and codes are made from.
    pub(crate) sample: usize,
}

impl Plan {
    /// The fewest shards that fit.
    ///
    /// # Errors
    /// [`BuildError::MemoryLimit`], naming what is needed, where no number does.
    pub(crate) fn new(sizes: &Sizes, limit: u64) -> Result<Self, BuildError> {
        let standing = (sizes.rows * SPREAD as u64) as f64 * SLACK;
        let room = |shards: u64| (standing / shards as f64).ceil() as u64;
        let linking = |shards: u64| {
            FIXED_BYTES + sizes.rows * HELD_BYTES + room(shards) * sizes.shard_row_bytes()
        };
        let written = FIXED_BYTES
            + sizes.rows * (WRITTEN_BYTES + sizes.code_bytes as u64)
            + sizes.head_memory_bytes();
        let needed = written.max(linking(MOST_SHARDS));
        if limit < needed {
            return Err(BuildError::MemoryLimit { limit, needed });
        }
        let fits = (FEWEST_SHARDS..MOST_SHARDS).find(|&shards| linking(shards) <= limit);
        let shards = fits.unwrap_or(MOST_SHARDS);
        // Floats of the sample are there beside its bytes, while nothing else is.
        let dim = sizes.layout.dim() as u64;
        let sample = (limit / 16 / (dim * 8)).clamp(1024, 65_536).min(sizes.rows);
        Ok(Self { shards: shards as usize, room: room(shards) as usize, sample: sample as usize })
    }

    /// Bytes on disk, beside the index, while it is being built.
    pub(crate) fn spilled_bytes(sizes: &Sizes) -> u64 {
        (SPREAD as u64 + 1) * sizes.rows * sizes.list_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::BuildOptions;
    use crate::types::{Metric, VectorType};

    fn sizes(rows: u64) -> Sizes {
        Sizes::new(rows, 128, VectorType::U8, &BuildOptions::new(Metric::L2)).expect("a shape")
    }

    #[test]
    fn a_smaller_limit_means_more_shards_and_too_small_a_one_names_what_is_needed() {
        let sizes = sizes(4_000_000);
        let (wide, narrow) = (Plan::new(&sizes, 2 << 30), Plan::new(&sizes, 1 << 30));
        let (wide, narrow) = (wide.expect("fits"), narrow.expect("fits"));
        assert!(wide.shards < narrow.shards, "{wide:?} {narrow:?}");
        let Err(BuildError::MemoryLimit { needed, .. }) = Plan::new(&sizes, 100 << 20) else {
            panic!("100 MiB are too few")
        };
        assert!(Plan::new(&sizes, needed).is_ok(), "what it names is enough");
        assert!(Plan::new(&sizes, needed - 1).is_err(), "and no more than that");
    }

    #[test]
    fn shards_have_room_for_all_rows() {
        for rows in [1, 2, 10, 1000, 1_000_000] {
            let plan = Plan::new(&sizes(rows), 1 << 30).expect("fits");
            assert!(plan.shards * plan.room >= SPREAD * rows as usize, "{rows}: {plan:?}");
        }
    }
}
