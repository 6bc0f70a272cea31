//! What a search does about nodes that are not allowed, and what it remembers for that.
//!
//! `allow_list` tells how the plans go.

use super::params::SearchParams;
use crate::filter::AllowSet;

/// What a search does about nodes that are not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowPlan {
    /// All are.
    All,
    /// The graph is walked, past those that are not.
    Walk,
    /// All that are allowed are ranked by their codes; nothing is walked.
    Scan,
}

/// Codes scored at once where a whole allow-set is ranked.
pub(super) const SCAN_CHUNK: usize = 512;
/// No node is left to be ranked.
pub(super) const SCANNED: u32 = u32::MAX;
/// Longest list of a walk, unless the caller's is longer: what lies behind costs no read, but
/// time to keep it in order.
const WIDEST: usize = 4096;
/// Reads that a walk needs beyond those of a scan, as measured where a tenth to a half is allowed.
const WALK_READS: u64 = 40;

/// What a search among some nodes remembers beside its list. Part of the portable state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AllowedNodes {
    pub(super) plan: AllowPlan,
    /// The first node that is not ranked yet.
    pub(super) next: u32,
    /// Entries at the front of the list that a walk reads whether they are allowed or not.
    pub(super) near: usize,
    /// Entries of the list, beyond which a walk keeps allowed nodes only.
    pub(super) widest: usize,
    /// Nodes that are not allowed and no nearer than this are turned away.
    pub(super) bound: f32,
    /// Nodes whose exact distance is known, and those of them that are allowed.
    pub(super) seen: u32,
    pub(super) seen_allowed: u32,
}

impl AllowedNodes {
    pub(super) const fn all() -> Self {
        Self {
            plan: AllowPlan::All,
            next: SCANNED,
            near: 0,
            widest: 0,
            bound: f32::INFINITY,
            seen: 0,
            seen_allowed: 0,
        }
    }

    /// The beginning of a search by this plan, where such a share of the nodes is allowed.
    pub(super) fn new(plan: AllowPlan, params: &SearchParams, share: f32) -> Self {
        let next = if plan == AllowPlan::Scan { 0 } else { SCANNED };
        let mut restriction = Self { plan, next, ..Self::all() };
        restriction.make_room(params, share);
        restriction
    }

    /// Sets what depends on the parameters.
    pub(super) fn make_room(&mut self, params: &SearchParams, share: f32) {
        (self.near, self.widest) = match self.plan {
            AllowPlan::All => (0, params.window()),
            AllowPlan::Scan => (0, params.widest()),
            AllowPlan::Walk => {
                let wide = (params.list as f32 / share.max(1e-6)) as usize;
                (params.list, wide.min(WIDEST).max(params.widest()))
            }
        };
    }

    /// Entries that the list needs.
    pub(super) fn capacity(&self, params: &SearchParams) -> usize {
        let behind = if self.plan == AllowPlan::Walk { params.k.max(params.list / 2) } else { 0 };
        self.widest + behind
    }
}

/// Whether ranking all allowed nodes by code is cheaper than walking the graph past the others,
/// where `codes_per_read` codes are ranked in the time of one page read.
pub fn scan_pays(allow: &AllowSet, codes_per_read: u32) -> bool {
    allow.is_listed() && allow.len() <= WALK_READS * u64::from(codes_per_read)
}
