//! Beginning a search.

use std::sync::Arc;

use super::allowed::{AllowPlan, AllowedNodes, scan_pays};
use super::params::SearchParams;
use super::state::SearchState;
use super::view::{CodesUnavailable, GraphView};
use crate::filter::AllowSet;
use crate::types::{Metric, fit_squared_norm};

/// Whether codes say of this query how far candidates are that were not read.
pub(super) fn stops_early(view: &GraphView<'_>, query: &[u8]) -> bool {
    let norm = fit_squared_norm(query, view.layout.vector_type()).unwrap_or(f64::INFINITY);
    view.metric != Metric::InnerProduct && !view.codebook.is_beyond(norm)
}

impl SearchState {
    /// Starts a query: `query` holds one vector's bytes of the index's type and dimension.
    /// With an allow-set, only its nodes are answered.
    ///
    /// # Errors
    /// [`CodesUnavailable`] where codes needed to rank the first candidates cannot be read.
    ///
    /// # Panics
    /// Where the parameters fail [`SearchParams::validate`] or the query has another length
    /// than the index's vectors: the caller checks both.
    pub fn begin(
        &mut self,
        view: &GraphView<'_>,
        query: &[u8],
        params: &SearchParams,
        allow: Option<Arc<AllowSet>>,
    ) -> Result<(), CodesUnavailable> {
        assert!(params.validate().is_ok(), "parameters are validated before a search begins");
        assert_eq!(query.len(), view.layout.vector_bytes(), "query and index differ in dimension");
        let plan = match &allow {
            None => AllowPlan::All,
            Some(allow) if scan_pays(allow, view.codes_per_read) => AllowPlan::Scan,
            Some(_) => AllowPlan::Walk,
        };
        self.begin_with(view, query, params, allow, plan)
    }

    fn begin_with(
        &mut self,
        view: &GraphView<'_>,
        query: &[u8],
        params: &SearchParams,
        allow: Option<Arc<AllowSet>>,
        plan: AllowPlan,
    ) -> Result<(), CodesUnavailable> {
        self.portable.query.clear();
        self.portable.query.extend_from_slice(query);
        self.portable.params.clone_from(params);
        self.portable.params.policy.share(view.searches, view.share, view.layout.page_bytes());
        self.portable.params.policy.early_stop &= stops_early(view, query);
        self.derived.allow = allow;
        self.portable.filter.clear();
        self.portable.among =
            AllowedNodes::new(plan, &self.portable.params, self.allowed_share(view));
        let reserve = if plan == AllowPlan::All { self.portable.params.reserve } else { 0 };
        let pages =
            view.pages.filter(|_| plan == AllowPlan::All && self.portable.params.policy.in_memory);
        if let Some(pages) = pages {
            self.reset(view, self.portable.params.window_in_memory() + reserve);
            self.seed_in_memory(view, pages);
            return Ok(());
        }
        self.reset(view, self.portable.among.capacity(&self.portable.params) + reserve);
        self.derived.table.fill(view.codebook, &self.portable.query, view.layout.vector_type());
        if plan == AllowPlan::Scan { Ok(()) } else { self.seed_from_head(view) }
    }

    /// As [`begin`](Self::begin), with the plan for the allow-set chosen by the test.
    #[cfg(test)]
    pub(super) fn begin_filtered(
        &mut self,
        view: &GraphView<'_>,
        query: &[u8],
        params: &SearchParams,
        allow: Arc<AllowSet>,
        plan: AllowPlan,
    ) -> Result<(), CodesUnavailable> {
        self.begin_with(view, query, params, Some(allow), plan)
    }
}
