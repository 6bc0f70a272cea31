//! Codes of all rows: a codebook trained on a sample, and one of codes of any scale where others would
//! lose rows.

use super::error::BuildError;
use super::gather::in_pieces;
use super::pipeline::Build;
use super::plan::Plan;
use super::progress::{Stage, check_cancel};
use super::site::Site;
use super::source::RowSource;
use crate::quant::{CodeKind, CodeOptions, Codebook, minds_length, most_lost};
use crate::types::VectorSet;

impl Build<'_> {
    fn code_options(&self, dim: usize) -> CodeOptions {
        CodeOptions {
            kind: self.sizes.codes,
            code_bytes: self.sizes.code_bytes,
            any_scale: self.options.any_scale,
            seed: self.options.graph.seed,
            ..CodeOptions::for_dim(dim)
        }
    }

    /// Trains a codebook and codes all rows, of which the longest has this squared norm: with codes
    /// of any scale, where others would lose rows.
    ///
    /// # Errors
    /// [`BuildError::MemoryLimit`] where these are too long for a limit.
    pub(super) fn encode(
        &self,
        source: VectorSet<'_>,
        longest: f64,
    ) -> Result<(Codebook, Vec<u8>), BuildError> {
        let (metric, options) = (self.options.metric, self.code_options(source.dim()));
        let book = Codebook::train(source, metric, &options);
        if book.reaches(longest)
            && let Some(codes) = self.coded(&source, &book)?
        {
            return Ok((book, codes));
        }
        let longer = self.sizes.with_code_bytes(self.sizes.any_scale_code_bytes());
        let needed = longer.peak_memory_bytes().saturating_add(source.bytes().len() as u64);
        if let Some(limit) = self.limit.filter(|limit| *limit < needed) {
            return Err(BuildError::MemoryLimit { limit, needed });
        }
        let options = CodeOptions { any_scale: true, ..options };
        let book = Codebook::train(source, metric, &options);
        let codes = self.coded(&source, &book)?.expect("codes of any scale lose no row");
        Ok((book, codes))
    }

    /// The codes of all rows; `None` where too many of these are lost among others.
    fn coded(
        &self,
        source: &dyn RowSource,
        book: &Codebook,
    ) -> Result<Option<Vec<u8>>, BuildError> {
        let mut lost = 0;
        let codes = self.codes(source, book, &mut |set| lost += book.count_lost(set))?;
        Ok((lost <= most_lost(source.rows() as u64)).then_some(codes))
    }

    /// The codes of all rows, which are told in pieces.
    pub(super) fn codes(
        &self,
        source: &dyn RowSource,
        book: &Codebook,
        tell: &mut dyn FnMut(VectorSet<'_>),
    ) -> Result<Vec<u8>, BuildError> {
        self.progress.stage(Stage::Encode, source.rows() as u64);
        let mut codes = vec![0; source.rows() * book.code_bytes()];
        in_pieces(source, |first, set| {
            check_cancel(self.cancel)?;
            let out = &mut codes[first * book.code_bytes()..][..set.rows() * book.code_bytes()];
            book.encode_all(set, out);
            tell(set);
            self.progress.advance(set.rows() as u64);
            Ok(())
        })?;
        Ok(codes)
    }

    /// The codebook for rows of which `sample` are some, before anything else is made of them. Where
    /// codes of any scale are needed they have as many bits as the plan has room for.
    ///
    /// # Errors
    /// [`BuildError::MemoryLimit`] where it has no room for any.
    pub(super) fn trained_within(
        &self,
        plan: &Plan,
        source: &dyn RowSource,
        sample: VectorSet<'_>,
        longest: f64,
    ) -> Result<Codebook, BuildError> {
        let (metric, options) = (self.options.metric, self.code_options(source.dim()));
        let book = Codebook::train(sample, metric, &options);
        if book.reaches(longest) && !self.loses_many(source, &book)? {
            return Ok(book);
        }
        let wanted = self.sizes.any_scale_code_bytes();
        let room = usize::try_from(plan.code_room(&self.sizes)).unwrap_or(usize::MAX);
        let kind = CodeKind::Rabitq;
        let Some(code_bytes) = kind.longest_within(source.dim(), room.min(wanted)) else {
            let (shortest, _) = kind.code_bytes_range(source.dim());
            return Err(plan.code_limit(&self.sizes, shortest));
        };
        if code_bytes < wanted {
            tracing::warn!(
                "lengths of rows lie orders apart, for which codes have {wanted} bytes; the memory \
                 limit leaves room for {code_bytes}"
            );
        }
        let options = CodeOptions { kind, code_bytes, any_scale: true, ..options };
        Ok(Codebook::train(sample, metric, &options))
    }

    /// Whether too many rows are lost among others.
    fn loses_many(&self, source: &dyn RowSource, book: &Codebook) -> Result<bool, BuildError> {
        let has_lengths = source.vector_type().is_float() && minds_length(self.options.metric);
        if !has_lengths || book.is_any_scale() {
            return Ok(false);
        }
        let (rows, mut lost) = (source.rows() as u64, 0);
        self.progress.stage(Stage::Check, rows);
        in_pieces(source, |_, set| {
            check_cancel(self.cancel)?;
            lost += book.count_lost(set);
            self.progress.advance(set.rows() as u64);
            Ok(())
        })?;
        Ok(lost > most_lost(rows))
    }

    /// Where codes are longer than was reckoned, asks once more whether the disk has room for the
    /// index, and for `others` bytes beside it.
    ///
    /// # Errors
    /// [`BuildError::NoSpace`].
    pub(super) fn reckon_codes(
        &mut self,
        book: &Codebook,
        site: &Site,
        others: u64,
    ) -> Result<(), BuildError> {
        if book.code_bytes() > self.sizes.code_bytes {
            self.sizes.code_bytes = book.code_bytes();
            site.check_space(self.sizes.disk_bytes().saturating_add(others))?;
        }
        Ok(())
    }
}
