//! What every component has that is derived from the log: how far it has come, and how far it would
//! be after a power cut. An opening takes each from there to the end of the log.
//!
//! Applying a record is not part of it: components take different parts of a record, in an order and
//! under a latch that `components` has. Graphs are not among them, since the rows that they lack are
//! searched without them; `maintenance` links those.

use std::sync::Arc;

use super::CollectionError;
use super::field_vectors::FieldVectors;
use crate::docstore::RowStore;
use crate::ids::Seq;
use crate::scalar::{ScalarBatch, ScalarIndexes};

/// A component that is made anew from the log. See the module's description.
pub(super) trait Derived {
    /// How messages name it.
    fn shown(&self) -> String;

    /// The last record that it includes.
    fn applied(&self) -> Seq;

    /// The last record that it would still include after a power cut.
    fn flushed_through(&self) -> Seq;

    /// Whether a flush has to come before more rows.
    fn is_full(&self) -> bool;

    /// Includes a record that changes nothing in it.
    ///
    /// # Errors
    /// What the component says.
    fn pass(&self, seq: Seq) -> Result<(), CollectionError>;
}

impl Derived for Arc<dyn RowStore> {
    fn shown(&self) -> String {
        "row store".to_owned()
    }

    fn applied(&self) -> Seq {
        (**self).applied()
    }

    fn flushed_through(&self) -> Seq {
        (**self).durable()
    }

    fn is_full(&self) -> bool {
        (**self).is_full()
    }

    fn pass(&self, seq: Seq) -> Result<(), CollectionError> {
        (**self).apply(seq, &[])?;
        Ok(())
    }
}

impl Derived for ScalarIndexes {
    fn shown(&self) -> String {
        "scalar indexes".to_owned()
    }

    fn applied(&self) -> Seq {
        self.applied()
    }

    fn flushed_through(&self) -> Seq {
        self.durable()
    }

    fn is_full(&self) -> bool {
        self.is_full()
    }

    fn pass(&self, seq: Seq) -> Result<(), CollectionError> {
        self.apply(seq, &ScalarBatch::new(Arc::default()))?;
        Ok(())
    }
}

impl Derived for FieldVectors {
    fn shown(&self) -> String {
        format!("vectors of field `{}`", self.name)
    }

    fn applied(&self) -> Seq {
        self.vectors.applied()
    }

    fn flushed_through(&self) -> Seq {
        self.vectors.durable()
    }

    fn is_full(&self) -> bool {
        self.vectors.is_full()
    }

    fn pass(&self, seq: Seq) -> Result<(), CollectionError> {
        self.append(seq, &[], &[], &|| Ok(()))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docstore::MemoryRows;

    #[test]
    fn a_record_that_changes_nothing_is_included() {
        let rows: Arc<dyn RowStore> = Arc::new(MemoryRows::new());
        let derived: &dyn Derived = &rows;
        derived.pass(Seq(7)).unwrap();
        assert_eq!((derived.applied(), derived.is_full()), (Seq(7), false));
        assert!(derived.flushed_through() <= Seq(7));
    }
}
