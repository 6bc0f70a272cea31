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
    /// How rows come into partitions before they are laid out, where they do.
    pub(crate) cut: Option<CutPlan>,
}

impl Plan {
    /// The fewest shards that fit; `partitions` are those that rows come into before they are laid
    /// out.
    ///
    /// # Errors
    /// [`BuildError::MemoryLimit`], naming what is needed, where no number does.
    pub(crate) fn new(
        sizes: &Sizes,
        partitions: Option<usize>,
        limit: u64,
    ) -> Result<Self, BuildError> {
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
        let cut = partitions.map(|count| CutPlan::new(sizes, count, limit)).transpose()?;
        let (shards, room, sample) = (shards as usize, room(shards) as usize, sample as usize);
        Ok(Self { shards, room, sample, cut })
    }

    /// Bytes on disk, beside the index, while it is being built.
    pub(crate) fn spilled_bytes(sizes: &Sizes) -> u64 {
        (SPREAD as u64 + 1) * sizes.rows * sizes.list_bytes()
    }
}

/// Held for each row from the first partition on: its rank, and a row id where it is given.
const RANKED_BYTES: u64 = 4 + 8;
/// Held for each row while lists of neighbours are cut: where its list begins, its group, the size of
/// that, its place among the members of groups, its partition.
const CUT_BYTES: u64 = RANKED_BYTES + 8 + 4 + 4 + 4 + 2;
/// Held for each row while partitions are laid out: its partition, itself among those of its partition,
/// its place among those laid out, and the order so far.
const LAID_BYTES: u64 = RANKED_BYTES + 2 + 4 + 4 + 9;
/// What METIS takes for a group, and for an edge at one of its ends, with what it coarsens both to.
const GROUP_BYTES: u64 = 240;
const EDGE_BYTES: u64 = 40;
/// So many edges of a group have room at least; the lightest ones are left out where it has more.
const GROUP_EDGES: u64 = 64;
/// Groups are this large at most, and about half as large; smaller ones gain nothing.
const LARGEST_GROUP: u64 = 512;
const SMALLEST_GROUP: u64 = 24;
/// At least so many groups for each partition.
const FEWEST_GROUPS: u64 = 64;
/// Pairs of neighbours that are sorted at a time.
const SORTED_BYTES: u64 = 32 << 20;
/// So many rows are laid out together at least.
const FEWEST_TOGETHER: u64 = 4096;

/// How rows come into partitions that are laid out one after the other, within a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutPlan {
    /// The most rows of a group.
    pub(crate) group: u32,
    /// The most edges between groups, each counted from both its ends.
    pub(crate) edges: usize,
    /// The most rows that are laid out together.
    pub(crate) together: usize,
    /// Bytes of pairs of neighbours that are sorted at a time.
    pub(crate) sorted_bytes: usize,
}

impl CutPlan {
    /// The smallest groups and the most rows together that fit.
    ///
    /// # Errors
    /// [`BuildError::MemoryLimit`], naming what is needed, where none do.
    pub(crate) fn new(sizes: &Sizes, partitions: usize, limit: u64) -> Result<Self, BuildError> {
        let group_bytes = GROUP_BYTES + GROUP_EDGES * EDGE_BYTES;
        let cut = |groups: u64| FIXED_BYTES + sizes.rows * CUT_BYTES + groups * group_bytes;
        let laid =
            |rows: u64| FIXED_BYTES + sizes.rows * LAID_BYTES + rows * sizes.shard_row_bytes();
        let fewest = 2 * sizes.rows / LARGEST_GROUP;
        let least = laid(FEWEST_TOGETHER.min(sizes.rows));
        let sorted = FIXED_BYTES + SORTED_BYTES + sizes.rows * (RANKED_BYTES + 8);
        let written = FIXED_BYTES
            + sizes.rows * (RANKED_BYTES + WRITTEN_BYTES + sizes.code_bytes as u64)
            + sizes.head_memory_bytes();
        let needed = cut(fewest).max(least).max(sorted).max(written);
        if limit < needed {
            return Err(BuildError::MemoryLimit { limit, needed });
        }
        let groups = ((limit - cut(0)) / group_bytes).max(1);
        let group = (2 * sizes.rows).div_ceil(groups).max(SMALLEST_GROUP);
        let group = group.min(sizes.rows / (FEWEST_GROUPS * partitions as u64)).max(1);
        let groups = 2 * sizes.rows / group;
        let edges = (limit - cut(0)).saturating_sub(groups * GROUP_BYTES) / EDGE_BYTES;
        let together = (limit - laid(0)) / sizes.shard_row_bytes();
        Ok(Self {
            group: group as u32,
            edges: edges.max(groups) as usize,
            together: together as usize,
            sorted_bytes: SORTED_BYTES as usize,
        })
    }

    /// Bytes on disk, beside the index and what it is built from, for lists of `near` neighbours.
    pub(crate) fn spilled_bytes(sizes: &Sizes, near: usize) -> u64 {
        sizes.rows * near as u64 * (2 * 8 + 2 * 4)
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
        let (wide, narrow) = (Plan::new(&sizes, None, 2 << 30), Plan::new(&sizes, None, 1 << 30));
        let (wide, narrow) = (wide.expect("fits"), narrow.expect("fits"));
        assert!(wide.shards < narrow.shards, "{wide:?} {narrow:?}");
        let Err(BuildError::MemoryLimit { needed, .. }) = Plan::new(&sizes, None, 100 << 20) else {
            panic!("100 MiB are too few")
        };
        assert!(Plan::new(&sizes, None, needed).is_ok(), "what it names is enough");
        assert!(Plan::new(&sizes, None, needed - 1).is_err(), "and no more than that");
    }

    #[test]
    fn a_smaller_limit_means_larger_groups_and_fewer_rows_together() {
        let sizes = sizes(4_000_000);
        let plan = |limit| CutPlan::new(&sizes, 10, limit);
        let (wide, narrow) = (plan(2 << 30).expect("fits"), plan(400 << 20).expect("fits"));
        assert!(
            wide.group < narrow.group
                && wide.together > narrow.together
                && wide.edges > narrow.edges,
            "{wide:?} {narrow:?}"
        );
        let Err(BuildError::MemoryLimit { needed, .. }) = plan(100 << 20) else {
            panic!("100 MiB are too few")
        };
        assert!(plan(needed).is_ok() && plan(needed - 1).is_err());
    }

    #[test]
    fn shards_have_room_for_all_rows() {
        for rows in [1, 2, 10, 1000, 1_000_000] {
            let plan = Plan::new(&sizes(rows), None, 1 << 30).expect("fits");
            assert!(plan.shards * plan.room >= SPREAD * rows as usize, "{rows}: {plan:?}");
        }
    }
}
