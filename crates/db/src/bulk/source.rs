//! Where the rows of a load come from.

use std::error::Error;

use crate::ids::ErrorClass;
use crate::schema::Batch;

/// Rows that are read once, from front to back, beginning anywhere.
pub trait BatchSource {
    /// How many rows there are, where that is known.
    fn rows(&self) -> Option<u64>;

    /// Tells this source from others. The same rows in the same order have the same number each
    /// time; a different number of rows, or another shape, another number.
    fn identity(&self) -> u128;

    /// Makes `row`, counted from 0, the next one to be read.
    ///
    /// # Errors
    /// [`SourceError`], also where there are fewer rows.
    fn seek(&mut self, row: u64) -> Result<(), SourceError>;

    /// The next rows, at most this many and at least 1; `None` at the end. Of several calls a batch
    /// is made, unless one has fewer rows than were asked for: it ends the batch.
    ///
    /// # Errors
    /// [`SourceError`].
    fn next(&mut self, most: usize) -> Result<Option<Batch>, SourceError>;
}

/// A source that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct SourceError {
    /// What is wrong, with the name of the source, and the row where it is known.
    pub what: String,
    /// What helps.
    pub class: ErrorClass,
    /// What the source itself failed with.
    #[source]
    pub cause: Option<Box<dyn Error + Send + Sync>>,
}

impl SourceError {
    /// Bad input.
    pub fn input(what: impl Into<String>) -> Self {
        Self { what: what.into(), class: ErrorClass::FixInput, cause: None }
    }

    /// With its cause.
    #[must_use]
    pub fn because(mut self, cause: impl Error + Send + Sync + 'static) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }
}
