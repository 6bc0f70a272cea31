//! Bytes into the store: at once, or in parts where they are many.
//!
//! Where the store knows uploads in parts by an id (S3), a note with it is put first, so that what a
//! crash leaves can be found and aborted. Elsewhere the remains are files beside the objects.

use bytes::Bytes;
use object_store::multipart::PartId;
use object_store::path::Path;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::format::NameList;
use super::source::FileSource;
use super::{Generations, StoredFile, names};
use crate::objects::ObjectsError;

/// Files up to this length are put at once; longer ones in parts of it. S3 takes 10,000 parts.
const PART: u64 = 16 << 20;
/// Parts of a file are at most as many.
const PARTS_MAX: u64 = 10_000;

/// Bytes of a part of a file.
fn part_bytes(length: u64) -> u64 {
    PART.max(length.div_ceil(PARTS_MAX).next_multiple_of(1 << 20))
}

impl Generations {
    /// Puts a file whole, over whatever has its name. The bytes are held against its hash before the
    /// name is there.
    pub(super) async fn upload(
        &self,
        name: &str,
        file: &StoredFile,
        source: &FileSource,
    ) -> Result<(), ObjectsError> {
        let changed = || ObjectsError::damaged(&file.path, "has changed while it was published");
        if file.length <= PART {
            let bytes = source.read(0..file.length).await?;
            if xxh3_128(&bytes) != file.hash {
                return Err(changed());
            }
            return self.patience.retry(|| self.bucket.put_over(name, bytes.clone())).await;
        }
        match self.bucket.parts() {
            Some(_) => self.upload_noted(name, file, source, changed).await,
            None => self.upload_staged(name, file, source, changed).await,
        }
    }

    async fn upload_noted(
        &self,
        name: &str,
        file: &StoredFile,
        source: &FileSource,
        changed: impl Fn() -> ObjectsError,
    ) -> Result<(), ObjectsError> {
        let parts = self.bucket.parts().expect("looked at by the caller");
        let path = self.bucket.path(name);
        let id = self.patience.retry(|| self.said(name, parts.0.create_multipart(&path))).await?;
        let note = names::drawn(names::UPLOADS, self.patience.token());
        let upload = [name.to_owned(), id.clone()];
        let list = NameList { lease_ms: 0, owner: id.clone(), names: upload.into_iter().collect() };
        let result = async {
            self.put_names(&note, &list).await?;
            let mut hash = Xxh3::new();
            let mut put: Vec<PartId> = Vec::new();
            let mut at = 0;
            while at < file.length {
                let bytes = self.piece(file, source, at, &mut hash).await?;
                at += bytes.len() as u64;
                let part = self
                    .patience
                    .retry(|| {
                        let bytes = bytes.clone();
                        self.said(name, parts.0.put_part(&path, &id, put.len(), bytes.into()))
                    })
                    .await?;
                put.push(part);
            }
            if hash.digest128() != file.hash {
                return Err(changed());
            }
            match self.said(name, parts.0.complete_multipart(&path, &id, put)).await {
                Ok(_) => Ok(()),
                // It may have been done, and then can't be done again.
                Err(error) => match self.patience.retry(|| self.bucket.head(name)).await? {
                    Some(found) if found.bytes == file.length => Ok(()),
                    _ => Err(error),
                },
            }
        }
        .await;
        if result.is_err() {
            // Collection does it where this can't.
            let _ = parts.0.abort_multipart(&path, &id).await;
        }
        self.delete(&note).await?;
        result
    }

    async fn upload_staged(
        &self,
        name: &str,
        file: &StoredFile,
        source: &FileSource,
        changed: impl Fn() -> ObjectsError,
    ) -> Result<(), ObjectsError> {
        let path = self.bucket.path(name);
        let mut upload = self
            .said(name, self.bucket.store().put_multipart_opts(&path, Default::default()))
            .await?;
        let mut hash = Xxh3::new();
        let mut at = 0;
        let result = async {
            while at < file.length {
                let bytes = self.piece(file, source, at, &mut hash).await?;
                at += bytes.len() as u64;
                self.said(name, upload.put_part(bytes.into())).await?;
            }
            if hash.digest128() != file.hash {
                return Err(changed());
            }
            self.said(name, upload.complete()).await.map(drop)
        }
        .await;
        if result.is_err() {
            let _ = upload.abort().await;
        }
        result
    }

    async fn piece(
        &self,
        file: &StoredFile,
        source: &FileSource,
        at: u64,
        hash: &mut Xxh3,
    ) -> Result<Bytes, ObjectsError> {
        let bytes = source.read(at..file.length.min(at + part_bytes(file.length))).await?;
        hash.update(&bytes);
        Ok(bytes)
    }

    /// Aborts the upload that a note tells of, and takes the note away.
    pub(super) async fn abort_noted(&self, note: &str) -> Result<(), ObjectsError> {
        let list = match self.names_of(note).await {
            // Nobody can tell which uploads it is of; the store's own rules end them.
            Err(error) if error.is_of_contents() => {
                tracing::warn!("taken away: {error}");
                None
            }
            list => list?,
        };
        if let (Some(list), Some(parts)) = (list, self.bucket.parts()) {
            for name in list.names.iter().filter(|it| **it != list.owner) {
                let path: Path = self.bucket.path(name);
                let abort = self.said(name, parts.0.abort_multipart(&path, &list.owner)).await;
                match abort {
                    Ok(()) | Err(ObjectsError::Missing { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.delete(note).await
    }

    async fn said<T>(
        &self,
        name: &str,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ObjectsError> {
        call.await.map_err(|cause| self.bucket.failure(name, cause))
    }
}
