//! The file `BACKUP`, its length made right.

use std::path::Path;

use pipeann_db::snapshot::BackupManifest;

use super::scratch::with_length;
use crate::ReachedSections;
use crate::counting::bounded;

pub(super) const SECTIONS: &[&str] = &["manifest", "collections", "files"];

pub(super) fn run(data: &[u8], reached: &mut ReachedSections) {
    let path = Path::new("BACKUP");
    let data = with_length(data);
    let read = bounded(data.len(), || BackupManifest::from_file_bytes(&data, path));
    if let Ok(manifest) = read {
        reached.mark("manifest", true);
        reached.mark("collections", !manifest.database.collections.is_empty());
        reached.mark("files", !manifest.files.is_empty());
        assert!(manifest.bytes() > 0 || manifest.files.iter().all(|file| file.bytes == 0));
    }
}
