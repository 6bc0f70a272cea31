//! The look-up table of a query for product codes: for every subspace, what each centroid adds to the distance.
//!
//! Two forms are kept. The f32 form is exact. The 16-bit form, for byte permutations, maps
//! every subspace's parts linearly to integers on one common scale, chosen so that the sum
//! over all subspaces fits 16 bits; its error is about sqrt(code bytes / 12) steps of 1/65000
//! of the largest possible distance, far below what coding itself loses.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls into code for one instruction set")
)]

use super::CENTROIDS;
use super::code_kernel::CodeKernel;
use super::product::Product;
use super::query_parts::{SplitParts, SubspaceParts};
#[cfg(target_arch = "x86_64")]
use super::split_vbmi;
use super::subspace::SubspaceKernel;
use crate::types::Metric;

/// Scratch for one query at a time: allocated once, refilled without allocating.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "16-bit tables are used on x86-64 only")
)]
pub(super) struct ProductTable {
    pub(super) kernel: CodeKernel,
    subspace: SubspaceKernel,
    /// What every estimate begins with: 1 where the metric normalises.
    pub(super) bias: f32,
    pub(super) parts: Vec<SubspaceParts>,
    pub(super) split: Vec<SplitParts>,
    /// The least part of each subspace that is split.
    leasts: Vec<f32>,
    /// Estimate = `split_bias` + `split_step` x sum of 16-bit parts.
    pub(super) split_bias: f32,
    pub(super) split_step: f32,
}

impl ProductTable {
    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.parts.capacity() * size_of::<SubspaceParts>()
            + self.split.capacity() * size_of::<SplitParts>()
            + self.leasts.capacity() * 4
    }

    /// `kernel` must be available.
    pub(super) fn new(product: &Product, kernel: CodeKernel) -> Self {
        let rows = product.code_bytes;
        let split_rows = if kernel.splits(rows) { rows } else { 0 };
        let split = SplitParts { low: [0; CENTROIDS], high: [0; CENTROIDS] };
        Self {
            kernel,
            subspace: SubspaceKernel::new(),
            bias: 0.0,
            parts: vec![SubspaceParts([0.0; CENTROIDS]); rows],
            split: vec![split; split_rows],
            leasts: vec![0.0; split_rows],
            split_bias: 0.0,
            split_step: 0.0,
        }
    }

    /// Bytes of the codes it scores.
    pub(super) fn code_bytes(&self) -> usize {
        self.parts.len()
    }

    /// Computes the table for `query`, normalised already where the metric asks for it: squared
    /// distances for L2 and Hamming, negated products for the others.
    pub(super) fn fill(&mut self, product: &Product, metric: Metric, query: &[f32]) {
        self.bias = if metric.normalises() { 1.0 } else { 0.0 };
        let squares = matches!(metric, Metric::L2 | Metric::Hamming);
        #[cfg(target_arch = "x86_64")]
        if !self.split.is_empty() {
            let fill = if squares { split_vbmi::fill::<true> } else { split_vbmi::fill::<false> };
            let Self { parts, leasts, split, .. } = self;
            // SAFETY: 16-bit tables exist only where the CPU was found to have AVX-512 VBMI.
            let (bias, step) = unsafe { fill(product, query, parts, leasts, split) };
            (self.split_bias, self.split_step) = (bias + self.bias, step);
            return;
        }
        for (s, parts) in self.parts.iter_mut().enumerate() {
            let (centroids, x) = (product.subspace(s), &query[product.span(s)]);
            if squares {
                self.subspace.squared_l2(centroids, x, &mut parts.0);
            } else {
                self.subspace.negated_dot(centroids, x, &mut parts.0);
            }
        }
    }
}
