//! The portable part of a search as bytes: what a query needs to go on elsewhere.
//!
//! Little-endian, never on disk, and refused by another version or another index: it is of use only
//! where the same nodes have the same codes. A header of 190 bytes: as u16
//! version, flags, width, widest width, position of the converge phase, which ends of the
//! range are given and excluded, candidates looked through for one that can be read here; the
//! index's uuid, u64 generation and u32 version of its codebook; as f32 the ratio
//! that widens, the list's bound, the bound of nodes that are not allowed, and sum and squares of
//! the errors of codes, both ends of the range, and the nearest distance; as u32 their number, the next node of a scan, entries near the query and entries
//! before those that must be allowed, nodes seen and allowed ones of them, rows nearer than the range, k, list, head list, reserve, capacities of the list and of the hits, reads finished
//! and finished in the list, what the search has cost (reads, pages in memory, reads in vain,
//! nodes explored, codes and exact distances, servers that it came from), and the lengths of what
//! follows, the filter's first.
//! Then the filter, the query's vector, candidates (f32 distance, u32 node, u8 progress and allowed bit),
//! hits (f32 distance, u64 row, u32 node, u8 returned; the `k` best, and all of them where a range
//! or a continued search wants more), reads under way (u32 page, u32 node) and
//! nodes read for (u32), and ranges of pages that nobody can be asked for (u32 first, u32 behind the last). The allow-set does not travel: whoever imports the state makes it of the
//! filter, which the engine does not read, and candidates that were not known to be forbidden are
//! looked up in it.
//! A decoder for hostile bytes: it never panics and allocates no more than the bytes it was
//! given warrant. Room for lists that the parameters promise is made when it is needed, which
//! beside a search of this process is at its beginning.

use std::ops::Bound;
use std::sync::Arc;

use super::allow_list::{AllowPlan, AllowedNodes, SCANNED};
use super::by_load::ByLoad;
use super::candidates::{Candidate, CandidateProgress};
use super::coding_error::CodingError;
use super::deferred::NO_STASH;
use super::hits::Hit;
use super::owned::{Origin, Owned};
use super::params::{Issue, Policy, SearchParams, Width};
use super::state::{InFlight, SearchState};
use super::stats::SearchStats;
use super::view::GraphView;
use super::within::{DistanceRange, Ranged};
use crate::filter::AllowSet;
use crate::types::{NodeId, PageId, RowId, unfit};

/// Version of the portable form. Another one is refused.
pub(super) const PORTABLE_VERSION: u16 = 7;
/// Bytes of the header.
pub(super) const PORTABLE_HEADER_BYTES: usize = 190;
/// Where in it the length of the filter stands.
const FILTER_LEN_AT: usize = PORTABLE_HEADER_BYTES - 7 * 4;
/// Bytes of a candidate.
pub(super) const PORTABLE_CANDIDATE_BYTES: usize = 9;
/// Bytes of a hit.
pub(super) const PORTABLE_HIT_BYTES: usize = 17;
/// Bytes of a read under way.
pub(super) const PORTABLE_READ_BYTES: usize = 8;

/// Why bytes are no search state for this index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortableError {
    /// Made by another version.
    #[error("search state has version {found}, this is version {PORTABLE_VERSION}")]
    Version {
        /// Version found.
        found: u16,
    },
    /// Of another index, or of another generation of it.
    #[error("search state is of index {found}, this is {here}")]
    Origin {
        /// Where the state was made.
        found: Origin,
        /// The index asked to go on with it.
        here: Origin,
    },
    /// Too short, too long, or a field out of range.
    #[error("search state is malformed: {0}")]
    Malformed(&'static str),
    /// The query does not fit the index.
    #[error("search state carries a query of {found} bytes, the index's vectors have {expected}")]
    Dimension {
        /// Bytes found.
        found: usize,
        /// Bytes of the index's vectors.
        expected: usize,
    },
}

struct StateReader<'a>(&'a [u8]);

impl StateReader<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], PortableError> {
        let (head, rest) =
            self.0.split_first_chunk::<N>().ok_or(PortableError::Malformed("truncated"))?;
        self.0 = rest;
        Ok(*head)
    }
    fn u8(&mut self) -> Result<u8, PortableError> {
        Ok(self.bytes::<1>()?[0])
    }
    fn u16(&mut self) -> Result<u16, PortableError> {
        Ok(u16::from_le_bytes(self.bytes()?))
    }
    fn u32(&mut self) -> Result<u32, PortableError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }
    fn u64(&mut self) -> Result<u64, PortableError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }
    fn f32(&mut self) -> Result<f32, PortableError> {
        let value = f32::from_le_bytes(self.bytes()?);
        if value.is_nan() {
            Err(PortableError::Malformed("a distance is no number"))
        } else {
            Ok(value)
        }
    }
    fn usize(&mut self) -> Result<usize, PortableError> {
        Ok(self.u32()? as usize)
    }
}

const FLAG_BARRIER: u16 = 1;
const FLAG_FILL: u16 = 1 << 1;
const FLAG_PACKED: u16 = 1 << 2;
const FLAG_HEAD: u16 = 1 << 3;
const FLAG_CONVERGING: u16 = 1 << 4;
const FLAG_FILLING: u16 = 1 << 5;
const FLAG_EXPLORED_LAST: u16 = 1 << 6;
const FLAG_SCAN: u16 = 1 << 7;
const FLAG_DYNAMIC: u16 = 1 << 8;
const FLAG_EARLY_STOP: u16 = 1 << 9;
const FLAG_WALK: u16 = 1 << 10;
const FLAG_INFORMED: u16 = 1 << 11;

impl SearchState {
    /// Appends the portable part to `out`: at most 8 KiB for a list of 200 and 128 dimensions.
    /// A width table is not portable; the width reached stays fixed from here on.
    pub fn export(&self, view: &GraphView<'_>, out: &mut Vec<u8>) {
        let policy = &self.params.policy;
        let (dynamic, max, converge_at, keep) = match policy.width {
            Width::Dynamic { max, converge_at, keep_ratio, .. } => {
                (true, max, converge_at, keep_ratio)
            }
            _ => (false, self.width, 0, 0.0),
        };
        let flag = |on: bool, bit: u16| if on { bit } else { 0 };
        let flags = flag(policy.barrier, FLAG_BARRIER)
            | flag(policy.issue == Issue::Fill, FLAG_FILL)
            | flag(policy.issue == Issue::Informed, FLAG_INFORMED)
            | flag(policy.packed, FLAG_PACKED)
            | flag(policy.head, FLAG_HEAD)
            | flag(self.converging, FLAG_CONVERGING)
            | flag(self.filling, FLAG_FILLING)
            | flag(self.explored_last, FLAG_EXPLORED_LAST)
            | flag(self.among.plan == AllowPlan::Scan, FLAG_SCAN)
            | flag(self.among.plan == AllowPlan::Walk, FLAG_WALK)
            | flag(dynamic, FLAG_DYNAMIC)
            | flag(policy.early_stop, FLAG_EARLY_STOP);
        let entries = self.list.entries();
        let start = out.len();
        let DistanceRange { from, to } = self.params.within;
        // The others serve only to go on beyond `k`.
        let is_for_k = self.params.within.far_end().is_none() && self.params.reserve == 0;
        let kept = if is_for_k { self.params.k } else { self.hits.capacity() };
        let hits = self.hits.as_slice();
        let hits = &hits[..hits.len().min(kept)];
        let hit_capacity = self.hits.capacity().min(kept);
        let ((from_kind, from), (to_kind, to)) = (end(from), end(to));
        let ends = from_kind | to_kind << 8;
        for v in [PORTABLE_VERSION, flags, self.width, max, converge_at, ends, policy.ahead] {
            out.extend(v.to_le_bytes());
        }
        out.extend(view.origin.uuid);
        out.extend(view.origin.generation.to_le_bytes());
        out.extend(view.origin.codebook.to_le_bytes());
        let stats = &self.stats;
        let CodingError { count, sum, squares } = self.coding_error;
        let nearest = self.ranged.nearest;
        for v in [keep, self.list.bound(), self.among.bound, sum, squares, from, to, nearest] {
            out.extend(v.to_le_bytes());
        }
        for v in [
            count as usize,
            self.among.next as usize,
            self.among.near,
            self.among.widest,
            self.among.seen as usize,
            self.among.seen_allowed as usize,
            self.ranged.too_near as usize,
            self.params.k,
            self.params.list,
            self.params.head_list,
            self.params.reserve,
            self.list.capacity(),
            hit_capacity,
            self.finished as usize,
            self.finished_in_list as usize,
            stats.reads as usize,
            stats.resident_pages as usize,
            stats.reads_wasted as usize,
            stats.hops as usize,
            stats.code_distances as usize,
            stats.exact_distances as usize,
            stats.moves as usize,
            self.filter.len(),
            self.query.len(),
            entries.len(),
            hits.len(),
            self.in_flight.len(),
            self.read_for.len(),
            self.params.without.ranges().len(),
        ] {
            // What counts on for ever stops at the largest number.
            out.extend(u32::try_from(v).unwrap_or(u32::MAX).to_le_bytes());
        }
        debug_assert_eq!(out.len() - start, PORTABLE_HEADER_BYTES);
        out.extend(&self.filter);
        out.extend(&self.query);
        for c in entries {
            out.extend(c.distance.to_le_bytes());
            out.extend(c.node.0.to_le_bytes());
            out.push(c.progress as u8 | u8::from(c.allowed) << 7);
        }
        for h in hits {
            out.extend(h.distance.to_le_bytes());
            out.extend(h.row.0.to_le_bytes());
            out.extend(h.node.0.to_le_bytes());
            out.push(u8::from(h.returned));
        }
        for r in &self.in_flight {
            out.extend(r.page.0.to_le_bytes());
            out.extend(r.node.0.to_le_bytes());
        }
        for n in &self.read_for {
            out.extend(n.0.to_le_bytes());
        }
        self.params.without.encode(out);
    }

    /// The filter of an exported search; empty where it has none.
    ///
    /// # Errors
    /// [`PortableError`] where the bytes are no state of this version.
    pub fn filter_of(bytes: &[u8]) -> Result<&[u8], PortableError> {
        let version = StateReader(bytes).u16()?;
        if version != PORTABLE_VERSION {
            return Err(PortableError::Version { found: version });
        }
        let at = bytes.get(FILTER_LEN_AT..).ok_or(PortableError::Malformed("truncated"))?;
        let len = StateReader(at).usize()?;
        let body = bytes.get(PORTABLE_HEADER_BYTES..).and_then(|body| body.get(..len));
        body.ok_or(PortableError::Malformed("truncated"))
    }

    /// Takes over an exported search, with the allow-set of [its filter](Self::filter_of): reads under way are issued again, and pages behind nodes
    /// at hand are read once more; then it goes on and gives the identical answer.
    ///
    /// # Errors
    /// [`PortableError`] where the bytes are no state for this index.
    pub fn import(
        &mut self,
        view: &GraphView<'_>,
        bytes: &[u8],
        allow: Option<Arc<AllowSet>>,
    ) -> Result<(), PortableError> {
        let mut r = StateReader(bytes);
        let version = r.u16()?;
        if version != PORTABLE_VERSION {
            return Err(PortableError::Version { found: version });
        }
        let (flags, width, max, converge_at, ends) =
            (r.u16()?, r.u16()?, r.u16()?, r.u16()?, r.u16()?);
        let ahead = r.u16()?;
        let found = Origin { uuid: r.bytes()?, generation: r.u64()?, codebook: r.u32()? };
        if found != view.origin {
            return Err(PortableError::Origin { found, here: view.origin });
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
        let among =
            AllowedNodes { plan, next, near, widest, bound: among_bound, seen, seen_allowed };
        let policy = Policy {
            barrier: on(FLAG_BARRIER),
            width: if on(FLAG_DYNAMIC) {
                Width::Dynamic { start: width, max, converge_at, keep_ratio }
            } else {
                Width::Fixed(width)
            },
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
        };
        let (k, list, head_list, reserve) = (r.usize()?, r.usize()?, r.usize()?, r.usize()?);
        let (capacity, hit_capacity) = (r.usize()?, r.usize()?);
        let (finished, finished_in_list) = (r.u32()?, r.u32()?);
        let spent = SearchStats {
            reads: r.u32()?.into(),
            resident_pages: r.u32()?.into(),
            reads_wasted: r.u32()?.into(),
            hops: r.u32()?.into(),
            code_distances: r.u32()?.into(),
            exact_distances: r.u32()?.into(),
            moves: u64::from(r.u32()?) + 1,
            ..SearchStats::default()
        };
        let filter_bytes = r.usize()?;
        let lengths = [r.usize()?, r.usize()?, r.usize()?, r.usize()?, r.usize()?, r.usize()?];
        let [query_bytes, candidates, hits, in_flight, reads_done, ranges] = lengths;
        let params =
            SearchParams { k, list, head_list, reserve, within, policy, ..Default::default() };
        params.validate().map_err(|_| PortableError::Malformed("parameters out of range"))?;
        if query_bytes != view.layout.vector_bytes() {
            let expected = view.layout.vector_bytes();
            return Err(PortableError::Dimension { found: query_bytes, expected });
        }
        let body = filter_bytes
            + query_bytes
            + candidates * PORTABLE_CANDIDATE_BYTES
            + hits * PORTABLE_HIT_BYTES
            + in_flight * PORTABLE_READ_BYTES
            + reads_done * 4
            + ranges * Owned::RANGE_BYTES;
        if r.0.len() != body {
            return Err(PortableError::Malformed("length and counts disagree"));
        }
        let most = 4 * SearchParams::LIST_MAX;
        if candidates > capacity || hits > hit_capacity || capacity > most || hit_capacity > most {
            return Err(PortableError::Malformed("more entries than their list holds"));
        }
        if (plan == AllowPlan::All) != allow.is_none() {
            return Err(PortableError::Malformed("the plan and the allow-set do not fit"));
        }
        if plan != AllowPlan::Scan && next != SCANNED {
            return Err(PortableError::Malformed("a ranking under way without its plan"));
        }
        if next != SCANNED && next >= view.node_slots {
            return Err(PortableError::Malformed("a ranking beyond the index"));
        }
        // What only counts up has room to do so.
        if [count, seen, seen_allowed, too_near, finished, finished_in_list]
            .iter()
            .any(|n| n >> 31 != 0)
        {
            return Err(PortableError::Malformed("a counter out of range"));
        }
        if max == 0 || widest == 0 || widest > most || near > most {
            return Err(PortableError::Malformed("a window out of range"));
        }
        // It would be doubled for ever.
        if plan == AllowPlan::Walk && near == 0 {
            return Err(PortableError::Malformed("a walk without a window"));
        }
        let without = Owned::decode(&r.0[body - ranges * Owned::RANGE_BYTES..])
            .ok_or(PortableError::Malformed("no ranges of pages"))?;
        let (filter, rest) = r.0.split_at(filter_bytes);
        r.0 = rest;
        if unfit(&r.0[..query_bytes], view.layout.vector_type()).is_some() {
            return Err(PortableError::Malformed("the query is no vector of numbers"));
        }
        self.params = SearchParams { without, ..params };
        self.among = among;
        self.reset_lean(view, candidates);
        self.list.set_capacity(capacity);
        self.hits.set_capacity(hit_capacity);
        self.width = width;
        let bytes_read = spent.reads * view.layout.page_bytes() as u64;
        self.stats = SearchStats { bytes_read, width_max: width.into(), ..spent };
        (self.finished, self.finished_in_list) = (finished, finished_in_list);
        self.converging = on(FLAG_CONVERGING);
        self.filling = on(FLAG_FILLING);
        self.explored_last = on(FLAG_EXPLORED_LAST);
        self.coding_error = CodingError { count, sum, squares };
        self.ranged = Ranged { nearest, too_near, ..Ranged::default() };
        self.allow = allow;
        self.set_filter(filter);
        self.query.clear();
        self.query.extend_from_slice(&r.0[..query_bytes]);
        r.0 = &r.0[query_bytes..];
        for _ in 0..candidates {
            let (distance, node, code) = (r.f32()?, r.u32()?, r.u8()?);
            let progress = CandidateProgress::from_code(code & 0x7F)
                .ok_or(PortableError::Malformed("unknown progress"))?;
            self.import_candidate(view, distance, node, progress, code & 0x80 != 0)?;
        }
        self.list.set_bound(bound);
        for _ in 0..hits {
            let (distance, row, node) = (r.f32()?, RowId(r.u64()?), NodeId(r.u32()?));
            let returned = r.u8()? != 0;
            self.hits.insert(Hit { distance, row, node, returned });
        }
        self.look_again();
        for _ in 0..in_flight {
            let (page, node) = (PageId(r.u32()?), NodeId(r.u32()?));
            in_range(view, node)?;
            if view.layout.page_of(node) != page {
                return Err(PortableError::Malformed("a read's node lies in another page"));
            }
            self.in_flight.push(InFlight { page, node });
        }
        for _ in 0..reads_done {
            let node = NodeId(r.u32()?);
            in_range(view, node)?;
            self.read_for.push(node);
            self.mark_visited(node.0);
            if self.params.policy.packed {
                let first = view.layout.node(view.layout.page_of(node), 0).0;
                for slot in 0..view.layout.records_per_page() as u32 {
                    self.mark_visited(first + slot);
                }
            }
        }
        let again = self.in_flight.iter().map(|read| read.page);
        let mut again = again.chain(self.rebuild_pages.iter().copied());
        if view.owned.is_some_and(|owned| again.any(|page| !owned.holds(page))) {
            return Err(PortableError::Malformed("pages to be read again are not here"));
        }
        self.rebuild_pages.sort_unstable();
        self.rebuild_pages.dedup();
        self.reissue = self.in_flight.len();
        self.table.fill(view.codebook, &self.query, view.layout.vector_type());
        Ok(())
    }

    fn import_candidate(
        &mut self,
        view: &GraphView<'_>,
        distance: f32,
        node: u32,
        progress: CandidateProgress,
        allowed: bool,
    ) -> Result<(), PortableError> {
        let node = NodeId(node);
        in_range(view, node)?;
        let allowed = allowed && self.allow.as_ref().is_none_or(|allow| allow.may_allow(node));
        self.list.insert(Candidate { distance, node, stash: NO_STASH, progress, allowed });
        self.mark_visited(node.0);
        if progress == CandidateProgress::AtHand {
            self.rebuild_pages.push(view.layout.page_of(node));
        }
        Ok(())
    }
}

/// An end of a range as two numbers: whether it is there and what is beyond.
fn end(bound: Bound<f32>) -> (u16, f32) {
    match bound {
        Bound::Unbounded => (0, 0.0),
        Bound::Included(end) => (1, end),
        Bound::Excluded(end) => (2, end),
    }
}

fn bound_of(kind: u16, end: f32) -> Result<Bound<f32>, PortableError> {
    match kind {
        0 => Ok(Bound::Unbounded),
        1 => Ok(Bound::Included(end)),
        2 => Ok(Bound::Excluded(end)),
        _ => Err(PortableError::Malformed("unknown end of a range")),
    }
}

fn in_range(view: &GraphView<'_>, node: NodeId) -> Result<(), PortableError> {
    if node.0 < view.node_slots {
        Ok(())
    } else {
        Err(PortableError::Malformed("a node id is beyond the index"))
    }
}
