//! Making a generation: files first, its manifest when they are there.

use std::collections::HashSet;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::format::{NameList, is_below};
use super::pin::PUBLISHER;
use super::source::FileSource;
use super::{
    FILES_MAX, GenerationId, Generations, HEADER_MAX, MANIFEST_MAX, ShardGeneration, StoredFile,
    names,
};
use crate::log::{Position, ShardId};
use crate::objects::{ObjectsError, PutOutcome};

/// Files that are hashed or put at once.
const AT_ONCE: usize = 4;
/// Objects that are looked for at once.
const LOOKS: usize = 16;
/// How often publishing begins anew because something was collected meanwhile.
const ATTEMPTS: usize = 5;

impl Generations {
    /// Publishes a generation of `shard` at `position`, under the leader's `term`, with what the
    /// caller adds and all its files. Files that are in the store already are not put again.
    ///
    /// It is there when this answers, and is not current before the shard's log says so; for an hour
    /// nobody collects it. Paths are relative, with `/` between parts; files do not change meanwhile.
    pub async fn publish(
        &self,
        shard: ShardId,
        term: u64,
        position: Position,
        header: &[u8],
        files: &[(String, FileSource)],
    ) -> Result<ShardGeneration, ObjectsError> {
        check(header, files)?;
        let stored = self.digests(files).await?;
        let mut generation = ShardGeneration {
            shard,
            id: GenerationId { term, number: 0 },
            position,
            header: header.to_vec(),
            files: stored,
        };
        for _ in 0..ATTEMPTS {
            let of_term = self.ids(shard).await?.into_iter().filter(|it| it.term == term);
            // One that came to nothing keeps its number, and is collected as others are.
            let last = of_term.map(|it| it.number).max().unwrap_or(0);
            generation.id.number = last.max(generation.id.number) + 1;
            self.put_files(&mut generation, files).await?;
            if self.put_manifest(&generation).await? && self.is_whole(&generation).await? {
                return Ok(generation);
            }
        }
        let name = names::manifest(shard, generation.id);
        Err(ObjectsError::damaged(&name, "was collected while it was published, again and again"))
    }

    async fn digests(
        &self,
        files: &[(String, FileSource)],
    ) -> Result<Vec<StoredFile>, ObjectsError> {
        let digest = |(path, source): &(String, FileSource)| {
            let (path, source) = (path.clone(), source.clone());
            async move {
                let (length, hash) = source.digest().await?;
                Ok(StoredFile { path, length, hash, copy: 0 })
            }
        };
        let all: Vec<_> = files.iter().map(digest).collect();
        stream::iter(all).buffered(AT_ONCE).try_collect().await
    }

    /// Passes over objects that are damaged. What is put in their place has the same name each time, so
    /// that it is put once.
    async fn avoid_damaged(&self, generation: &mut ShardGeneration) -> Result<(), ObjectsError> {
        let marks = self.patience.retry(|| self.bucket.list(names::DAMAGED, None)).await?;
        let damaged: HashSet<_> =
            marks.iter().filter_map(|it| names::damaged_file(&it.name)).collect();
        for file in &mut generation.files {
            while damaged.contains(&file.object()) {
                file.copy = file.copy.wrapping_add(1);
            }
        }
        Ok(())
    }

    /// Pins all names, and only then looks which are there; puts those that are not.
    async fn put_files(
        &self,
        generation: &mut ShardGeneration,
        sources: &[(String, FileSource)],
    ) -> Result<(), ObjectsError> {
        self.avoid_damaged(generation).await?;
        self.pin_all(generation).await?;
        let doomed = self.doomed().await?;
        let mut again = false;
        for file in &mut generation.files {
            // Its bytes may be deleted at any time, also those that would be put now.
            if doomed.contains(&file.object()) {
                file.copy = self.patience.token().max(1);
                again = true;
            }
        }
        if again {
            self.pin_all(generation).await?;
        }
        let mut seen = HashSet::new();
        let puts: Vec<_> = generation
            .files
            .iter()
            .zip(sources)
            .filter(|(file, _)| seen.insert(file.object()))
            .map(|(file, (_, source))| self.put_file(file.clone(), source.clone()))
            .collect();
        stream::iter(puts).buffer_unordered(AT_ONCE).try_collect().await
    }

    /// A pin of its own each time, whose name nobody may be deleting.
    async fn pin_all(&self, generation: &ShardGeneration) -> Result<(), ObjectsError> {
        let name = names::drawn(names::PINS, self.patience.token());
        self.put_names(&name, &pin_of(generation, self.publishing.as_millis() as u64)).await
    }

    async fn put_file(&self, file: StoredFile, source: FileSource) -> Result<(), ObjectsError> {
        let name = file.object();
        match self.patience.retry(|| self.bucket.head(&name)).await? {
            Some(found) if found.bytes == file.length => Ok(()),
            Some(_) | None => self.upload(&name, &file, &source).await,
        }
    }

    /// Whether the manifest is there as given; `false` where its name is another's.
    async fn put_manifest(&self, generation: &ShardGeneration) -> Result<bool, ObjectsError> {
        let name = names::manifest(generation.shard, generation.id);
        let bytes = generation.encode(self.cluster);
        if bytes.len() as u64 > MANIFEST_MAX {
            return Err(ObjectsError::damaged(&name, "would be too long"));
        }
        let mut waits = self.patience.waits();
        loop {
            let put = self.bucket.put_new(&name, bytes.clone()).await;
            match put {
                Ok(PutOutcome::Done) => return Ok(true),
                Ok(PutOutcome::Exists) | Err(ObjectsError::Unavailable { .. }) => {}
                Err(error) => return Err(error),
            }
            let found = self.patience.retry(|| self.bucket.get(&name, MANIFEST_MAX)).await?;
            if let Some(found) = found {
                return Ok(found == bytes);
            }
            if !waits.wait().await {
                return Err(put.err().unwrap_or(ObjectsError::Undecided { object: name }));
            }
        }
    }

    /// Whether nothing of a generation was collected before its manifest was there to be seen. The
    /// dooms first: one that is gone has deleted already, which looking then finds.
    async fn is_whole(&self, generation: &ShardGeneration) -> Result<bool, ObjectsError> {
        let manifest = names::manifest(generation.shard, generation.id);
        let doomed = self.doomed().await?;
        let objects: HashSet<_> = generation.files.iter().map(StoredFile::object).collect();
        let undoomed = !objects.iter().chain([&manifest]).any(|it| doomed.contains(it));
        if !undoomed {
            return Ok(false);
        }
        let looks: Vec<_> = objects.into_iter().map(|it| self.is_there(it)).collect();
        let all: Vec<bool> = stream::iter(looks).buffer_unordered(LOOKS).try_collect().await?;
        Ok(all.into_iter().all(|it| it) && self.is_there(manifest).await?)
    }

    async fn is_there(&self, name: String) -> Result<bool, ObjectsError> {
        Ok(self.patience.retry(|| self.bucket.head(&name)).await?.is_some())
    }
}

/// The pin of what is being published.
fn pin_of(generation: &ShardGeneration, lease_ms: u64) -> NameList {
    let manifest = names::manifest(generation.shard, generation.id);
    let names = generation.files.iter().map(StoredFile::object).chain([manifest]).collect();
    NameList { lease_ms, owner: PUBLISHER.to_owned(), names }
}

fn check(header: &[u8], files: &[(String, FileSource)]) -> Result<(), ObjectsError> {
    let wrong = |path: &str, why: String| {
        let cause = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        Err(ObjectsError::Local { path: path.to_owned(), cause })
    };
    if header.len() > HEADER_MAX {
        return wrong("header", format!("has {} bytes, at most {HEADER_MAX}", header.len()));
    }
    if files.len() > FILES_MAX {
        return wrong("files", format!("are {}, at most {FILES_MAX}", files.len()));
    }
    let mut seen = HashSet::new();
    for (path, _) in files {
        if !is_below(path) {
            return wrong(path, "is not a relative path without dots".to_owned());
        }
        if !seen.insert(path) {
            return wrong(path, "is there twice".to_owned());
        }
    }
    Ok(())
}
