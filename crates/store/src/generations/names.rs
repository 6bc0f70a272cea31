//! Names of objects that generations are made of.

use super::generation_id::GenerationId;
use crate::log::ShardId;

/// Folder of files.
pub(super) const FILES: &str = "file";
/// Folder of marks of files that were found to have other bytes than they should.
pub(super) const DAMAGED: &str = "damaged";
/// Folder of manifests of all shards.
pub(super) const MANIFESTS: &str = "manifest";
/// Folder of pins.
pub(super) const PINS: &str = "pin";
/// Folder of dooms.
pub(super) const DOOMS: &str = "doom";
/// Folder of objects that are put to see the time.
pub(super) const CLOCKS: &str = "clock";
/// Folder of notes on uploads in parts.
pub(super) const UPLOADS: &str = "upload";

/// A file by its contents. `copy` is 0, but where the plain name was doomed or damaged.
pub(super) fn file(hash: u128, length: u64, copy: u128) -> String {
    match copy {
        0 => format!("{FILES}/{hash:032x}-{length}"),
        copy => format!("{FILES}/{hash:032x}-{length}-{copy:032x}"),
    }
}

/// The mark of a file that is damaged, by the file's name.
pub(super) fn damage_mark(file: &str) -> Option<String> {
    let rest = file.strip_prefix(FILES)?.strip_prefix('/')?;
    Some(format!("{DAMAGED}/{rest}"))
}

/// The name of the file that a mark is of.
pub(super) fn damaged_file(mark: &str) -> Option<String> {
    let rest = mark.strip_prefix(DAMAGED)?.strip_prefix('/')?;
    Some(format!("{FILES}/{rest}"))
}

/// Folder of a shard's manifests.
pub(super) fn manifests(shard: ShardId) -> String {
    format!("{MANIFESTS}/{}", shard.0)
}

/// A manifest; names sort as ids do.
pub(super) fn manifest(shard: ShardId, id: GenerationId) -> String {
    format!("{MANIFESTS}/{}/{:020}-{:020}", shard.0, id.term, id.number)
}

/// What [`manifest`] made; `None` for other names.
pub(super) fn parsed_manifest(name: &str) -> Option<(ShardId, GenerationId)> {
    let (shard, id) = name.strip_prefix(MANIFESTS)?.strip_prefix('/')?.split_once('/')?;
    let (term, number) = id.split_once('-')?;
    let id = GenerationId { term: term.parse().ok()?, number: number.parse().ok()? };
    let shard = ShardId(shard.parse().ok()?);
    (manifest(shard, id) == name).then_some((shard, id))
}

/// A pin, a doom or a note on an upload, by the token that its owner drew.
pub(super) fn drawn(folder: &str, token: u128) -> String {
    format!("{folder}/{token:032x}")
}
