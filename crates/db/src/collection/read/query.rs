//! Finding rows without vectors: by filter, partition and range of row ids, in order of row id or
//! of key, and counting them.

use std::ops::{Bound, Range};

use roaring::RoaringTreemap;

use super::rows::{FoundRow, ReadView, RowReading};
use crate::asker;
use crate::collection::components::ReadSnapshot;
use crate::collection::filter::matching::{Filter, Scope};
use crate::collection::formats::Formats;
use crate::collection::partitions::partition_numbers;
use crate::collection::pinned_snapshot::PinnedSnapshot;
use crate::collection::{Collection, CollectionError};
use crate::expr::{BoundFilter, Constant};
use crate::ids::RowId;
use crate::schema::{PrimaryKey, PrimaryKeyRef, Schema};

/// Which rows are wanted, and what of them.
#[derive(Clone, Debug, Default)]
pub struct RowQuery<'a> {
    /// Names of fields; vectors may be among them.
    pub fields: &'a [&'a str],
    /// Names of partitions; all unless given.
    pub partitions: Option<&'a [&'a str]>,
    /// Row ids from the first on, up to the one before the second; all unless given.
    pub rows: Option<Range<u64>>,
    /// Which rows; all unless given.
    pub filter: Option<Filter<'a>>,
    /// The order in which they come.
    pub order: RowOrder<'a>,
    /// How many are passed over first.
    pub offset: usize,
    /// The most rows; all unless given.
    pub limit: Option<usize>,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowOrder<'a> {
    /// By row id, which is that of insertion.
    #[default]
    RowId,
    /// By primary key, rows of the same key by row id.
    Key,
    /// By primary key, of several rows of the same key the newest only. Iterators take it for
    /// [`Key`](Self::Key).
    NewestOfKey,
    /// By primary key, those behind this one.
    KeyBehind(&'a PrimaryKey),
}

/// An entry in the order of keys.
pub(in crate::collection) type KeyPlace = (Vec<u8>, RowId);

/// Keys read at once.
const CHUNK: usize = 1024;
/// So few rows are read and sorted by their keys; for more of them, keys are gone through in order.
const SORTED: u64 = 4096;

impl Collection {
    /// The rows that are asked for.
    ///
    /// # Errors
    /// [`CollectionError::Field`], [`CollectionError::Filter`], [`CollectionError::Catalog`] for
    /// a partition that there is not, [`CollectionError::KeyType`], or a failed read.
    pub fn query(&self, query: &RowQuery<'_>) -> Result<Vec<FoundRow>, CollectionError> {
        self.query_as_of(query, None)
    }

    /// As [`query`](Self::query), of a moment that is held, or of now.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    ///
    /// # Panics
    /// Where the moment is of another collection.
    pub fn query_as_of(
        &self,
        query: &RowQuery<'_>,
        held: Option<&PinnedSnapshot>,
    ) -> Result<Vec<FoundRow>, CollectionError> {
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let sources = self.sources(&formats, query.fields)?;
        let filter = self.bound(&formats, query.filter.as_ref())?;
        let numbers = partition_numbers(&entry, query.partitions)?;
        let behind = self.place_of(&formats.schema, query.order)?;
        let start = first_place(&formats.schema, filter.as_deref(), behind.as_ref());
        let last = query.limit.map_or(usize::MAX, |limit| query.offset.saturating_add(limit));
        // In the order of ids the first are enough.
        let most = if query.order == RowOrder::RowId { last as u64 } else { u64::MAX };
        self.at_one_moment(
            ReadView { entry: &entry, filter: filter.as_deref(), held },
            || (),
            |(), moment| {
                let (partitions, rows) = (numbers.as_deref(), query.rows.as_ref());
                let scope = Scope { entry: &entry, formats: &formats, moment, partitions, rows };
                let matched = self.rows_matching(&scope, filter.as_ref(), most)?;
                let take = last - query.offset;
                let rows = match query.order {
                    RowOrder::RowId => {
                        matched.iter().skip(query.offset).take(take).map(RowId).collect()
                    }
                    RowOrder::Key | RowOrder::NewestOfKey | RowOrder::KeyBehind(_) => {
                        let few = matched.len() <= SORTED;
                        let places = match (query.order, few) {
                            (RowOrder::NewestOfKey, true) => {
                                newest(self.sorted(&formats, moment, &matched, None)?)
                            }
                            (RowOrder::NewestOfKey, false) => {
                                newest_by_key(moment, &matched, &start, last)?
                            }
                            (_, true) => {
                                self.sorted(&formats, moment, &matched, behind.as_ref())?
                            }
                            (_, false) => by_key(moment, &matched, start.clone(), last)?,
                        };
                        let places = places.into_iter().skip(query.offset).take(take);
                        places.map(|(_, row)| row).collect::<Vec<_>>()
                    }
                };
                self.read(&RowReading { formats: &formats, moment, sources: &sources }, &rows)
            },
        )
    }

    /// How many rows match a filter, of the named partitions or of all. Exact.
    ///
    /// # Errors
    /// [`CollectionError::Filter`], [`CollectionError::Catalog`] for a partition that there is
    /// not, or a failed read.
    pub fn count_matching(
        &self,
        filter: Filter<'_>,
        partitions: Option<&[&str]>,
    ) -> Result<u64, CollectionError> {
        self.count_as_of(filter, partitions, None)
    }

    /// As [`count_matching`](Self::count_matching), of a moment that is held, or of now.
    ///
    /// # Errors
    /// As [`count_matching`](Self::count_matching).
    ///
    /// # Panics
    /// Where the moment is of another collection.
    pub fn count_as_of(
        &self,
        filter: Filter<'_>,
        partitions: Option<&[&str]>,
        held: Option<&PinnedSnapshot>,
    ) -> Result<u64, CollectionError> {
        self.check_held(held);
        Ok(self.matched(&filter, partitions, (None, held))?.rows.len())
    }

    /// Few rows in the order of keys, those behind a place.
    fn sorted(
        &self,
        formats: &Formats,
        moment: &ReadSnapshot<'_>,
        rows: &RoaringTreemap,
        behind: Option<&KeyPlace>,
    ) -> Result<Vec<KeyPlace>, CollectionError> {
        let rows: Vec<RowId> = rows.iter().map(RowId).collect();
        let read = self.read(&RowReading { formats, moment, sources: &[] }, &rows)?;
        let places = read.into_iter().map(|found| (found.key.as_ref().to_bytes(), found.row));
        let mut places: Vec<KeyPlace> =
            places.filter(|place| behind.is_none_or(|behind| place > behind)).collect();
        places.sort_unstable();
        Ok(places)
    }

    /// Behind which place in the order of keys rows begin; none for the start.
    pub(in crate::collection) fn place_of(
        &self,
        schema: &Schema,
        order: RowOrder<'_>,
    ) -> Result<Option<KeyPlace>, CollectionError> {
        let RowOrder::KeyBehind(key) = order else { return Ok(None) };
        self.check_keys(schema, std::slice::from_ref(key))?;
        // Behind every row of this key.
        Ok(Some((key.as_ref().to_bytes(), RowId(u64::MAX))))
    }
}

/// Where rows that match a filter, and are behind a place, begin in the order of keys.
fn first_place(
    schema: &Schema,
    filter: Option<&BoundFilter>,
    behind: Option<&KeyPlace>,
) -> Bound<KeyPlace> {
    if let Some(behind) = behind {
        return Bound::Excluded(behind.clone());
    }
    let least = filter.map_or(Bound::Unbounded, |filter| {
        filter.predicate.lower_bound_of(schema.primary_key_position())
    });
    let bytes = |of: &Constant| match of {
        Constant::Int(key) => Some(PrimaryKeyRef::Int64(*key).to_bytes()),
        Constant::Text(key) => Some(PrimaryKeyRef::VarChar(key).to_bytes()),
        _ => None,
    };
    match least {
        Bound::Included(least) => {
            bytes(least).map_or(Bound::Unbounded, |key| Bound::Included((key, RowId(0))))
        }
        // Behind every row of this key.
        Bound::Excluded(below) => {
            bytes(below).map_or(Bound::Unbounded, |key| Bound::Excluded((key, RowId(u64::MAX))))
        }
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// The first `most` of these rows in the order of keys, from a place.
pub(in crate::collection) fn by_key(
    moment: &ReadSnapshot<'_>,
    rows: &RoaringTreemap,
    mut start: Bound<KeyPlace>,
    most: usize,
) -> Result<Vec<KeyPlace>, CollectionError> {
    let mut found = Vec::new();
    // Rows that are not behind the place cannot be counted out, so the scan may go to the end.
    while found.len() < most && (found.len() as u64) < rows.len() {
        asker::go_on()?;
        let from = start.as_ref().map(|(key, row)| (key.as_slice(), *row));
        let (mut seen, mut last) = (0, None);
        moment.rows.scan_keys(from, CHUNK, &mut |key, row| {
            seen += 1;
            if rows.contains(row.0) && found.len() < most {
                found.push((key.to_vec(), row));
            }
            if seen == CHUNK {
                last = Some((key.to_vec(), row));
            }
        })?;
        match last {
            Some(last) => start = Bound::Excluded(last),
            None => break,
        }
    }
    Ok(found)
}

/// The first `most` keys of these rows, each with its newest row.
fn newest_by_key(
    moment: &ReadSnapshot<'_>,
    rows: &RoaringTreemap,
    start: &Bound<KeyPlace>,
    most: usize,
) -> Result<Vec<KeyPlace>, CollectionError> {
    // One more, since of the last key there may be newer rows behind.
    let mut wanted = most.saturating_add(1);
    loop {
        let places = by_key(moment, rows, start.clone(), wanted)?;
        let is_all = places.len() < wanted;
        let found = newest(places);
        if is_all || found.len() > most {
            return Ok(found);
        }
        wanted = wanted.saturating_mul(2);
    }
}

/// The last place of each key.
fn newest(mut places: Vec<KeyPlace>) -> Vec<KeyPlace> {
    places.reverse();
    places.dedup_by(|older, newer| older.0 == newer.0);
    places.reverse();
    places
}
