//! Columns of numbers beside an index, and filters over them.
//!
//! A column is a one-dimensional `.npy` with a value for each row of the whole index. Of its values
//! those of the rows that can be read here stay in memory. Filters are in the language of
//! `docs/filter-language.md`, over columns by their names and over `row`, the row's own number. Each is
//! evaluated once for all who ask, row by row, also where the first of them has no time left.

mod single;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use pipeann_db::expr::{BoundFilter, RowValues, Templates, compile};
use pipeann_db::schema::{FieldSpec, Schema};
use pipeann_db::value::{DataType, RowError, ScalarType, ValueRef, VectorKind};
use pipeann_engine::filter::AllowSet;
use pipeann_engine::index::Index;
use pipeann_engine::pool::{FILTER_MAX, ResolveFilter, Unresolved};
use pipeann_engine::types::NodeId;

use self::single::{Claim, EvaluationEnd, Evaluations, FilterTurn};
use crate::vectors_file::{ColumnNumber, NumbersFile};

/// What the rows' own numbers are called in a filter.
const ROW: &str = "row";
/// What their vectors are called.
const VECTORS: &str = "vector";
/// Rows that are looked at between looks at the clock.
const AT_ONCE: usize = 4096;
/// Filters whose allow-sets are kept, the last ones asked for.
const KEPT: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");

/// Which columns.
#[derive(Clone, Debug, Args)]
pub(crate) struct ColumnArgs {
    /// A column of numbers to filter by: a one-dimensional .npy (int32, int64, float32, float64 or
    /// bool) with a value for each row of the index. `row` is the number of the row itself, and there
    /// without a file. May be given several times
    #[arg(long = "column", value_name = "NAME=FILE", value_parser = column)]
    columns: Vec<(String, PathBuf)>,
}

/// Which filters.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct FilterArgs {
    /// Search among rows that pass this filter alone (docs/filter-language.md), over the columns of
    /// the servers
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
    /// A file with a filter for each query, one in a line; a blank one lets all rows pass
    #[arg(long, value_name = "FILE")]
    filters: Option<PathBuf>,
}

fn column(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.into(), file.into()))
        }
        _ => Err("expected NAME=FILE".to_owned()),
    }
}

impl FilterArgs {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.filter.is_none() && self.filters.is_none()
    }

    /// The filter of each of so many queries; none where there are no filters.
    pub(crate) fn of_each(&self, queries: usize) -> Result<Option<Vec<Vec<u8>>>> {
        let filters: Vec<Vec<u8>> = match (&self.filter, &self.filters) {
            (None, None) => return Ok(None),
            (Some(filter), _) => vec![filter.as_bytes().to_vec(); queries],
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .with_context(|| format!("{}: cannot be read", path.display()))?;
                let lines: Vec<_> =
                    text.lines().take(queries).map(|line| line.trim().into()).collect();
                let (have, path) = (lines.len(), path.display());
                ensure!(have == queries, "{path} has {have} filters, there are {queries} queries");
                lines
            }
        };
        let long = filters.iter().find(|filter| filter.len() > FILTER_MAX);
        if let Some(filter) = long {
            bail!("a filter has {} bytes, at most {FILTER_MAX} can travel", filter.len());
        }
        Ok(Some(filters))
    }
}

impl ColumnArgs {
    /// What filters the rows of an index that can be read here.
    pub(crate) fn over(&self, index: &Arc<Index>) -> Result<Arc<dyn ResolveFilter>> {
        self.over_some(index, index.rows())
    }

    /// The same where the index holds some of so many rows, by their numbers among all.
    pub(crate) fn over_some(
        &self,
        index: &Arc<Index>,
        rows: u64,
    ) -> Result<Arc<dyn ResolveFilter>> {
        let here = index.rows_here()?;
        let last = here.iter().map(|(row, _)| row.0).max().unwrap_or(0);
        ensure!(
            last < rows || here.is_empty(),
            "{} holds row {last}, the index has {rows} rows",
            index.path().display()
        );
        let mut schema = Schema::builder()
            .field(FieldSpec::new(ROW, DataType::Scalar(ScalarType::Int64)).primary_key());
        let mut values = Vec::new();
        for (name, path) in &self.columns {
            let file = NumbersFile::open(path)?;
            let have = file.len() as u64;
            let path = path.display();
            ensure!(have == rows, "{path} has {have} values, the index {rows} rows");
            let of_row = |(row, _): &(_, _)| file.get(row_number(*row));
            values.push(here.iter().map(of_row).collect::<Vec<ColumnNumber>>());
            schema = schema.field(FieldSpec::new(name, DataType::Scalar(scalar(&file))));
        }
        // Rows without vectors make no schema; no filter asks for them.
        let vectors = FieldSpec::new(VECTORS, DataType::Vector(VectorKind::Sparse));
        let schema = schema.field(vectors).build().context("the columns")?;
        let (rows, nodes) = here.into_iter().map(|(row, node)| (row.0, node)).unzip();
        let columns = Columns { schema, rows, nodes, values, index: Arc::clone(index) };
        Ok(Arc::new(ColumnFilters {
            columns: Arc::new(columns),
            evaluations: Arc::new(Evaluations::new(KEPT)),
            closing: Arc::default(),
        }))
    }
}

fn row_number(row: pipeann_engine::types::RowId) -> usize {
    usize::try_from(row.0).unwrap_or(usize::MAX)
}

fn scalar(file: &NumbersFile) -> ScalarType {
    match file.first() {
        ColumnNumber::Integer(_) => ScalarType::Int64,
        ColumnNumber::Float(_) => ScalarType::Double,
        ColumnNumber::Bool(_) => ScalarType::Bool,
    }
}

struct Columns {
    schema: Schema,
    /// The rows here, and their nodes and values in the same order.
    rows: Vec<u64>,
    nodes: Vec<NodeId>,
    values: Vec<Vec<ColumnNumber>>,
    index: Arc<Index>,
}

/// Filters over columns.
struct ColumnFilters {
    columns: Arc<Columns>,
    evaluations: Arc<Evaluations<Arc<AllowSet>>>,
    /// Whether evaluations that go on by themselves are to stop.
    closing: Arc<AtomicBool>,
}

/// A filter, and how far it has been evaluated.
struct HalfEvaluated {
    bound: BoundFilter,
    at: usize,
    pass: Vec<NodeId>,
}

/// The values of one row.
struct ColumnRow<'c>(&'c Columns, usize);

impl RowValues for ColumnRow<'_> {
    fn value(&self, field: usize) -> Result<ValueRef<'_>, RowError> {
        let Self(columns, at) = self;
        Ok(match field.checked_sub(1) {
            None => ValueRef::Int64(columns.rows[*at].cast_signed()),
            Some(column) => match columns.values[column][*at] {
                ColumnNumber::Integer(value) => ValueRef::Int64(value),
                ColumnNumber::Float(value) => ValueRef::Double(value),
                ColumnNumber::Bool(value) => ValueRef::Bool(value),
            },
        })
    }
}

impl Columns {
    fn bound(&self, filter: &[u8]) -> Result<BoundFilter, String> {
        let text = std::str::from_utf8(filter).map_err(|_| "the filter is no text".to_owned())?;
        let bound = compile(text, &self.schema, &Templates::new()).map_err(|e| e.to_string())?;
        match bound.sample {
            Some(_) => Err("a cluster takes no random sample".to_owned()),
            None => Ok(bound),
        }
    }

    /// Looks at the rows that have not been looked at; none where it is to stop before the last.
    fn go_on(
        &self,
        progress: &mut HalfEvaluated,
        stops: impl Fn() -> bool,
    ) -> Option<EvaluationEnd<Arc<AllowSet>>> {
        while progress.at < self.nodes.len() {
            if stops() {
                return None;
            }
            let end = self.nodes.len().min(progress.at + AT_ONCE);
            for at in progress.at..end {
                match progress.bound.predicate.evaluate(&ColumnRow(self, at)) {
                    Ok(Some(true)) => progress.pass.push(self.nodes[at]),
                    Ok(_) => {}
                    Err(error) => return Some(EvaluationEnd::Refused(error.to_string())),
                }
            }
            progress.at = end;
        }
        let pass = std::mem::take(&mut progress.pass);
        Some(EvaluationEnd::Given(Arc::new(self.index.allow_here(pass.len() as u64, pass))))
    }
}

impl ColumnFilters {
    /// Evaluates a filter, here as long as somebody waits, and then on a thread of its own.
    fn evaluate(
        &self,
        claim: Claim<Arc<AllowSet>>,
        filter: &[u8],
        until: Option<Instant>,
    ) -> Option<EvaluationEnd<Arc<AllowSet>>> {
        let over = || until.is_some_and(|until| Instant::now() >= until);
        let outcome = match self.columns.bound(filter) {
            Err(why) => EvaluationEnd::Refused(why),
            Ok(bound) => {
                let mut progress = HalfEvaluated { bound, at: 0, pass: Vec::new() };
                let Some(outcome) = self.columns.go_on(&mut progress, over) else {
                    self.go_apart(claim, progress);
                    return None;
                };
                outcome
            }
        };
        claim.end(outcome.clone());
        Some(outcome)
    }

    /// Where no thread can be had for it, whoever asks next begins again.
    fn go_apart(&self, mut claim: Claim<Arc<AllowSet>>, mut progress: HalfEvaluated) {
        if !claim.goes_apart() {
            return;
        }
        let (columns, closing) = (Arc::clone(&self.columns), Arc::clone(&self.closing));
        let evaluate = move || {
            let outcome = columns.go_on(&mut progress, || closing.load(Ordering::Relaxed));
            claim.end(outcome.unwrap_or(EvaluationEnd::Dropped));
        };
        // The claim goes with a thread that does not come to be.
        let _ = std::thread::Builder::new().name("filter".to_owned()).spawn(evaluate);
    }
}

impl Drop for ColumnFilters {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
    }
}

impl ResolveFilter for ColumnFilters {
    fn resolve(&self, filter: &[u8], until: Option<Instant>) -> Result<Arc<AllowSet>, Unresolved> {
        loop {
            let outcome = match self.evaluations.turn(filter) {
                FilterTurn::Kept(allow) => return Ok(allow),
                FilterTurn::Wait(under_way) => under_way.wait(until),
                FilterTurn::Evaluate(claim) => self.evaluate(claim, filter, until),
            };
            match outcome {
                None => return Err(Unresolved::Late),
                Some(EvaluationEnd::Given(allow)) => return Ok(allow),
                Some(EvaluationEnd::Refused(why)) => return Err(Unresolved::Refused(why)),
                // Whoever evaluated it has stopped, and this one has time left.
                Some(EvaluationEnd::Dropped) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pipeann_engine::build::{BuildOptions, Silent, build};
    use pipeann_engine::index::OpenOptions;
    use pipeann_engine::types::{Metric, VectorSet, VectorType};

    use super::*;

    #[test]
    fn a_filter_goes_on_beyond_the_deadline_of_who_asked_first_and_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        let bytes: Vec<u8> = (0..200 * 4).map(|i| (i * 37 % 251) as u8).collect();
        let set = VectorSet::new(&bytes, 4, VectorType::U8).unwrap();
        let options = BuildOptions::new(Metric::L2);
        build(set, &path, &options, &Silent, &AtomicBool::new(false)).unwrap();
        let options = OpenOptions { direct: false, ..OpenOptions::default() };
        let index = Arc::new(Index::open(&path, &options).unwrap());
        let columns = ColumnArgs { columns: Vec::new() };
        let filters = columns.over(&index).unwrap();
        let over = Some(Instant::now());
        assert_eq!(filters.resolve(b"row < 9", over).unwrap_err(), Unresolved::Late);
        // Nobody has time for it, and it comes to its end all the same.
        let hangs = Instant::now() + Duration::from_secs(60);
        let allow = loop {
            match filters.resolve(b"row < 9", over) {
                Ok(allow) => break allow,
                Err(why) => assert_eq!(why, Unresolved::Late),
            }
            assert!(Instant::now() < hangs, "it is evaluated by nobody");
            std::thread::park_timeout(Duration::from_millis(1));
        };
        assert_eq!(allow.len(), 9);
        // Whoever has time waits for what was begun.
        assert_eq!(filters.resolve(b"row < 7", over).unwrap_err(), Unresolved::Late);
        assert_eq!(filters.resolve(b"row < 7", None).unwrap().len(), 7);
        let wrong = filters.resolve(b"row <", over).unwrap_err();
        assert!(matches!(wrong, Unresolved::Refused(_)), "{wrong:?}");
        let few = columns.over_some(&index, 100).err().unwrap().to_string();
        assert!(few.contains("holds row 199, the index has 100 rows"), "{few}");
    }
}
