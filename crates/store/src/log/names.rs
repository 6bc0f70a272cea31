//! Names of a log's objects. Numbers have 20 digits, so that names sort as numbers do.

use super::ShardId;

/// Folder of all logs.
pub(super) const LOGS: &str = "log";
/// Folder of all cuts.
const CUTS: &str = "cut";

/// Folder of a shard's objects.
pub(super) fn folder(shard: ShardId) -> String {
    format!("{LOGS}/{}", shard.0)
}

/// An object of a shard's log.
pub(super) fn object(shard: ShardId, number: u64) -> String {
    format!("{LOGS}/{}/{number:020}", shard.0)
}

/// Folder of a shard's cuts.
pub(super) fn cuts(shard: ShardId) -> String {
    format!("{CUTS}/{}", shard.0)
}

/// The note that objects below `number` are no part of the log.
pub(super) fn cut(shard: ShardId, number: u64) -> String {
    format!("{CUTS}/{}/{number:020}", shard.0)
}

/// The number that a name ends with; `None` for names that are not made here.
pub(super) fn number(name: &str) -> Option<u64> {
    let digits = name.rsplit('/').next()?;
    (digits.len() == 20 && digits.bytes().all(|it| it.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}
