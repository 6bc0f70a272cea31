//! Going through rows page by page, in the order of keys, all pages of one moment.
//!
//! An iterator keeps the rows of its moment alive in the row store until it is dropped. Vectors of
//! rows that were deleted since may leave the disk under it; only an iterator that reads vectors
//! notices.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use roaring::RoaringTreemap;

use super::query::{KeyPlace, RowQuery, by_key};
use super::rows::{FoundRow, RowReading, Source};
use crate::collection::components::ReadSnapshot;
use crate::collection::filter::matching::Scope;
use crate::collection::formats::Formats;
use crate::collection::partitions::partition_numbers;
use crate::collection::{Collection, CollectionError};
use crate::ids::{RowId, Seq};

/// Rows of one moment, page by page. See the module's description.
pub struct RowIterator<'c> {
    collection: &'c Collection,
    moment: ReadSnapshot<'c>,
    formats: Arc<Formats>,
    sources: Vec<Source>,
    rows: Arc<RoaringTreemap>,
    /// The last place that was come to.
    behind: Option<KeyPlace>,
    /// Rows to be passed over still.
    offset: usize,
    /// Rows to be answered still.
    left: usize,
}

impl fmt::Debug for RowIterator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = self.moment.live.applied;
        f.debug_struct("RowIterator").field("moment", &moment).finish_non_exhaustive()
    }
}

impl Collection {
    /// An iterator over the rows that are asked for, as they are now. Always in the order of
    /// keys; the order of row ids is taken for it, and a range of row ids restricts it.
    ///
    /// # Errors
    /// As [`query`](Self::query).
    pub fn iterate(&self, query: &RowQuery<'_>) -> Result<RowIterator<'_>, CollectionError> {
        let entry = self.entry()?;
        let formats = self.formats(&entry);
        let sources = self.sources(&formats, query.fields)?;
        let filter = self.bound(&formats, query.filter.as_ref())?;
        let numbers = partition_numbers(&entry, query.partitions)?;
        let behind = self.place_of(&formats.schema, query.order)?;
        let moment = self.moment_for(&entry, filter.as_deref());
        let scope = Scope {
            entry: &entry,
            formats: &formats,
            moment: &moment,
            partitions: numbers.as_deref(),
            rows: query.rows.as_ref(),
        };
        let rows = self.rows_matching(&scope, filter.as_ref(), u64::MAX)?;
        Ok(RowIterator {
            collection: self,
            moment,
            formats,
            sources,
            rows,
            behind,
            offset: query.offset,
            left: query.limit.unwrap_or(usize::MAX),
        })
    }
}

impl RowIterator<'_> {
    /// The last record of the log that its rows include.
    pub fn moment(&self) -> Seq {
        self.moment.live.applied
    }

    /// The next rows, `most` of them unless they end before; none when all were answered. After
    /// an error the same rows are tried again.
    ///
    /// # Errors
    /// A failed read, or [`CollectionError::Overtaken`].
    pub fn next_page(&mut self, most: usize) -> Result<Vec<FoundRow>, CollectionError> {
        let wanted = self.offset.saturating_add(most.min(self.left));
        if most == 0 || self.left == 0 {
            return Ok(Vec::new());
        }
        let start = self.behind.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let places = by_key(&self.moment, &self.rows, start, wanted)?;
        let rows: Vec<RowId> = places.iter().skip(self.offset).map(|(_, row)| *row).collect();
        let (formats, moment, sources) = (&*self.formats, &self.moment, &*self.sources);
        let read = self.collection.read(&RowReading { formats, moment, sources }, &rows);
        let found = read.map_err(|error| match error {
            CollectionError::Missing { .. }
                if self.collection.components.live().applied != self.moment() =>
            {
                CollectionError::Overtaken
            }
            other => other,
        })?;
        self.left -= found.len();
        self.offset = 0;
        if let Some(last) = places.into_iter().last() {
            self.behind = Some(last);
        }
        Ok(found)
    }
}
