//! Collection of what nobody wants: manifests that are not kept, files that no manifest has, pins whose
//! lease has passed, and what was left of uploads and probes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::ages::{DOOM_LIFE, delta, is_past};
use super::format::NameList;
use super::pin::{FoundList, PUBLISHER};
use super::{GenerationId, Generations, ShardGeneration, names};
use crate::log::{LogError, ShardId, TermLeader};
use crate::objects::{Listed, ObjectsError, PROBES};

/// Objects that are deleted at once.
const DELETES: usize = 8;
/// A collector deletes no more when this has passed since it has read the pins.
const DELETING: Duration = Duration::from_secs(3600);
/// What the clocks of one store may differ by, and what rounding takes from them.
const SLACK: Duration = Duration::from_secs(5);

/// What to collect.
#[derive(Clone, Debug)]
pub struct Collecting<'a> {
    /// Generations that are current or kept for another reason. A shard's newest is kept anyway.
    pub keep: &'a [(ShardId, GenerationId)],
    /// What is younger is left alone, by the store's own time. An hour where nothing else is said.
    pub grace: Duration,
}

/// What was collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Generations whose manifests were deleted.
    pub generations: u64,
    /// Files that were deleted.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Pins, dooms, marks of damaged files and remains of uploads and probes that were deleted.
    pub remains: u64,
}

/// Everything that may be wanted.
struct AllManifests {
    manifests: Vec<FoundManifest>,
}

/// A manifest that is there.
struct FoundManifest {
    listed: Listed,
    shard: ShardId,
    id: GenerationId,
    /// What it says; `None` where it is damaged, or of a later version: then any file may be its own.
    generation: Option<ShardGeneration>,
}

/// Objects that manifests name.
struct WantedObjects {
    names: HashSet<String>,
    /// One of the manifests does not tell its own.
    all: bool,
}

impl WantedObjects {
    fn has(&self, name: &str) -> bool {
        self.all || self.names.contains(name)
    }
}

impl Generations {
    /// Collects what is not wanted, under the term of `leader`, mostly the catalogue's. Fails with
    /// `Fenced` where that term has ended; whatever it fails with, nothing that is wanted is deleted,
    /// and a later call goes on.
    pub async fn collect(
        &self,
        leader: &TermLeader,
        what: &Collecting<'_>,
    ) -> Result<Collected, LogError> {
        leader.verify().await?;
        let now = self.time().await?;
        let is_old = |it: &Listed| is_past(it.modified, what.grace, now);

        // Files first: a manifest that is put after them is seen, and one that was deleted before
        // leaves files that are seen the next time.
        let files = self.listed(names::FILES).await?;
        let before = self.found().await?;
        let unwanted = before.unwanted(what.keep, is_old);
        let wanted = before.objects(|name| !unwanted.contains(name));
        let doom = names::drawn(names::DOOMS, self.patience.token());
        let owner = format!("term {} of shard {}", leader.term(), leader.log().shard());
        let mut list = NameList { lease_ms: 0, owner, names: HashSet::new() };
        let old_files = files.iter().filter(|it| is_old(it) && !wanted.has(&it.name));
        list.names = old_files.map(|it| it.name.clone()).chain(unwanted).collect();
        self.put_names(&doom, &list).await?;

        let until = self.patience.now() + DELETING;
        leader.verify().await?;
        let (pinned, passed) = self.pinned(now).await?;
        let after = self.found().await?;
        let gone = |name: &str| list.names.contains(name) && !pinned.contains(name);
        let wanted = after.objects(|name| !gone(name));
        let mut done = Collected::default();
        let manifests: Vec<String> = after
            .manifests
            .iter()
            .map(|it| it.listed.name.clone())
            .filter(|name| gone(name))
            .collect();
        done.generations = manifests.len() as u64;
        let mut deletes = Vec::new();
        for file in files.iter().filter(|it| gone(&it.name) && !wanted.has(&it.name)) {
            done.files += 1;
            done.bytes += file.bytes;
            deletes.push(file.name.clone());
        }
        if done.generations + done.files > 0 {
            // A delete that seemed lost may come late. So these names are not used again for a day.
            list.names = manifests.iter().chain(&deletes).cloned().collect();
            let grave = names::drawn(names::DOOMS, self.patience.token());
            self.put_names(&grave, &list).await?;
        }
        // Manifests before their files, so that none is there without them.
        self.delete_all(manifests, until).await?;
        self.delete_all(deletes, until).await?;
        self.delete(&doom).await?;
        let old_marks = self.listed(names::DAMAGED).await?.into_iter().filter(is_old);
        let passed = passed.into_iter().chain(marks_of_none(old_marks, &files)).collect();
        done.remains = self.remains(passed, now, what.grace, until).await?;
        Ok(done)
    }

    async fn listed(&self, folder: &str) -> Result<Vec<Listed>, ObjectsError> {
        self.patience.retry(|| self.bucket.list(folder, None)).await
    }

    /// All manifests. One that cannot be read goes as others do when a newer one is there; until then no
    /// file is deleted.
    async fn found(&self) -> Result<AllManifests, ObjectsError> {
        let mut manifests = Vec::new();
        for listed in self.listed(names::MANIFESTS).await? {
            let Some((shard, id)) = names::parsed_manifest(&listed.name) else {
                return Err(ObjectsError::damaged(&listed.name, "is not the name of a manifest"));
            };
            let generation = match self.generation(shard, id).await {
                Ok(None) => continue,
                Err(error) if error.is_of_contents() => {
                    tracing::warn!("no file is collected while this is there: {error}");
                    None
                }
                found => found?,
            };
            manifests.push(FoundManifest { listed, shard, id, generation });
        }
        Ok(AllManifests { manifests })
    }

    /// Generations of a shard that somebody wants to go on reading, by pins that hold; what is only
    /// being published is none of them. Their positions are to stay in the log.
    pub async fn pinned_ids(&self, shard: ShardId) -> Result<Vec<GenerationId>, ObjectsError> {
        let now = self.time().await?;
        let mut found = Vec::new();
        for FoundList { listed, list } in self.name_lists(names::PINS).await? {
            let Some(list) = list else { continue };
            let lease = Duration::from_millis(list.lease_ms) + SLACK;
            if list.owner == PUBLISHER || is_past(listed.modified, lease, now) {
                continue;
            }
            let named = list.names.iter().filter_map(|name| names::parsed_manifest(name));
            found.extend(named.filter(|(of, _)| *of == shard).map(|(_, id)| id));
        }
        Ok(found)
    }

    /// Names under pins that hold, and pins that do not.
    async fn pinned(
        &self,
        now: DateTime<Utc>,
    ) -> Result<(HashSet<String>, Vec<String>), ObjectsError> {
        let (mut pinned, mut passed) = (HashSet::new(), Vec::new());
        #[cfg(test)]
        if self.pins_ignored {
            return Ok((pinned, passed));
        }
        for FoundList { listed, list } in self.name_lists(names::PINS).await? {
            let lease = |list: &NameList| Duration::from_millis(list.lease_ms) + SLACK;
            match list {
                Some(list) if !is_past(listed.modified, lease(&list), now) => {
                    pinned.extend(list.names);
                }
                _ => passed.push(listed.name),
            }
        }
        Ok((pinned, passed))
    }

    async fn delete_all(&self, names: Vec<String>, until: Duration) -> Result<(), ObjectsError> {
        stream::iter(names)
            .map(|name| async move {
                if self.patience.now() > until {
                    let why = "is not deleted, as it is long since pins were read";
                    return Err(ObjectsError::damaged(&name, why));
                }
                self.delete(&name).await
            })
            .buffer_unordered(DELETES)
            .try_collect()
            .await
    }

    /// Deletes what was left by others that are long gone.
    async fn remains(
        &self,
        passed: Vec<String>,
        now: DateTime<Utc>,
        grace: Duration,
        until: Duration,
    ) -> Result<u64, ObjectsError> {
        // A pin among them may be renewed meanwhile; then its owner finds that it is gone, at the
        // latest when it renews it again.
        let mut deletes = passed;
        for doom in self.listed(names::DOOMS).await? {
            if is_past(doom.modified, DOOM_LIFE, now) {
                deletes.push(doom.name);
            }
        }
        for folder in [PROBES, names::CLOCKS] {
            for left in self.listed(folder).await? {
                if is_past(left.modified, grace, now) {
                    deletes.push(left.name);
                }
            }
        }
        let mut count = deletes.len() as u64;
        self.delete_all(deletes, until).await?;
        for note in self.listed(names::UPLOADS).await? {
            if is_past(note.modified, grace.max(DOOM_LIFE), now) {
                self.abort_noted(&note.name).await?;
                count += 1;
            }
        }
        Ok(count + self.bucket.sweep(now - delta(grace.max(DOOM_LIFE))).await?)
    }
}

impl AllManifests {
    /// Names of manifests that may go: old, not kept, and not the newest of their shard, nor the newest
    /// that can be read.
    fn unwanted(
        &self,
        keep: &[(ShardId, GenerationId)],
        is_old: impl Fn(&Listed) -> bool,
    ) -> HashSet<String> {
        let newest = self.newest(|_| true);
        let readable = self.newest(|it| it.generation.is_some());
        let goes = |it: &&FoundManifest| {
            is_old(&it.listed)
                && newest.get(&it.shard) != Some(&it.id)
                && readable.get(&it.shard) != Some(&it.id)
                && !keep.contains(&(it.shard, it.id))
        };
        self.manifests.iter().filter(goes).map(|it| it.listed.name.clone()).collect()
    }

    /// The newest of each shard, of those that count.
    fn newest(&self, counts: impl Fn(&FoundManifest) -> bool) -> HashMap<ShardId, GenerationId> {
        let mut newest = HashMap::new();
        for it in self.manifests.iter().filter(|it| counts(it)) {
            let id = newest.entry(it.shard).or_insert(it.id);
            *id = it.id.max(*id);
        }
        newest
    }

    /// Objects of all manifests that `stays` tells to stay, by their names.
    fn objects(&self, stays: impl Fn(&str) -> bool) -> WantedObjects {
        let staying = || self.manifests.iter().filter(|it| stays(&it.listed.name));
        let all = staying().any(|it| it.generation.is_none());
        let generations = staying().filter_map(|it| it.generation.as_ref());
        let names = generations.flat_map(|it| &it.files).map(|it| it.object()).collect();
        WantedObjects { names, all }
    }
}

/// Marks of damaged files that are there no more.
fn marks_of_none(marks: impl Iterator<Item = Listed>, files: &[Listed]) -> Vec<String> {
    let there: HashSet<&str> = files.iter().map(|it| it.name.as_str()).collect();
    let of_none =
        |mark: &String| names::damaged_file(mark).is_none_or(|file| !there.contains(file.as_str()));
    marks.map(|it| it.name).filter(of_none).collect()
}
