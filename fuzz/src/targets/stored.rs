//! Objects of a cluster's store, as found, and with their checksum made right as well: objects of logs,
//! manifests of generations, lists of names, and whose store it is.

use pipeann_store::LogError;
use pipeann_store::generations::{GenerationId, NameList};
use pipeann_store::log::{ShardId, read_object};
use pipeann_store::objects::{Identity, ObjectsError};
use pipeann_store::{ShardGeneration, StoredFile};
use uuid::Uuid;

use super::scratch::sealed_xxh3;
use crate::ReachedSections;
use crate::counting::{bounded, bounded_by};

pub(super) const SECTIONS: &[&str] = &[
    "as found",
    "newer version",
    "opening",
    "records",
    "generation",
    "files",
    "names",
    "identity",
];
/// Bytes that each byte of a list of names may cost, whose shortest names have six.
const NAMES_PER_BYTE: usize = 12;
/// Where the uuid of the cluster stands in manifests and lists of names.
const CLUSTER_AT: std::ops::Range<usize> = 12..28;
/// What makes up a manifest's name: shard, term and number.
const NAMED_AT: [usize; 3] = [28, 36, 44];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    object(data, reached, true);
    if let Some(bytes) = sealed_xxh3(data) {
        object(&bytes, reached, false);
    }
}

fn object(bytes: &[u8], reached: &mut ReachedSections, as_found: bool) {
    match bounded(bytes.len(), || read_object("x", bytes)) {
        Ok(batch) => {
            reached.mark("as found", as_found);
            reached.mark("opening", batch.entries.is_empty());
            reached.mark("records", !batch.entries.is_empty());
        }
        Err(LogError::Objects(ObjectsError::Newer { .. })) => reached.mark("newer version", true),
        Err(_) => {}
    }
    if let Ok(identity) = bounded(bytes.len(), || Identity::decode(bytes)) {
        reached.mark("identity", true);
        assert_eq!(Identity::decode(&identity.encode()).expect("just written"), identity);
    }
    // A reader knows whose store it reads, and what it has asked for.
    let Some(cluster) = bytes.get(CLUSTER_AT).and_then(|it| Uuid::from_slice(it).ok()) else {
        return;
    };
    if let Ok(list) =
        bounded_by(NAMES_PER_BYTE, bytes.len(), || NameList::decode("x", cluster, bytes))
    {
        reached.mark("names", true);
        let again = NameList::decode("x", cluster, &list.encode(cluster)).expect("just written");
        assert_eq!(again, list);
    }
    let Some(name) = manifest_name(bytes) else { return };
    if let Ok(found) = bounded(bytes.len(), || ShardGeneration::decode(&name, cluster, bytes)) {
        reached.mark("generation", true);
        reached.mark("files", !found.files.is_empty());
        let climbs = |file: &StoredFile| file.path.split('/').any(|part| part == "..");
        assert!(!found.files.iter().any(climbs), "a path that leaves its directory");
        assert_eq!(found.encode(cluster), bytes);
    }
}

/// The name of the object that a manifest says it is.
fn manifest_name(bytes: &[u8]) -> Option<String> {
    let number =
        |at: usize| bytes.get(at..at + 8).and_then(|it| it.try_into().ok()).map(u64::from_le_bytes);
    let [shard, term, number] = NAMED_AT.map(number);
    let id = GenerationId { term: term?, number: number? };
    Some(ShardGeneration::object(ShardId(shard?), id))
}
