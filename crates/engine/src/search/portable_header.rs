//! The header of a portable state, from bytes that may be hostile.
//!
//! It is read first, and then compared with the index, with the allow-set and with the bytes that
//! follow; of those nothing is looked at before.

use std::ops::Bound;

use super::allowed::{AllowPlan, AllowedNodes, SCANNED};
use super::by_load::ByLoad;
use super::coding_error::CodingError;
use super::distance_range::{DistanceRange, Ranged};
use super::owned::{Origin, Owned};
use super::params::SearchParams;
use super::policy::{Issue, Policy};
use super::portable::{
    FLAG_BARRIER, FLAG_CONVERGING, FLAG_DYNAMIC, FLAG_EARLY_STOP, FLAG_EXPLORED_LAST, FLAG_FILL,
    FLAG_FILLING, FLAG_HEAD, FLAG_INFORMED, FLAG_PACKED, FLAG_SCAN, FLAG_WALK,
    PORTABLE_CANDIDATE_BYTES, PORTABLE_HIT_BYTES, PORTABLE_READ_BYTES,
};
use super::portable_error::{PORTABLE_VERSION, PortableError};
use super::state_reader::StateReader;
use super::stats::SearchStats;
use super::view::GraphView;
use super::width::Width;

/// The most entries that a list may be said to hold.
const MOST_ENTRIES: usize = 4 * SearchParams::LIST_MAX;

/// See the module's description.
pub(super) struct PortableHeader {
    /// But for the pages that nobody can be asked for, which stand behind all else.
    pub(super) params: SearchParams,
    pub(super) among: AllowedNodes,
    pub(super) coding_error: CodingError,
    pub(super) ranged: Ranged,
    /// Of the list.
    pub(super) bound: f32,
    pub(super) width: u16,
    max: u16,
    pub(super) converging: bool,
    pub(super) filling: bool,
    pub(super) explored_last: bool,
    pub(super) finished: u32,
    pub(super) finished_in_list: u32,
    /// What it has cost, with this move.
    pub(super) spent: SearchStats,
    pub(super) capacity: usize,
    pub(super) hit_capacity: usize,
    pub(super) filter_bytes: usize,
    pub(super) query_bytes: usize,
    pub(super) candidates: usize,
    pub(super) hits: usize,
    pub(super) in_flight: usize,
    pub(super) reads_done: usize,
    ranges: usize,
}

impl PortableHeader {
    pub(super) fn read(r: &mut StateReader<'_>, here: Origin) -> Result<Self, PortableError> {
        let version = r.u16()?;
        if version != PORTABLE_VERSION {
            return Err(PortableError::Version { found: version });
        }
        let (flags, width, max, converge_at, ends) =
            (r.u16()?, r.u16()?, r.u16()?, r.u16()?, r.u16()?);
        let ahead = r.u16()?;
        let found = Origin { uuid: r.bytes()?, generation: r.u64()?, codebook: r.u32()? };
        if found != here {
            return Err(PortableError::Origin { found, here });
        }
        let (keep_ratio, bound, among_bound) = (r.f32()?, r.f32()?, r.f32()?);
        let (sum, squares) = (r.f32()?, r.f32()?);
        let within = DistanceRange {
            from: bound_of(ends & 0xFF, r.f32()?)?,
            to: bound_of(ends >> 8, r.f32()?)?,
        };
        let (nearest, count) = (r.f32()?, r.u32()?);
        let on = |bit: u16| flags & bit != 0;
        let plan = match (on(FLAG_SCAN), on(FLAG_WALK)) {
            (true, true) => return Err(PortableError::Malformed("two plans")),
            (true, _) => AllowPlan::Scan,
            (_, true) => AllowPlan::Walk,
            _ => AllowPlan::All,
        };
        let (next, near, widest) = (r.u32()?, r.usize()?, r.usize()?);
        let (seen, seen_allowed, too_near) = (r.u32()?, r.u32()?, r.u32()?);
        let widths = match on(FLAG_DYNAMIC) {
            true => Width::Dynamic { start: width, max, converge_at, keep_ratio },
            false => Width::Fixed(width),
        };
        let policy = policy(flags, widths, ahead)?;
        let (k, list, head_list, reserve) = (r.usize()?, r.usize()?, r.usize()?, r.usize()?);
        let without = Owned::default();
        Ok(Self {
            params: SearchParams { k, list, head_list, reserve, within, without, policy },
            among: AllowedNodes {
                plan,
                next,
                near,
                widest,
                bound: among_bound,
                seen,
                seen_allowed,
            },
            coding_error: CodingError { count, sum, squares },
            ranged: Ranged { nearest, too_near },
            bound,
            width,
            max,
            converging: on(FLAG_CONVERGING),
            filling: on(FLAG_FILLING),
            explored_last: on(FLAG_EXPLORED_LAST),
            capacity: r.usize()?,
            hit_capacity: r.usize()?,
            finished: r.u32()?,
            finished_in_list: r.u32()?,
            spent: spent(r)?,
            filter_bytes: r.usize()?,
            query_bytes: r.usize()?,
            candidates: r.usize()?,
            hits: r.usize()?,
            in_flight: r.usize()?,
            reads_done: r.usize()?,
            ranges: r.usize()?,
        })
    }

    /// Whether it can be of this index, with or without an allow-set, and of so many bytes behind it.
    pub(super) fn check(
        &self,
        view: &GraphView<'_>,
        has_allow_set: bool,
        body_bytes: usize,
    ) -> Result<(), PortableError> {
        let refuse = |why| Err(PortableError::Malformed(why));
        self.params.validate().map_err(|_| PortableError::Malformed("parameters out of range"))?;
        if self.query_bytes != view.layout.vector_bytes() {
            let expected = view.layout.vector_bytes();
            return Err(PortableError::Dimension { found: self.query_bytes, expected });
        }
        if body_bytes != self.body_bytes() {
            return refuse("length and counts disagree");
        }
        let AllowedNodes { plan, next, near, widest, seen, seen_allowed, .. } = self.among;
        let too_many = self.candidates > self.capacity || self.hits > self.hit_capacity;
        if too_many || self.capacity > MOST_ENTRIES || self.hit_capacity > MOST_ENTRIES {
            return refuse("more entries than their list holds");
        }
        if (plan == AllowPlan::All) == has_allow_set {
            return refuse("the plan and the allow-set do not fit");
        }
        if plan != AllowPlan::Scan && next != SCANNED {
            return refuse("a ranking under way without its plan");
        }
        if next != SCANNED && next >= view.node_slots {
            return refuse("a ranking beyond the index");
        }
        // What only counts up has room to do so.
        let (count, too_near) = (self.coding_error.count, self.ranged.too_near);
        if [count, seen, seen_allowed, too_near, self.finished, self.finished_in_list]
            .iter()
            .any(|n| n >> 31 != 0)
        {
            return refuse("a counter out of range");
        }
        if self.max == 0 || widest == 0 || widest > MOST_ENTRIES || near > MOST_ENTRIES {
            return refuse("a window out of range");
        }
        // It would be doubled for ever.
        if plan == AllowPlan::Walk && near == 0 {
            return refuse("a walk without a window");
        }
        Ok(())
    }

    /// Bytes behind the header.
    fn body_bytes(&self) -> usize {
        self.filter_bytes
            + self.query_bytes
            + self.candidates * PORTABLE_CANDIDATE_BYTES
            + self.hits * PORTABLE_HIT_BYTES
            + self.in_flight * PORTABLE_READ_BYTES
            + self.reads_done * 4
            + self.range_bytes()
    }

    /// Bytes of the pages that nobody can be asked for, the last of all.
    pub(super) fn range_bytes(&self) -> usize {
        self.ranges * Owned::RANGE_BYTES
    }
}

fn policy(flags: u16, width: Width, ahead: u16) -> Result<Policy, PortableError> {
    let on = |bit: u16| flags & bit != 0;
    Ok(Policy {
        barrier: on(FLAG_BARRIER),
        width,
        issue: match (on(FLAG_FILL), on(FLAG_INFORMED)) {
            (true, true) => return Err(PortableError::Malformed("two orders of reading")),
            (true, _) => Issue::Fill,
            (_, true) => Issue::Informed,
            _ => Issue::OneByOne,
        },
        packed: on(FLAG_PACKED),
        head: on(FLAG_HEAD),
        early_stop: on(FLAG_EARLY_STOP),
        // What the load was made of it stays.
        by_load: ByLoad::Off,
        in_memory: false,
        ahead,
        // It has been there.
        home: false,
    })
}

fn spent(r: &mut StateReader<'_>) -> Result<SearchStats, PortableError> {
    Ok(SearchStats {
        reads: r.u32()?.into(),
        resident_pages: r.u32()?.into(),
        reads_wasted: r.u32()?.into(),
        hops: r.u32()?.into(),
        code_distances: r.u32()?.into(),
        exact_distances: r.u32()?.into(),
        moves: u64::from(r.u32()?) + 1,
        ..SearchStats::default()
    })
}

fn bound_of(kind: u16, end: f32) -> Result<Bound<f32>, PortableError> {
    match kind {
        0 => Ok(Bound::Unbounded),
        1 => Ok(Bound::Included(end)),
        2 => Ok(Bound::Excluded(end)),
        _ => Err(PortableError::Malformed("unknown end of a range")),
    }
}
