//! The one table from errors of the database to codes of the wire.

use pipeann_db::access::AccessError;
use pipeann_db::asker::Gone;
use pipeann_db::catalog::limits::MAX_SHARDS;
use pipeann_db::catalog::{
    BINARY_INDEX_KINDS, CatalogError, EntityKind, IndexFault, SCALAR_INDEX_KINDS, Usage,
    VECTOR_INDEX_KINDS,
};
use pipeann_db::collection::CollectionError;
use pipeann_db::database::DatabaseError;
use pipeann_db::ids::ErrorClass;
use pipeann_db::scheduler::ScheduleError;
use pipeann_db::schema::{BatchError, SchemaError, ValueFault};

use super::of_schema::type_name;
use super::{CallFailure, Code, refused};

impl From<DatabaseError> for CallFailure {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Catalog(error) => error.into(),
            DatabaseError::Collection { source, .. } => (*source).into(),
            other => Self::new(by_class(other.class()), other.to_string()),
        }
    }
}

impl From<AccessError> for CallFailure {
    fn from(error: AccessError) -> Self {
        let code = match &error {
            AccessError::WrongPassword { .. } => Code::NotAuthenticated,
            AccessError::Name { .. } | AccessError::Password { .. } => Code::InvalidParameter,
            // As Milvus has it, whatever of the request was wrong.
            error if error.class() == ErrorClass::FixInput => Code::Unexpected,
            error => by_class(error.class()),
        };
        Self::new(code, error.to_string())
    }
}

impl From<CollectionError> for CallFailure {
    fn from(error: CollectionError) -> Self {
        let reason = error.to_string();
        let code = match error {
            CollectionError::Catalog(error) => return error.into(),
            CollectionError::NotLoaded { name } => return Self::not_loaded(&name),
            CollectionError::Metric { expected, found, .. } => {
                let (expected, found) = (metric_name(expected), metric_name(found));
                return Self::parameter(format!(
                    "metric type not match: invalid parameter[expected={expected}][actual={found}]"
                ));
            }
            CollectionError::Filter(error) => {
                let reason = format!("failed to create query plan: {error}: invalid parameter");
                return Self::parameter(reason);
            }
            CollectionError::DuplicateKey { .. } => {
                return Self::parameter(format!(
                    "duplicate primary keys are not allowed in the same batch: {reason}"
                ));
            }
            CollectionError::Batch(error) => return Self::parameter(of_batch(&error, reason)),
            CollectionError::Dropped => {
                return Self::new(
                    Code::CollectionNotFound,
                    format!("collection not found: {reason}"),
                );
            }
            CollectionError::Memory(_) => Code::MemoryLimit,
            CollectionError::AnswerTooLarge { most_bytes } => {
                return Self::parameter(format!(
                    "query results exceed the maxOutputSize Limit {most_bytes}: {reason}"
                ));
            }
            CollectionError::Gone(Gone::Crowded) => {
                return Self::new(Code::RateLimit, format!("rate limit exceeded: {reason}"));
            }
            // Nobody reads it.
            CollectionError::Gone(_) => Code::Unexpected,
            other => by_class(other.class()),
        };
        Self::new(code, reason)
    }
}

impl From<CatalogError> for CallFailure {
    fn from(error: CatalogError) -> Self {
        let text = error.to_string();
        let (code, reason) = match error {
            CatalogError::NotFound { kind, name, within } => not_found(kind, &name, &within),
            CatalogError::Exists { kind, name, within } => exists(kind, &name, &within, text),
            CatalogError::Index {
                fault: IndexFault::UnknownKind { ref found, data_type, .. },
                ..
            } if is_known(found) => {
                let data_type = type_name(data_type);
                let reason = format!(
                    "data type {data_type} can't build with this index {found}: invalid parameter"
                );
                (Code::InvalidParameter, format!("{reason}: {text}"))
            }
            CatalogError::Index { fault: IndexFault::UnknownKind { ref found, .. }, .. } => {
                (Code::InvalidParameter, format!("invalid index type: {found}: {text}"))
            }
            CatalogError::Index { fault: IndexFault::Unsupported(_), .. } => (
                // Some clients declare it together with the collection, and meet that when they begin again.
                Code::InvalidParameter,
                format!("{text}; the collection is there without that index"),
            ),
            CatalogError::Index { fault: IndexFault::Second(_), .. } => (
                Code::InvalidParameter,
                format!(
                    "CreateIndex failed: at most one distinct index is allowed per field: {text}"
                ),
            ),
            CatalogError::InUse { kind: EntityKind::Index, name, usage: Usage::Loaded } => (
                Code::InvalidParameter,
                format!("vector index cannot be dropped on loaded collection: {name}"),
            ),
            CatalogError::InUse { kind: EntityKind::Partition, name, usage: Usage::Loaded } => (
                Code::Unexpected,
                format!(
                    "partition cannot be dropped, partition is loaded, please release it first: {name}"
                ),
            ),
            CatalogError::InUse { kind: EntityKind::Database, name, .. } => (
                Code::Unexpected,
                format!(
                    "database:{name} not empty, must drop all collections before drop database: {text}"
                ),
            ),
            CatalogError::Shards { .. } => (
                Code::InvalidParameter,
                format!("maximum shards's number should be limited to {MAX_SHARDS}: {text}"),
            ),
            CatalogError::Limit { kind: EntityKind::Partition, most, within } => (
                Code::InvalidParameter,
                format!(
                    "partition number ({most}) exceeds max configuration ({most}), collection: {within}"
                ),
            ),
            CatalogError::Limit { kind: EntityKind::Database, .. } => {
                (Code::TooManyDatabases, text)
            }
            CatalogError::Limit { kind: EntityKind::Collection, .. } => {
                (Code::TooManyCollections, text)
            }
            CatalogError::Name(ref name) if name.what == "database" => {
                (Code::InvalidDatabaseName, text)
            }
            CatalogError::PartitionKeyed { .. } => (
                Code::InvalidParameter,
                format!(
                    "not support manually specifying the partition names if partition key mode is used: {text}"
                ),
            ),
            CatalogError::Schema(SchemaError::UnknownField { field }) => {
                (Code::FieldNotFound, format!("field not found[field={field}]"))
            }
            CatalogError::Schema(error) => return error.into(),
            other => (by_class(other.class()), text),
        };
        Self::new(code, reason)
    }
}

impl From<ScheduleError> for CallFailure {
    fn from(error: ScheduleError) -> Self {
        let text = error.to_string();
        match error {
            ScheduleError::Search(error) => error.into(),
            // Every client waits and repeats at this code. Code 4, which Milvus has for a full queue
            // too, ends in the application at once, where nothing slows it down.
            ScheduleError::Full { .. } => Self::new(
                Code::RateLimit,
                format!("rate limit exceeded: too many concurrent requests, queue is full: {text}"),
            ),
            // As well, so that other servers are not asked for what is too much here: that would be twice
            // the work where there is too much of it.
            ScheduleError::Late => {
                Self::new(Code::RateLimit, format!("rate limit exceeded: {text}"))
            }
            ScheduleError::Panicked(_) => {
                Self::new(Code::Internal, format!("the server failed at this call: {text}"))
            }
            other => Self::new(by_class(other.class()), text),
        }
    }
}

impl From<SchemaError> for CallFailure {
    fn from(error: SchemaError) -> Self {
        refused(&error, "")
    }
}

/// What is wrong with rows, in known words where there are any.
fn of_batch(error: &BatchError, reason: String) -> String {
    let (field, row, fault) = match error {
        BatchError::Value { field, row, fault } => (field, row, fault),
        BatchError::AssignedKey { .. } => {
            return format!(
                "more fieldData has pass in: {reason} unless the property allow_insert_auto_id of the collection is true: invalid parameter"
            );
        }
        _ => return reason,
    };
    match fault {
        ValueFault::TooLong { bytes, most } => format!(
            "length of varchar field {field} exceeds max length, row number: {row}, length: {bytes}, max length: {most}: {reason}"
        ),
        ValueFault::NotFinite => format!("value 'NaN' is not a number or infinity: {reason}"),
        _ => reason,
    }
}

/// Whether Milvus knows an index of this type, if only for fields of another type.
fn is_known(kind: &str) -> bool {
    const SPARSE_KINDS: [&str; 2] = ["SPARSE_INVERTED_INDEX", "SPARSE_WAND"];
    let known: [&[&str]; 4] =
        [&VECTOR_INDEX_KINDS, &BINARY_INDEX_KINDS, &SCALAR_INDEX_KINDS, &SPARSE_KINDS];
    known.into_iter().flatten().any(|known| known.eq_ignore_ascii_case(kind))
}

fn not_found(kind: EntityKind, name: &str, within: &str) -> (Code, String) {
    match kind {
        EntityKind::Database => {
            (Code::DatabaseNotFound, format!("database not found[database={name}]"))
        }
        EntityKind::Collection => (
            Code::CollectionNotFound,
            format!("collection not found[database={within}][collection={name}]"),
        ),
        EntityKind::Alias => {
            (Code::AliasNotFound, format!("alias not found[database={within}][alias={name}]"))
        }
        EntityKind::Partition => {
            (Code::PartitionNotFound, format!("partition not found[partition={name}]"))
        }
        EntityKind::Index => {
            (Code::IndexNotFound, format!("index not found[indexName={name}][collection={within}]"))
        }
        EntityKind::Field => {
            (Code::InvalidParameter, format!("cannot create index on non-exist field: {name}"))
        }
    }
}

fn exists(kind: EntityKind, name: &str, within: &str, text: String) -> (Code, String) {
    match kind {
        EntityKind::Alias => {
            (Code::AliasTaken, format!("alias exists, {text}[database={within}][alias={name}]"))
        }
        EntityKind::Collection => (
            Code::AliasCollectionConflict,
            format!(
                "collection name [{name}] conflicts with an existing collection in database [{within}]: {text}"
            ),
        ),
        EntityKind::Index => (
            Code::InvalidParameter,
            format!("at most one distinct index is allowed per field: {text}"),
        ),
        EntityKind::Database => (Code::Unexpected, format!("database already exist: {name}")),
        EntityKind::Partition | EntityKind::Field => (by_class(ErrorClass::FixInput), text),
    }
}

fn by_class(class: ErrorClass) -> Code {
    match class {
        ErrorClass::FixInput => Code::InvalidParameter,
        ErrorClass::Retry => Code::ServiceUnavailable,
        ErrorClass::Stop => Code::Internal,
    }
}

/// A metric as clients write it.
pub(crate) fn metric_name(metric: pipeann_db::ids::Metric) -> &'static str {
    use pipeann_db::ids::Metric;
    match metric {
        Metric::L2 => "L2",
        Metric::InnerProduct => "IP",
        Metric::Cosine => "COSINE",
        Metric::Hamming => "HAMMING",
        Metric::Jaccard => "JACCARD",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_has_the_code_that_clients_wait_at() {
        let failure = CallFailure::from(ScheduleError::Full { waiting: 4096 });
        assert_eq!(failure.code, Code::RateLimit);
        assert!(failure.reason.contains("rate limit exceeded"), "{}", failure.reason);
        assert!(failure.reason.contains("queue is full"), "{}", failure.reason);
        assert_eq!(CallFailure::from(ScheduleError::Late).code, Code::RateLimit);
        let failure = CallFailure::from(ScheduleError::Search(CollectionError::Dropped));
        assert_eq!(failure.code, Code::CollectionNotFound);
        assert!(failure.reason.starts_with("collection not found"), "{}", failure.reason);
        assert_eq!(CallFailure::from(ScheduleError::Ending).code, Code::ServiceUnavailable);
        assert_eq!(CallFailure::from(ScheduleError::Panicked("x".into())).code, Code::Internal);
    }
}
