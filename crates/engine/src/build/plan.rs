//! How a build divides its rows where memory is limited, and what it needs at least.

use super::error::BuildError;
use super::shards::SPREAD;
use super::sizes::Sizes;

/// Held for each row while shards are built, beside the order of pages: its shards.
const HELD_BYTES: u64 = 2 * SPREAD as u64;
/// Held for each row while the index is written, beside its code and the order: the inverse of that.
const WRITTEN_BYTES: u64 = 4;
/// Held for each component of a row of the sample: as it is, and as a float.
const SAMPLED_BYTES: u64 = 8;
/// Held for each component of the centre of a shard: as it is, packed, and summed up.
const CENTRE_BYTES: u64 = 16;
/// Rows of the sample at most, and at least: fewer make poor codes, which is better than none.
const MOST_SAMPLED: u64 = 65_536;
const FEW_SAMPLED: u64 = 1024;
const FEWEST_SAMPLED: u64 = 256;
/// More shards than this would be small, and their union a poor graph.
pub(crate) const MOST_SHARDS: u64 = 256;
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
    /// Bytes of memory that it is made for.
    pub(crate) limit: u64,
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
        let held = sizes.rows * (HELD_BYTES + sizes.slot_bytes());
        let linking = |shards: u64| {
            sizes.fixed_bytes(room(shards)) + held + room(shards) * sizes.shard_row_bytes()
        };
        let dim = sizes.layout.dim() as u64;
        let assigning = |shards: u64, sample: u64| {
            let sampled = sample.min(sizes.rows) * dim * SAMPLED_BYTES;
            sizes.fixed_bytes(0) + sampled + shards * dim * CENTRE_BYTES
        };
        let needs = |shards: u64| linking(shards).max(assigning(shards, FEWEST_SAMPLED));
        let all = FEWEST_SHARDS..=MOST_SHARDS;
        let least = all.clone().map(needs).min().expect("there are numbers of shards");
        let code_bytes = sizes.code_bytes as u64;
        let needed = least.max(written_bytes(sizes, partitions.is_some(), code_bytes));
        if limit < needed {
            return Err(BuildError::MemoryLimit { limit, needed });
        }
        let shards = all.clone().find(|&shards| needs(shards) <= limit);
        let shards = shards.expect("some number needs least");
        // Floats of the sample are there beside its bytes, while nothing else is.
        let room_for = |bytes: u64| bytes / (dim * SAMPLED_BYTES);
        let fewest = FEW_SAMPLED.min(room_for(limit - assigning(shards, 0)));
        let sample = room_for(limit / 16).clamp(fewest, MOST_SAMPLED).min(sizes.rows);
        let cut = partitions.map(|count| CutPlan::new(sizes, count, limit)).transpose()?;
        let (shards, room, sample) = (shards as usize, room(shards) as usize, sample as usize);
        Ok(Self { shards, room, sample, cut, limit })
    }

    /// Bytes of the longest code that there is room for while the index is written.
    pub(crate) fn code_room(&self, sizes: &Sizes) -> u64 {
        let others = written_bytes(sizes, self.cut.is_some(), 0);
        self.limit.saturating_sub(others) / sizes.rows.max(1)
    }

    /// What codes of so many bytes need.
    pub(crate) fn code_limit(&self, sizes: &Sizes, code_bytes: usize) -> BuildError {
        let needed = written_bytes(sizes, self.cut.is_some(), code_bytes as u64);
        BuildError::MemoryLimit { limit: self.limit, needed }
    }

    /// Bytes on disk, beside the index, while it is being built.
    pub(crate) fn spilled_bytes(sizes: &Sizes) -> u64 {
        (SPREAD as u64 + 1) * sizes.rows * sizes.list_bytes()
    }
}

/// What is in memory while codes of so many bytes are made and the index is written.
fn written_bytes(sizes: &Sizes, is_cut: bool, code_bytes: u64) -> u64 {
    let ranked = if is_cut { RANKED_BYTES } else { 0 };
    sizes.fixed_bytes(sizes.head_nodes as u64)
        + sizes.rows * (ranked + WRITTEN_BYTES + sizes.slot_bytes() + code_bytes)
        + sizes.head_memory_bytes()
}

/// Held for each row from the first partition on: its rank, and a row id where it is given.
const RANKED_BYTES: u64 = 4 + 8;
/// Held for each row while lists of neighbours are cut: where its list begins, its group, the size of
/// that, its place among the members of groups, its partition.
const CUT_BYTES: u64 = RANKED_BYTES + 8 + 4 + 4 + 4 + 2;
/// Held for each row while partitions are laid out, beside the order so far: its partition, itself among
/// those of its partition, its place among those laid out, and its place in the order.
const LAID_BYTES: u64 = RANKED_BYTES + 2 + 4 + 4 + 4;
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
        // Nothing is linked meanwhile.
        let fixed = sizes.fixed_bytes(0);
        let cut = |groups: u64| fixed + sizes.rows * CUT_BYTES + groups * group_bytes;
        let held = sizes.rows * (LAID_BYTES + sizes.slot_bytes());
        let laid = |rows: u64| fixed + held + rows * sizes.shard_row_bytes();
        let fewest = 2 * sizes.rows / LARGEST_GROUP;
        let least = laid(FEWEST_TOGETHER.min(sizes.rows));
        let sorted = fixed + SORTED_BYTES + sizes.rows * (RANKED_BYTES + 8);
        let written = written_bytes(sizes, true, sizes.code_bytes as u64);
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

    /// Of long rows, for so many threads.
    fn long(rows: u64, dim: usize, threads: usize) -> Sizes {
        let mut options = BuildOptions::new(Metric::L2);
        options.graph.threads = threads;
        Sizes::new(rows, dim, VectorType::F32, &options).expect("a shape")
    }

    #[test]
    fn scratch_of_all_threads_is_within_the_limit() {
        let limit = 1 << 30;
        let (few, many) = (long(300_000, 1536, 2), long(300_000, 1536, 32));
        let bytes = |sizes: &Sizes, threads: u64| {
            let plan = Plan::new(sizes, None, limit).expect("fits");
            // A leaf as floats and packed, for each thread.
            plan.room as u64 * sizes.shard_row_bytes() + threads * 2 * 1024 * 1536 * 4
        };
        assert!(bytes(&few, 2) <= limit && bytes(&many, 32) <= limit);
        let told = |sizes: &Sizes| sizes.peak_memory_bytes();
        assert!(told(&many) >= told(&few) + 30 * 2 * 1024 * 1536 * 4 - (64 << 20));
        // By inner product there are no leaves.
        let mut options = BuildOptions::new(Metric::InnerProduct);
        options.graph.threads = 32;
        let none = Sizes::new(300_000, 1536, VectorType::F32, &options).expect("a shape");
        assert_eq!(none.fixed_bytes(300_000), 72 << 20);
    }

    #[test]
    fn samples_and_centres_of_long_rows_are_within_the_limit() {
        let (rows, dim) = (3000, 32_768);
        let sizes = long(rows, dim, 1);
        let Err(BuildError::MemoryLimit { needed, .. }) = Plan::new(&sizes, None, 80 << 20) else {
            panic!("80 MiB are too few")
        };
        for limit in [needed, needed + (100 << 20), 4 << 30] {
            let plan = Plan::new(&sizes, None, limit).expect("fits");
            let sampled = (plan.sample * dim * 8 + plan.shards * dim * 16) as u64;
            assert!(plan.sample >= 256 && sampled < limit, "{limit}: {plan:?}");
        }
        let wide = Plan::new(&sizes, None, 4 << 30).expect("fits");
        assert_eq!(wide.sample, 1024, "as many as make good codes, where there is room");
    }

    #[test]
    fn slots_that_stay_empty_are_reckoned() {
        let needed = |fill| {
            let options = BuildOptions { fill, ..BuildOptions::new(Metric::L2) };
            let sizes = Sizes::new(4_000_000, 128, VectorType::U8, &options).expect("a shape");
            match Plan::new(&sizes, None, 1 << 20) {
                Err(BuildError::MemoryLimit { needed, .. }) => needed,
                planned => panic!("a mebibyte is too small: {planned:?}"),
            }
        };
        assert!(needed(0.25) >= needed(0.96) + 4_000_000 * (16 - 5));
    }

    #[test]
    fn longer_codes_need_more_and_fewer_fit() {
        let options = BuildOptions::new(Metric::L2);
        let sizes = Sizes::new(4_000_000, 128, VectorType::F32, &options).expect("a shape");
        let any = BuildOptions { any_scale: true, ..options };
        let long = Sizes::new(4_000_000, 128, VectorType::F32, &any).expect("a shape");
        assert_eq!((sizes.code_bytes, long.code_bytes), (32, 72));
        assert_eq!(sizes.any_scale_code_bytes(), long.code_bytes);
        assert_eq!(long.any_scale_code_bytes(), long.code_bytes);
        let more = 4_000_000 * 40;
        assert!(long.peak_memory_bytes() == sizes.peak_memory_bytes() + more);
        assert!(long.disk_bytes() >= sizes.disk_bytes() + more);
        let limit = 400 << 20;
        let plan = Plan::new(&sizes, None, limit).expect("fits");
        assert!(matches!(Plan::new(&long, None, limit), Err(BuildError::MemoryLimit { .. })));
        let room = plan.code_room(&sizes);
        assert!((32..72).contains(&room), "{room}");
        let BuildError::MemoryLimit { needed, .. } = plan.code_limit(&sizes, 72) else {
            panic!("it names the limit")
        };
        let plan = Plan { limit: needed, ..plan };
        assert_eq!(plan.code_room(&sizes), 72, "what it names is enough");
    }

    #[test]
    fn shards_have_room_for_all_rows() {
        for rows in [1, 2, 10, 1000, 1_000_000] {
            let plan = Plan::new(&sizes(rows), None, 1 << 30).expect("fits");
            assert!(plan.shards * plan.room >= SPREAD * rows as usize, "{rows}: {plan:?}");
        }
    }
}
