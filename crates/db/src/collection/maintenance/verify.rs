//! Whether all that a collection has on disk is in order.

use std::sync::PoisonError;

use crate::catalog::IndexState;
use crate::collection::formats::Formats;
use crate::collection::identity::{LOG_DIR, ROWS_DIR, SCALARS_DIR};
use crate::collection::{Collection, CollectionError};
use crate::docstore;
use crate::field_index::{self, has_graph};
use crate::ids::RowId;
use crate::scalar;
use crate::wal;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The component.
    pub component: String,
    /// What was found.
    pub what: String,
}

impl Collection {
    /// Reads everything and compares the components: the log from its first record, every row
    /// with its values, every vector, that each live row has both, and every page of the graphs
    /// as they were written last. Writers are held back until it comes to the graphs. A graph that is not open
    /// is opened for it, which takes memory within the limit.
    ///
    /// # Errors
    /// [`CollectionError::Dropped`] and [`CollectionError::Stopped`];
    /// [`CollectionError::Index`] where a graph cannot be opened for want of memory. What is
    /// wrong with the data is no error but a finding.
    pub fn verify(&self) -> Result<Vec<Finding>, CollectionError> {
        let formats = self.current_formats()?;
        let order = self.order_when_applied()?;
        let flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
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
        // `opening` comes before these. Graphs are written beside writers and flushes anyway.
        drop((order, flushing));
        self.verify_graphs(&mut note)?;
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

    fn verify_graphs(&self, note: &mut dyn FnMut(&str, String)) -> Result<(), CollectionError> {
        for definition in self.entry()?.indexes.iter().filter(|index| has_graph(index)) {
            let IndexState::Finished { rows } = definition.state else { continue };
            let field = self.components.fields.iter().find(|field| field.id == definition.field);
            let Some(field) = field else { continue };
            let component = format!("graph of field `{}`", field.name);
            // Nobody opens, drops or replaces it meanwhile.
            let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            let dir = self.graph_dir(definition.id);
            let damage = match field.graph() {
                Some(graph) => graph.damage(),
                None if dir.exists() => {
                    field_index::damage(&dir, &self.options.graph, &self.options.accountant)
                }
                // So few rows have none.
                None if rows < self.options.graph.least_rows => Ok(Vec::new()),
                None => Ok(vec![format!("{} is missing", dir.display())]),
            };
            match damage {
                Ok(damage) => damage.into_iter().for_each(|what| note(&component, what)),
                Err(error) if error.needs_build() => note(&component, error.to_string()),
                Err(error) => return Err(self.index_error(field, &error)),
            }
        }
        Ok(())
    }
}
