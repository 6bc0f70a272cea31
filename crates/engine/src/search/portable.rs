//! The portable half of a search as bytes: what a query needs to go on elsewhere.
//!
//! Little-endian, never on disk, and refused by another version or another index: it is of use only
//! where the same nodes have the same codes. A header of 190 bytes: as u16
//! version, flags, width, widest width, position of the converge phase, which ends of the
//! range are given and excluded, candidates looked through for one that can be read here; the
//! index's uuid, u64 generation and u32 version of its codebook; as f32 the ratio
//! that widens, the list's bound, the bound of nodes that are not allowed, and sum and squares of
//! the errors of codes, both ends of the range, and the nearest distance; as u32 their number, the
//! next node of a scan, entries near the query and entries before those that must be allowed, nodes
//! seen and allowed ones of them, rows nearer than the range, k, list, head list, reserve, capacities
//! of the list and of the hits, reads finished and finished in the list, what the search has cost
//! (reads, pages in memory, reads in vain, nodes explored, codes and exact distances, servers that it
//! came from), and the lengths of what follows, the filter's first.
//! Then the filter, the query's vector, candidates (f32 distance, u32 node, u8 progress and allowed bit),
//! hits (f32 distance, u64 row, u32 node, u8 returned; the `k` best, and all of them where a range
//! or a continued search wants more), reads under way (u32 page, u32 node) and
//! nodes read for (u32), and ranges of pages that nobody can be asked for (u32 first, u32 behind the
//! last). The allow-set does not travel: whoever imports the state makes it of the filter, which the
//! engine does not read, and candidates that were not known to be forbidden are looked up in it.
//!
//! `portable_header` reads the header, `import` what follows, and makes the derived half of it.

use std::ops::Bound;

use super::allowed::AllowPlan;
use super::coding_error::CodingError;
use super::distance_range::DistanceRange;
use super::hits::Hit;
use super::owned::Origin;
use super::policy::Issue;
use super::portable_error::PORTABLE_VERSION;
use super::portable_state::PortableState;
use super::state::SearchState;
use super::view::GraphView;
use super::width::Width;

/// Bytes of the header.
pub(super) const PORTABLE_HEADER_BYTES: usize = 190;
/// Bytes of a candidate.
pub(super) const PORTABLE_CANDIDATE_BYTES: usize = 9;
/// Bytes of a hit.
pub(super) const PORTABLE_HIT_BYTES: usize = 17;
/// Bytes of a read under way.
pub(super) const PORTABLE_READ_BYTES: usize = 8;

pub(super) const FLAG_BARRIER: u16 = 1;
pub(super) const FLAG_FILL: u16 = 1 << 1;
pub(super) const FLAG_PACKED: u16 = 1 << 2;
pub(super) const FLAG_HEAD: u16 = 1 << 3;
pub(super) const FLAG_CONVERGING: u16 = 1 << 4;
pub(super) const FLAG_FILLING: u16 = 1 << 5;
pub(super) const FLAG_EXPLORED_LAST: u16 = 1 << 6;
pub(super) const FLAG_SCAN: u16 = 1 << 7;
pub(super) const FLAG_DYNAMIC: u16 = 1 << 8;
pub(super) const FLAG_EARLY_STOP: u16 = 1 << 9;
pub(super) const FLAG_WALK: u16 = 1 << 10;
pub(super) const FLAG_INFORMED: u16 = 1 << 11;

impl SearchState {
    /// Appends the portable part to `out`: at most 8 KiB for a list of 200 and 128 dimensions.
    /// A width table is not portable; the width reached stays fixed from here on.
    pub fn export(&self, view: &GraphView<'_>, out: &mut Vec<u8>) {
        self.portable.encode(&view.origin, out);
    }
}

impl PortableState {
    fn encode(&self, origin: &Origin, out: &mut Vec<u8>) {
        // The others serve only to go on beyond `k`.
        let is_for_k = self.params.within.far_end().is_none() && self.params.reserve == 0;
        let kept = if is_for_k { self.params.k } else { self.hits.capacity() };
        let hits = self.hits.as_slice();
        let hits = &hits[..hits.len().min(kept)];
        let start = out.len();
        self.encode_start(origin, out);
        self.encode_numbers((hits.len(), self.hits.capacity().min(kept)), out);
        debug_assert_eq!(out.len() - start, PORTABLE_HEADER_BYTES);
        self.encode_lists(hits, out);
    }

    /// The header up to its distances.
    fn encode_start(&self, origin: &Origin, out: &mut Vec<u8>) {
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
        let DistanceRange { from, to } = self.params.within;
        let ((from_kind, from), (to_kind, to)) = (end(from), end(to));
        let ends = from_kind | to_kind << 8;
        for v in [PORTABLE_VERSION, flags, self.width, max, converge_at, ends, policy.ahead] {
            out.extend(v.to_le_bytes());
        }
        out.extend(origin.uuid);
        out.extend(origin.generation.to_le_bytes());
        out.extend(origin.codebook.to_le_bytes());
        let CodingError { sum, squares, .. } = self.coding_error;
        let nearest = self.ranged.nearest;
        for v in [keep, self.list.bound(), self.among.bound, sum, squares, from, to, nearest] {
            out.extend(v.to_le_bytes());
        }
    }

    /// The rest of the header, with how many hits there are and may be.
    fn encode_numbers(&self, (hits, hit_capacity): (usize, usize), out: &mut Vec<u8>) {
        let stats = &self.stats;
        for v in [
            self.coding_error.count as usize,
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
            self.list.entries().len(),
            hits,
            self.in_flight.len(),
            self.read_for.len(),
            self.params.without.ranges().len(),
        ] {
            // What counts on for ever stops at the largest number.
            out.extend(u32::try_from(v).unwrap_or(u32::MAX).to_le_bytes());
        }
    }

    /// What stands behind the header.
    fn encode_lists(&self, hits: &[Hit], out: &mut Vec<u8>) {
        out.extend(&self.filter);
        out.extend(&self.query);
        for c in self.list.entries() {
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
}

/// An end of a range as two numbers: whether it is there and what is beyond.
fn end(bound: Bound<f32>) -> (u16, f32) {
    match bound {
        Bound::Unbounded => (0, 0.0),
        Bound::Included(end) => (1, end),
        Bound::Excluded(end) => (2, end),
    }
}
