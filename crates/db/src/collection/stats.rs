//! What a collection holds, and whether all of it is in order.

use std::sync::PoisonError;

use super::formats::Formats;
use super::identity::{LOG_DIR, ROWS_DIR, SCALARS_DIR};
use super::{Collection, CollectionError};
use crate::docstore;
use crate::ids::{RowId, Seq};
use crate::scalar;
use crate::wal;

/// What a collection holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionStats {
    /// Live rows.
    pub rows: u64,
    /// Row ids that were given out.
    pub next_row: u64,
    /// The last record that readers see.
    pub visible: Seq,
    /// The last record that every component would still have after a power cut.
    pub flushed: Seq,
    /// The last record that the log would still have after a power cut; no component is ahead of it.
    pub synced: Seq,
    /// Vectors that are kept, by name of their field; those of deleted rows are among them.
    pub vectors: Vec<(String, u64)>,
    /// Why no writes are accepted, if so.
    pub stopped: Option<String>,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The component.
    pub component: String,
    /// What was found.
    pub what: String,
}

impl Collection {
    /// What the collection holds.
    pub fn stats(&self) -> CollectionStats {
        let live = self.components.live();
        let fields = &self.components.fields;
        let durable = fields.iter().map(|field| field.vectors.durable());
        CollectionStats {
            rows: live.len(),
            next_row: self.order().next_row,
            visible: live.applied,
            flushed: durable
                .chain([self.components.scalars.durable()])
                .fold(self.components.rows.durable(), Seq::min),
            synced: self.log.durable(),
            vectors: fields.iter().map(|f| (f.name.clone(), f.vectors.len())).collect(),
            stopped: self.turns.stopped(),
        }
    }

    /// Reads everything and compares the components: the log from its first record, every row
    /// with its values, every vector, and that each live row has both. Writers are held back
    /// while it runs.
    ///
    /// # Errors
    /// [`CollectionError::Dropped`] and [`CollectionError::Stopped`]; what is wrong with the data
    /// is no error but a finding.
    pub fn verify(&self) -> Result<Vec<Finding>, CollectionError> {
        let formats = self.current_formats()?;
        let _order = self.order_when_applied()?;
        let _flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut findings = Vec::new();
        let mut note = |component: &str, what: String| {
            findings.push(Finding { component: component.to_owned(), what });
        };
        if let Err(error) = wal::verify(&self.disk, &self.path(LOG_DIR), self.identity.log()) {
            note("log", error.to_string());
        }
        match docstore::damaged_files(&self.disk.locate(&self.path(ROWS_DIR))) {
            Ok(damaged) => damaged.into_iter().for_each(|what| note("row store", what)),
            Err(error) => note("row store", error.to_string()),
        }
        self.verify_rows(&formats, &mut note);
        self.verify_vectors(&mut note);
        self.verify_scalars(&mut note);
        Ok(findings)
    }

    fn verify_rows(&self, formats: &Formats, note: &mut dyn FnMut(&str, String)) {
        let moment = self.components.moment();
        let all = moment.live.among(None);
        let mut live = all.iter().map(RowId);
        let mut each = |row: crate::docstore::Row<'_>| {
            if live.next() != Some(row.row) {
                note(
                    "live rows",
                    format!("row {} is stored, and not the next live one", row.row.0),
                );
            }
            let view = formats.open_stored(row.row, row.blob);
            let whole = view.and_then(|view| {
                view.verify().map_err(|source| CollectionError::Row { row: row.row, source })
            });
            if let Err(error) = whole {
                note("row store", error.to_string());
            }
        };
        let scan = moment.rows.scan_rows(std::ops::Bound::Unbounded, usize::MAX, &mut each);
        if let Err(error) = scan {
            note("row store", error.to_string());
        } else if let Some(row) = live.next() {
            note("row store", format!("row {} lives and is not stored", row.0));
        }
        if moment.rows.count() != moment.live.len() {
            let (stored, live) = (moment.rows.count(), moment.live.len());
            note("row store", format!("it counts {stored} rows, {live} live"));
        }
    }

    fn verify_scalars(&self, note: &mut dyn FnMut(&str, String)) {
        let component = "scalar indexes";
        for what in scalar::damaged_files(&self.disk.locate(&self.path(SCALARS_DIR))) {
            note(component, what);
        }
        let (live, view) = self.components.scalar_view();
        let missing = view.missing(&live.among(None));
        if let Some(row) = missing.min() {
            let count = missing.len();
            note(component, format!("{count} live rows are in none, row {row} the first"));
        }
    }

    fn verify_vectors(&self, note: &mut dyn FnMut(&str, String)) {
        let live = self.components.live();
        for field in &self.components.fields {
            let component = format!("vectors of field `{}`", field.name);
            let mut missing = (*live.among(None)).clone();
            let scan = field.vectors.scan(|rows, _| {
                for row in rows {
                    missing.remove(row.0);
                }
                Ok::<(), crate::flat::FlatError>(())
            });
            if let Err(error) = scan {
                note(&component, error.to_string());
            } else if let Some(row) = missing.min() {
                let count = missing.len();
                note(&component, format!("{count} live rows have none, row {row} the first"));
            }
        }
    }
}
