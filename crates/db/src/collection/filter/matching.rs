//! From a filter to the rows that match it at one moment.
//!
//! [`Collection::rows_matching`] is where everything that asks for rows by filter comes through,
//! and where indexes on fields are asked, by `narrow`. Rows of which those do not tell are looked at
//! one by one. Three short cuts come before: values of the partition key name partitions, few values
//! of the primary key name rows, and a limit ends the looking.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use roaring::RoaringTreemap;

use super::filter_result_cache::FilterQuestion;
use super::prefilter::{AskedLeaf, CandidateSets, FilterRowSource, PrefilterAnswer, prefilter};
use crate::asker;
use crate::catalog::{CollectionEntry as Entry, WriteTarget};
use crate::collection::components::ReadSnapshot;
use crate::collection::formats::Formats;
use crate::collection::partitions::{partition_number, partition_numbers};
use crate::collection::pinned_snapshot::PinnedSnapshot;
use crate::collection::{Collection, CollectionError};
use crate::expr::{BoundFilter, Constant, FilterFault, Predicate, RowValues, Templates};
use crate::ids::RowId;
use crate::schema::{PrimaryKeyRef, partition_number as place_of};
use crate::value::{RowError, RowView, ValueRef};

/// A filter as it is asked for; `docs/filter-language.md` describes the language.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter<'a> {
    /// The expression. A blank one selects every row.
    pub expression: Cow<'a, str>,
    /// Values for the templates in it.
    pub templates: Cow<'a, Templates>,
}

static NO_TEMPLATES: Templates = Templates::new();

impl<'a> Filter<'a> {
    /// An expression without templates.
    pub fn new(expression: impl Into<Cow<'a, str>>) -> Self {
        Self { expression: expression.into(), templates: Cow::Borrowed(&NO_TEMPLATES) }
    }

    /// The same, with nothing copied.
    pub fn borrowed(&self) -> Filter<'_> {
        Filter {
            expression: Cow::Borrowed(&self.expression),
            templates: Cow::Borrowed(&self.templates),
        }
    }
}

/// Rows read at once.
const CHUNK: usize = 1024;
/// Rows read first, since nobody knows what they cost; each time twice as many, where they cost little.
const FIRST_CHUNK: usize = 4;
/// What a row costs at least, in bytes compared.
const ROW_WORK: usize = 256;
/// What looking for a key costs.
const KEY_WORK: usize = 4096;
/// Where more than one row in so many is to be looked at, all are read in order.
const DENSE: u64 = 4;

/// Which rows are looked at.
pub(in crate::collection) struct Scope<'a> {
    pub(in crate::collection) entry: &'a Entry,
    pub(in crate::collection) formats: &'a Formats,
    pub(in crate::collection) moment: &'a ReadSnapshot<'a>,
    /// Numbers of partitions, `None` for all.
    pub(in crate::collection) partitions: Option<&'a [u32]>,
    /// A range of row ids, `None` for all.
    pub(in crate::collection) rows: Option<&'a Range<u64>>,
}

impl Scope<'_> {
    /// The live rows of these partitions, or else of its own, that are in its range.
    fn live(&self, partitions: Option<&[u32]>) -> Arc<RoaringTreemap> {
        let live = self.moment.live.among(partitions.or(self.partitions));
        let Some(range) = self.rows else { return live };
        let mut live = Arc::unwrap_or_clone(live);
        live.remove_range(..range.start);
        live.remove_range(range.end..);
        Arc::new(live)
    }
}

/// The values of a row as the row store holds it.
struct StoredRow<'a> {
    view: RowView<'a>,
    formats: &'a Formats,
}

impl RowValues for StoredRow<'_> {
    fn value(&self, field: usize) -> Result<ValueRef<'_>, RowError> {
        match self.formats.stored.column_of(field) {
            Some(column) => self.view.get(column),
            // Vectors stand elsewhere, and no filter asks for them.
            None => Ok(ValueRef::Null),
        }
    }
}

/// The rows that matched at one moment.
pub(in crate::collection) struct Matched {
    pub(in crate::collection) rows: Arc<RoaringTreemap>,
    /// Of the moment: later rows have this id or a larger one.
    next_row: RowId,
    /// Of the schema that the filter was bound to.
    version: u32,
}

/// Decides about one row after the other, in the order of their ids.
struct Matcher<'a> {
    filter: &'a BoundFilter,
    formats: &'a Formats,
    /// Of a sample.
    seed: u64,
    matched: RoaringTreemap,
    /// Rows that were looked at.
    read: u64,
    failed: Option<CollectionError>,
}

impl Collection {
    /// The filter bound to the schema at hand; `None` where every row matches.
    pub(in crate::collection) fn bound(
        &self,
        formats: &Formats,
        filter: Option<&Filter<'_>>,
    ) -> Result<Option<Arc<BoundFilter>>, CollectionError> {
        let Some(Filter { expression, templates }) = filter else { return Ok(None) };
        let bound = self.filters.bound(expression, &formats.schema, templates);
        let bound = bound.map_err(|error| match asker::is_wanted() {
            Err(gone) if *error.fault() == FilterFault::Unwanted => CollectionError::from(gone),
            _ => error.into(),
        })?;
        let all = bound.predicate == Predicate::Const(true) && bound.sample.is_none();
        Ok((!all).then_some(bound))
    }

    /// The rows that match now, or at a moment that is held. Of those that lived `since` what
    /// matched then is taken over: a row never changes under its id.
    pub(in crate::collection) fn matched(
        &self,
        filter: &Filter<'_>,
        partitions: Option<&[&str]>,
        (since, held): (Option<Matched>, Option<&PinnedSnapshot>),
    ) -> Result<Matched, CollectionError> {
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let filter = self.bound(&formats, Some(filter))?;
        let numbers = partition_numbers(&entry, partitions)?;
        let of_now;
        let moment = match held {
            Some(held) => &held.moment,
            None => {
                of_now = self.moment_for(&entry, filter.as_deref());
                &of_now
            }
        };
        let version = formats.schema.version();
        let since = since.filter(|since| since.version == version);
        let later = since.as_ref().map(|since| since.next_row.0..u64::MAX);
        let scope = Scope {
            entry: &entry,
            formats: &formats,
            moment,
            partitions: numbers.as_deref(),
            rows: later.as_ref(),
        };
        let mut rows = self.rows_matching(&scope, filter.as_ref(), u64::MAX)?;
        if let Some(since) = since {
            rows = Arc::new(&(&*since.rows & &*moment.live.among(numbers.as_deref())) | &*rows);
        }
        Ok(Matched { rows, next_row: moment.live.next_row, version })
    }

    /// The live rows that match, the first ones by row id where `most` are enough.
    pub(in crate::collection) fn rows_matching(
        &self,
        scope: &Scope<'_>,
        filter: Option<&Arc<BoundFilter>>,
        most: u64,
    ) -> Result<Arc<RoaringTreemap>, CollectionError> {
        if scope.rows.is_some() || (filter.is_none() && scope.partitions.is_none()) {
            let rows = found(scope, filter, most)?;
            asker::is_wanted()?;
            return Ok(rows);
        }
        let question = FilterQuestion {
            filter: filter.cloned(),
            partitions: scope.partitions.map(<[u32]>::to_vec),
            applied: scope.moment.live.applied,
            hidden_before: scope.moment.live.hidden_before,
        };
        if let Some(rows) = self.answers.find(&question) {
            return Ok(rows);
        }
        let rows = found(scope, filter, most)?;
        asker::is_wanted()?;
        if most == u64::MAX {
            self.answers.keep(question, &rows);
        }
        Ok(rows)
    }
}

fn found(
    scope: &Scope<'_>,
    filter: Option<&Arc<BoundFilter>>,
    most: u64,
) -> Result<Arc<RoaringTreemap>, CollectionError> {
    match filter {
        None => Ok(scope.live(None)),
        Some(filter) => Ok(selected(scope, filter, most)?.rows),
    }
}

/// What was found, and how.
pub(in crate::collection) struct ResolvedFilter<'f> {
    pub(in crate::collection) rows: Arc<RoaringTreemap>,
    pub(in crate::collection) source: FilterRowSource,
    /// The conditions that indexes were asked for.
    pub(in crate::collection) asked: Vec<AskedLeaf<'f>>,
    /// Rows that did not need to be read.
    pub(in crate::collection) certain: u64,
    pub(in crate::collection) rows_read: u64,
}

/// The live rows that match a filter, the first ones by row id where `most` are enough.
pub(in crate::collection) fn selected<'f>(
    scope: &Scope<'_>,
    filter: &'f BoundFilter,
    most: u64,
) -> Result<ResolvedFilter<'f>, CollectionError> {
    let restricted = restricted(scope, filter)?;
    let live = scope.live(restricted.as_deref());
    let mut asked = Vec::new();
    let (known, source) = match (named_rows(scope, filter, &live)?, &scope.moment.scalars) {
        (_, Some(_)) if matches!(filter.predicate, Predicate::Const(_)) => {
            let all = filter.predicate == Predicate::Const(true);
            (
                if all { CandidateSets::all(&live) } else { CandidateSets::default() },
                FilterRowSource::Constant,
            )
        }
        // So few that looking at them costs less than asking.
        (Some(named), _) => (CandidateSets::nothing(&named), FilterRowSource::Keys),
        (None, Some(view)) => {
            let (known, leaves) = prefilter(view, scope.formats, &filter.predicate, &live);
            let useful = leaves.iter().any(|leaf| leaf.answered != PrefilterAnswer::NoIndex);
            asked = leaves;
            (known, if useful { FilterRowSource::Indexes } else { FilterRowSource::Scan })
        }
        (None, None) => (CandidateSets::nothing(&live), FilterRowSource::Scan),
    };
    let mut matcher = Matcher {
        filter,
        formats: scope.formats,
        seed: scope.moment.live.applied.0,
        matched: RoaringTreemap::new(),
        read: 0,
        failed: None,
    };
    let (open, sure) = (known.open(), matcher.drawn(known.exact));
    matcher.look_at(scope.moment, &open, |before, matched| matched + sure.rank(before) < most)?;
    let (certain, rows_read) = (sure.len(), matcher.read);
    Ok(ResolvedFilter { rows: Arc::new(matcher.matched | sure), source, asked, certain, rows_read })
}

impl Matcher<'_> {
    /// Those of the rows that belong to the sample.
    fn drawn(&self, mut rows: RoaringTreemap) -> RoaringTreemap {
        if let Some(part) = self.filter.sample {
            rows = rows.iter().filter(|row| self.is_drawn(RowId(*row), part)).collect();
        }
        rows
    }

    /// Looks at the candidates, as long as `is_wanted` says so of the next one and the number of
    /// those that matched.
    fn look_at(
        &mut self,
        moment: &ReadSnapshot<'_>,
        candidates: &RoaringTreemap,
        is_wanted: impl Fn(u64, u64) -> bool,
    ) -> Result<(), CollectionError> {
        let dense = candidates.len() > moment.live.len() / DENSE;
        let mut left = candidates.iter().peekable();
        let (mut rows, mut at_once) = (Vec::with_capacity(CHUNK), FIRST_CHUNK);
        // Live rows that a scan showed, and that it should have shown.
        let (mut seen, mut passed) = (0, 0);
        while let Some(&first) = left.peek()
            && is_wanted(first, self.matched.len())
        {
            asker::go_on()?;
            at_once = asker::at_once(at_once, CHUNK);
            if dense {
                let start = std::ops::Bound::Included(RowId(first));
                let mut next = None;
                moment.rows.scan_rows(start, at_once, &mut |row| {
                    next = row.row.0.checked_add(1);
                    if candidates.contains(row.row.0) {
                        self.note(row.row, Some(row.blob));
                        seen += 1;
                    }
                })?;
                while left.next_if(|row| next.is_none_or(|next| *row < next)).is_some() {
                    passed += 1;
                }
                if seen != passed {
                    let what = "row".to_owned();
                    return Err(CollectionError::Missing { row: RowId(first), what });
                }
            } else {
                rows.clear();
                rows.extend(left.by_ref().take(at_once).map(RowId));
                moment.rows.get(&rows, &mut |at, blob| self.note(rows[at], blob))?;
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn note(&mut self, row: RowId, blob: Option<&[u8]>) {
        if self.failed.is_some() {
            return;
        }
        self.read += 1;
        match self.matches(row, blob) {
            Ok(true) => drop(self.matched.insert(row.0)),
            Ok(false) => {}
            Err(error) => self.failed = Some(error),
        }
    }

    fn matches(&self, row: RowId, blob: Option<&[u8]>) -> Result<bool, CollectionError> {
        let missing = || CollectionError::Missing { row, what: "row".to_owned() };
        let view = self.formats.open_stored(row, blob.ok_or_else(missing)?)?;
        let stored = StoredRow { view, formats: self.formats };
        let truth = self.filter.predicate.evaluate(&stored);
        let truth = truth.map_err(|source| CollectionError::Row { row, source })?;
        // Each row costs something, whatever the filter.
        if !asker::worked(ROW_WORK) {
            asker::is_wanted()?;
        }
        Ok(truth == Some(true) && self.filter.sample.is_none_or(|part| self.is_drawn(row, part)))
    }

    /// Whether a row belongs to a sample: the same for everybody who looks at the same moment.
    fn is_drawn(&self, row: RowId, part: f64) -> bool {
        let bytes = row.0.to_le_bytes();
        let drawn = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, self.seed);
        // The upper 53 bits, as a fraction.
        ((drawn >> 11) as f64) < part * (1u64 << 53) as f64
    }
}

/// The partitions, of those that are asked for, in which rows can match, where the filter names
/// values of the partition key.
fn restricted(
    scope: &Scope<'_>,
    filter: &BoundFilter,
) -> Result<Option<Vec<u32>>, CollectionError> {
    let Some(field) = scope.formats.schema.partition_key_position() else { return Ok(None) };
    let Some(values) = filter.predicate.values_of(field) else { return Ok(None) };
    let WriteTarget::ByKey(partitions) = scope.entry.write_target(None)? else { return Ok(None) };
    let count = u32::try_from(partitions.len()).expect("the catalogue bounds them");
    let mut numbers = Vec::new();
    for key in values.iter().filter_map(key_of) {
        numbers.push(partition_number(&partitions[place_of(key, count) as usize])?);
    }
    numbers.sort_unstable();
    numbers.dedup();
    if let Some(asked) = scope.partitions {
        numbers.retain(|number| asked.contains(number));
    }
    Ok(Some(numbers))
}

/// Those of the rows that have one of the primary keys that the filter names, if it names some.
fn named_rows(
    scope: &Scope<'_>,
    filter: &BoundFilter,
    live: &RoaringTreemap,
) -> Result<Option<RoaringTreemap>, CollectionError> {
    let schema = &scope.formats.schema;
    let values = filter.predicate.values_of(schema.primary_key_position());
    let Some(values) = values.filter(|values| (values.len() as u64) < live.len() / DENSE + 1)
    else {
        return Ok(None);
    };
    let mut rows = RoaringTreemap::new();
    for key in values.iter().filter_map(key_of).filter(|k| k.key_type() == schema.key_type()) {
        if !asker::worked(KEY_WORK) {
            asker::is_wanted()?;
        }
        rows.extend(scope.moment.rows.rows_of_key(&key.to_bytes())?.iter().map(|row| row.0));
    }
    Ok(Some(rows & live))
}

/// The key that a constant is; a fraction is none.
fn key_of(constant: &Constant) -> Option<PrimaryKeyRef<'_>> {
    match constant {
        Constant::Int(key) => Some(PrimaryKeyRef::Int64(*key)),
        Constant::Text(key) => Some(PrimaryKeyRef::VarChar(key)),
        _ => None,
    }
}
