//! Which fields of a schema stand in the bytes of a row.

use super::definition::Schema;
use super::rules::absent;
use crate::value::{RowColumn, RowLayout};

/// Where the vectors that the engine can index stand. Other vectors always stand in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorPlacement {
    /// In the row, as everything else.
    InRow,
    /// Elsewhere, by row id.
    Apart,
}

/// How rows of a schema are laid out, and which column of a row is which field.
#[derive(Clone, Debug, PartialEq)]
pub struct RowFormat {
    layout: RowLayout,
    fields: Vec<usize>,
}

impl RowFormat {
    /// The layout.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Position in the schema of each column's field.
    pub fn fields(&self) -> &[usize] {
        &self.fields
    }

    /// The column of the field at this position of the schema; `None` where it stands
    /// elsewhere.
    pub fn column_of(&self, field: usize) -> Option<usize> {
        self.fields.binary_search(&field).ok()
    }
}

impl Schema {
    /// How rows are stored. A later version of a schema reads the rows of an earlier one, if
    /// both place their vectors alike: fields are only ever appended.
    pub fn row_format(&self, vectors: VectorPlacement) -> RowFormat {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (at, field) in self.fields().iter().enumerate() {
            let data_type = field.spec.data_type;
            let indexable = data_type.vector_kind().is_some_and(|k| k.engine_type().is_some());
            if !(indexable && vectors == VectorPlacement::Apart) {
                fields.push(at);
                columns.push(RowColumn { data_type, absent: absent(&field.spec) });
            }
        }
        columns.shrink_to_fit();
        fields.shrink_to_fit();
        RowFormat { layout: RowLayout::new(self.version(), columns), fields }
    }
}
