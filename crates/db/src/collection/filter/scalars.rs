//! The scalar indexes of a collection: opened or made anew, loaded, and asked as of a moment.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use roaring::RoaringTreemap;

use crate::collection::formats::Formats;
use crate::collection::{Collection, CollectionError};
use crate::docstore::RowStore;
use crate::ids::{RowId, Seq};
use crate::scalar::{
    Condition, Judged, KeyPredicate, MatchEstimate, Postings, Pressure, ScalarBatch, ScalarColumn,
    ScalarError, ScalarIndexes, ScalarOptions, ScalarView, SignatureTest, Sketch,
};
use crate::wal::Recovery;

/// Rows read at once while the indexes are made from the row store.
const ROWS_AT_ONCE: usize = 4096;

/// The scalar indexes and the live rows of one moment.
#[derive(Clone, Debug)]
pub struct ScalarMoment {
    /// The record of the log that it is as of.
    pub applied: Seq,
    live: Arc<RoaringTreemap>,
    view: ScalarView,
    formats: Arc<Formats>,
}

impl ScalarMoment {
    /// The condition on the field of this name; `None` where no index can answer it: the field is
    /// none of the schema or not indexed, or operation or values do not fit its type.
    #[must_use]
    pub fn predicate(&self, field: &str, condition: &Condition) -> Option<KeyPredicate> {
        let field = self.formats.schema.field(field)?.id;
        let column = self.formats.scalars.iter().find(|column| column.field == field)?;
        KeyPredicate::new(column, condition)
    }

    /// How many live rows match.
    ///
    /// # Errors
    /// A failed read, or damage: the rows have to be looked at then.
    pub fn estimate(&self, predicate: &KeyPredicate) -> Result<MatchEstimate, ScalarError> {
        self.view.estimate(predicate, &self.live)
    }

    /// The live rows that match.
    ///
    /// # Errors
    /// As [`estimate`](Self::estimate).
    pub fn postings(&self, predicate: &KeyPredicate) -> Result<Postings, ScalarError> {
        self.view.postings(predicate, &self.live)
    }

    /// What tells from memory alone which rows cannot match.
    #[must_use]
    pub fn signature_test(&self, sketch: &Sketch) -> SignatureTest {
        self.view.signature_test(sketch)
    }

    /// The live rows.
    #[must_use]
    pub fn live(&self) -> &RoaringTreemap {
        &self.live
    }

    /// The indexes, for statistics.
    #[must_use]
    pub fn view(&self) -> &ScalarView {
        &self.view
    }
}

impl Collection {
    /// The scalar indexes of now.
    ///
    /// # Errors
    /// [`CollectionError::Dropped`].
    pub fn scalar_moment(&self) -> Result<ScalarMoment, CollectionError> {
        let formats = self.current_formats()?;
        let (live, view) = self.components.scalar_view();
        Ok(ScalarMoment { applied: live.applied, live: live.among(None), view, formats })
    }

    /// Reads the signatures into memory. Where they cannot be read, every row may match until the
    /// next opening, which makes them anew.
    pub(in crate::collection) fn load_scalars(&self) -> Result<(), CollectionError> {
        match self.components.scalars.load() {
            Err(error) if error.is_damage() => {
                tracing::warn!(collection = self.identity.id.0, "{error}");
                Ok(())
            }
            other => Ok(other?),
        }
    }
}

/// Opens the scalar indexes in `dir`; those that are missing, damaged, or of another time than the
/// log are made anew from the row store.
pub(in crate::collection) fn open_scalars(
    dir: &Path,
    options: ScalarOptions,
    formats: &Formats,
    rows: &dyn RowStore,
    recovery: &Recovery,
) -> Result<ScalarIndexes, CollectionError> {
    let columns: Arc<[ScalarColumn]> = Arc::clone(&formats.scalars);
    let why = match ScalarIndexes::open(dir, Arc::clone(&columns), options.clone()) {
        Ok(opened) => {
            let applied = opened.applied();
            if applied.next() >= recovery.first && applied <= recovery.last {
                return Ok(opened);
            }
            format!("they have come to record {}", applied.0)
        }
        Err(error) if error.is_damage() => error.to_string(),
        Err(error) => return Err(error.into()),
    };
    if rows.count() > 0 {
        tracing::warn!(dir = %dir.display(), "scalar indexes are made anew: {why}");
    }
    ScalarIndexes::remove(dir)?;
    let made = ScalarIndexes::open(dir, columns, options)?;
    make(&made, formats, rows)?;
    Ok(made)
}

/// Adds all rows of the row store to empty indexes.
fn make(
    indexes: &ScalarIndexes,
    formats: &Formats,
    rows: &dyn RowStore,
) -> Result<(), CollectionError> {
    // Nothing is gone that the row store has.
    let nothing = RoaringTreemap::new();
    let judged = Judged { live: &nothing, next_row: RowId(0) };
    let snapshot = rows.snapshot();
    let mut start = Bound::Unbounded;
    loop {
        let mut batch = ScalarBatch::new(Arc::clone(&formats.scalars));
        let (mut last, mut count, mut failed) = (None, 0, Ok(()));
        snapshot.scan_rows(start, ROWS_AT_ONCE, &mut |row| {
            (last, count) = (Some(row.row), count + 1);
            if failed.is_ok() {
                let view = formats.open_stored(row.row, row.blob);
                failed = view.and_then(|view| {
                    formats.push_scalars(row.row, &formats.stored, &view, &mut batch)
                });
            }
        })?;
        failed?;
        if indexes.add_stored(&batch)? == Pressure::Flush {
            indexes.flush(judged)?;
        }
        match last {
            Some(last) if count == ROWS_AT_ONCE => start = Bound::Excluded(last),
            _ => break,
        }
    }
    indexes.made(snapshot.applied());
    if snapshot.count() > 0 {
        indexes.flush(judged)?;
    }
    Ok(())
}
