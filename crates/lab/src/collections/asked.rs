//! What a measured search asks: queries, a filter for each or for all, and what should be found.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use pipeann_cli::truth::Truth;
use pipeann_cli::vectors_file::VectorsFile;
use pipeann_engine::types::VectorSet;

/// Where the queries, their filters and their truth are.
#[derive(Debug, Args)]
pub(super) struct AskedArgs {
    /// Queries: .u8bin, .fbin, .fvecs, .bvecs or .npy
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// One filter for all queries
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "filters")]
    filter: Option<String>,
    /// Filters, one on each line: as many as queries, or one for all
    #[arg(long, value_name = "FILE")]
    filters: Option<PathBuf>,
    /// Exact truth of these queries among the rows that match; 2^32 - 1 stands where fewer rows do
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Use only the first queries
    #[arg(long, value_name = "N")]
    limit_queries: Option<usize>,
}

/// The queries of a search.
pub(super) struct QuerySet {
    file: VectorsFile,
    queries: usize,
    /// None, one for all, or one for each query.
    filters: Vec<String>,
    truth: Option<Truth>,
}

impl AskedArgs {
    /// Reads everything.
    ///
    /// # Errors
    /// Files that cannot be read or do not fit together.
    pub(super) fn read(&self, k: usize) -> Result<QuerySet> {
        let file = VectorsFile::open(&self.queries)?;
        let queries = self.limit_queries.unwrap_or(usize::MAX).min(file.rows());
        ensure!(queries > 0, "there are no queries");
        let filters = match (&self.filter, &self.filters) {
            (Some(one), _) => vec![one.clone()],
            (None, None) => Vec::new(),
            (None, Some(path)) => read_filters(path, file.rows())?,
        };
        let truth = match &self.truth {
            None => None,
            Some(path) => {
                let mut truth = Truth::open(path)?;
                if truth.queries() == file.rows() {
                    truth.truncate(queries);
                }
                truth.check(queries, k).with_context(|| path.display().to_string())?;
                Some(truth)
            }
        };
        Ok(QuerySet { file, queries, filters, truth })
    }
}

fn read_filters(path: &Path, queries: usize) -> Result<Vec<String>> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    let filters: Vec<String> = text.lines().map(str::to_owned).collect();
    match filters.len() {
        1 => Ok(filters),
        n if n == queries => Ok(filters),
        n => bail!("{}: {n} filters for {queries} queries", path.display()),
    }
}

impl QuerySet {
    /// The queries.
    pub(super) fn queries(&self) -> VectorSet<'_> {
        self.file.first(self.queries)
    }

    /// The filter of a query.
    pub(super) fn filter(&self, query: usize) -> Option<&str> {
        match &self.filters[..] {
            [one] => Some(one),
            each => each.get(query).map(String::as_str),
        }
    }

    /// What should be found.
    pub(super) fn truth(&self) -> Option<&Truth> {
        self.truth.as_ref()
    }
}
