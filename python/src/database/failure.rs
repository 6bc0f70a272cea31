//! Errors of the database as the exceptions of `pipeann.errors`.
//!
//! A [`PyFailure`] is made without the GIL, and becomes an exception when it reaches Python.

use pipeann_db::bulk::LoadError;
use pipeann_db::catalog::CatalogError;
use pipeann_db::collection::CollectionError;
use pipeann_db::database::DatabaseError;
use pipeann_db::docstore::StoreError;
use pipeann_db::expr::FilterFault;
use pipeann_db::flat::FlatError;
use pipeann_db::ids::ErrorClass;
use pipeann_db::schema::{BatchError, SchemaError};
use pyo3::prelude::*;

/// The exception to raise, by the name of its class.
#[derive(Debug)]
pub(crate) struct PyFailure {
    class: &'static str,
    message: String,
    field: Option<String>,
    row: Option<usize>,
    /// An exception of the caller's own code, which goes back to the caller as it is.
    theirs: Option<Box<PyErr>>,
}

impl PyFailure {
    fn new(class: &'static str, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), field: None, row: None, theirs: None }
    }

    /// Bad input.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new("InputError", message)
    }

    /// A value of a field that cannot be taken; `row` counts from 0.
    pub(super) fn value(field: &str, row: Option<usize>, what: impl std::fmt::Display) -> Self {
        let place = row.map(|row| format!(", row {row}")).unwrap_or_default();
        let message = format!("field `{field}`{place}: {what}");
        Self { field: Some(field.to_owned()), row, ..Self::input(message) }
    }

    /// What may work later.
    pub(crate) fn retry(message: impl Into<String>) -> Self {
        Self::new("RetryError", message)
    }

    /// The same about a row of what was given.
    pub(crate) fn at(self, row: usize) -> Self {
        Self { row: Some(row), ..self }
    }

    /// A use of what was closed.
    pub(crate) fn closed(message: &str) -> Self {
        Self::new("ClosedError", message)
    }

    /// A use in a child of the process that opened it.
    pub(super) fn forked() -> Self {
        let message = "the database was opened before this process was forked; a forked child has \
                       to open it itself, after the parent has closed it";
        Self::new("ForkedError", message)
    }

    /// An exception of the caller's own code.
    pub(super) fn theirs(error: PyErr) -> Self {
        Self { theirs: Some(Box::new(error)), ..Self::new("Error", "") }
    }

    fn of(class: ErrorClass, error: &dyn std::fmt::Display) -> Self {
        let name = match class {
            ErrorClass::FixInput => "InputError",
            ErrorClass::Retry => "RetryError",
            ErrorClass::Stop => "StopError",
        };
        Self::new(name, error.to_string())
    }

    fn named(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

impl From<PyFailure> for PyErr {
    fn from(failure: PyFailure) -> Self {
        if let Some(theirs) = failure.theirs {
            return *theirs;
        }
        let made = Python::attach(|py| {
            let class = py.import("pipeann.errors")?.getattr(failure.class)?;
            let exception = class.call1((failure.message,))?;
            if let Some(field) = failure.field {
                exception.setattr("field", field)?;
            }
            if let Some(row) = failure.row {
                exception.setattr("row", row)?;
            }
            Ok(PyErr::from_value(exception))
        });
        made.unwrap_or_else(|error| error)
    }
}

impl From<DatabaseError> for PyFailure {
    fn from(error: DatabaseError) -> Self {
        let failure = Self::of(error.class(), &error);
        match error {
            DatabaseError::Lock(_) if failure.class == "RetryError" => failure.named("LockedError"),
            DatabaseError::Memory(_) => failure.named("MemoryLimitError"),
            DatabaseError::Catalog(error) => error.into(),
            DatabaseError::Collection { source, .. } => {
                let inner = Self::from(*source);
                Self { message: failure.message, ..inner }
            }
            _ => failure,
        }
    }
}

impl From<CatalogError> for PyFailure {
    fn from(error: CatalogError) -> Self {
        let failure = Self::of(error.class(), &error);
        match error {
            CatalogError::NotFound { .. } => failure.named("NotFoundError"),
            CatalogError::Exists { .. } | CatalogError::Differs { .. } => {
                failure.named("ExistsError")
            }
            CatalogError::Schema(error) => error.into(),
            CatalogError::Index { field, .. } => Self { field: Some(field), ..failure },
            _ => failure,
        }
    }
}

impl From<SchemaError> for PyFailure {
    fn from(error: SchemaError) -> Self {
        let failure = Self::of(error.class(), &error);
        match error {
            SchemaError::Field { field, .. } | SchemaError::UnknownField { field } => {
                Self { field: Some(field), ..failure }
            }
            _ => failure,
        }
    }
}

impl From<CollectionError> for PyFailure {
    fn from(error: CollectionError) -> Self {
        let failure = Self::of(error.class(), &error);
        match error {
            CollectionError::Dropped => failure.named("ClosedError"),
            CollectionError::Batch(error) => error.into(),
            CollectionError::DuplicateKey { second, .. } => Self { row: Some(second), ..failure },
            CollectionError::Field { field, .. } => {
                Self { field: Some(field), ..failure.named("NotFoundError") }
            }
            CollectionError::Query { field, query, .. } => {
                Self { field: Some(field), row: Some(query), ..failure }
            }
            CollectionError::QueryShape { field, .. }
            | CollectionError::Metric { field, .. }
            | CollectionError::MetricOfType { field, .. }
            | CollectionError::NoMetric { field } => Self { field: Some(field), ..failure },
            CollectionError::Filter(error) => match error.fault() {
                FilterFault::UnknownField { name } => {
                    Self { field: Some(name.clone()), ..failure.named("NotFoundError") }
                }
                _ => failure,
            },
            CollectionError::NotLoaded { .. } => failure.named("NotLoadedError"),
            CollectionError::Catalog(error) => error.into(),
            CollectionError::Memory(_)
            | CollectionError::Rows(StoreError::Memory(_))
            | CollectionError::Vectors { source: FlatError::Memory(_), .. } => {
                failure.named("MemoryLimitError")
            }
            _ => failure,
        }
    }
}

impl From<BatchError> for PyFailure {
    fn from(error: BatchError) -> Self {
        let failure = Self::of(error.class(), &error);
        match error {
            BatchError::UnknownField { field }
            | BatchError::DuplicateField { field }
            | BatchError::MissingField { field }
            | BatchError::AssignedKey { field }
            | BatchError::Length { field, .. }
            | BatchError::Type { field, .. }
            | BatchError::Dimension { field, .. } => Self { field: Some(field), ..failure },
            BatchError::Null { field, row } | BatchError::Value { field, row, .. } => {
                Self { field: Some(field), row: Some(row), ..failure }
            }
            BatchError::Row { row, .. } => Self { row: Some(row), ..failure },
            BatchError::Empty => failure,
        }
    }
}

impl From<LoadError> for PyFailure {
    fn from(error: LoadError) -> Self {
        let failure = Self::of(error.class(), &error);
        match error {
            LoadError::Source(mut source) => match source.cause.take().map(|c| c.downcast()) {
                Some(Ok(theirs)) => Self::theirs(*theirs),
                _ => failure,
            },
            LoadError::Batch { error } => {
                let inner = Self::from(error);
                Self { message: failure.message, ..inner }
            }
            LoadError::Collection(error) => error.into(),
            LoadError::Interrupted { .. } => failure.named("InterruptedLoadError"),
            LoadError::Space { .. } | LoadError::Shorter { .. } => failure,
        }
    }
}
