//! The numbers under which rows know their partitions.

use super::CollectionError;
use crate::catalog::{CollectionEntry as Entry, CollectionPartition};

/// The number under which rows know their partition: its id, so that the rows of a dropped
/// partition are never taken for those of a later one.
pub(super) fn partition_number(partition: &CollectionPartition) -> Result<u32, CollectionError> {
    let id = partition.id.0;
    u32::try_from(id).map_err(|_| CollectionError::PartitionId { id })
}

/// The numbers of partitions given by name.
pub(super) fn partition_numbers<N: AsRef<str>>(
    entry: &Entry,
    names: Option<&[N]>,
) -> Result<Option<Vec<u32>>, CollectionError> {
    let number = |name: &N| partition_number(entry.partition(name.as_ref())?);
    names.map(|names| names.iter().map(number).collect()).transpose()
}
