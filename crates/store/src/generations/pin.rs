//! Pins: names that are wanted for a while, and may not be collected.

use std::collections::HashSet;
use std::time::Duration;

use super::ages::{DOOM_LIFE, is_past};
use super::format::NameList;
use super::{GenerationId, Generations, MANIFEST_MAX, ShardGeneration, names};
use crate::log::ShardId;
use crate::objects::{Advice, Listed, ObjectsError};

/// Such a part of a lease passes before it is begun anew.
const PARTS_OF_LEASE: u32 = 6;
/// Who pins what is being published.
pub(super) const PUBLISHER: &str = "publishing";

/// A generation that somebody wants to go on reading. It is kept until its lease has passed since it
/// was pinned or renewed, by the store's own time.
#[derive(Clone, Debug)]
pub struct LeasedPin {
    pub(super) name: String,
    pub(super) list: NameList,
    /// When that was asked for, by the time that waits go by.
    pub(super) since: Duration,
    /// What it pins.
    pub generation: ShardGeneration,
}

/// A pin or a doom that is there.
pub(super) struct FoundList {
    pub(super) listed: Listed,
    /// `None` where it is damaged, and so old that nobody goes by it.
    pub(super) list: Option<NameList>,
}

impl Generations {
    /// Pins a generation for `lease`, for `owner`, a name of at most 255 bytes for people. `None` where
    /// it is not there, or is about to be collected; then a newer one is.
    pub async fn pin(
        &self,
        shard: ShardId,
        id: GenerationId,
        owner: &str,
        lease: Duration,
    ) -> Result<Option<LeasedPin>, ObjectsError> {
        let manifest = names::manifest(shard, id);
        let owner: String = owner.chars().take(64).collect();
        let lease_ms = lease.as_millis() as u64;
        let list = NameList { lease_ms, owner, names: HashSet::from([manifest]) };
        let since = self.patience.now();
        match self.hold(&list, shard, id).await? {
            (name, Some(generation)) => Ok(Some(LeasedPin { name, list, since, generation })),
            (name, None) => {
                self.delete(&name).await?;
                Ok(None)
            }
        }
    }

    /// Begins the lease anew. `false` where the generation is going or gone, or nobody can tell.
    pub async fn renew(&self, pin: &mut LeasedPin) -> Result<bool, ObjectsError> {
        let ShardGeneration { shard, id, .. } = pin.generation;
        let since = self.patience.now();
        let (name, found) = self.hold(&pin.list, shard, id).await?;
        let held = found.is_some();
        // Only one of the two is needed, and only the one that is known to hold.
        let other = if held {
            pin.since = since;
            std::mem::replace(&mut pin.name, name)
        } else {
            name
        };
        self.delete(&other).await?;
        Ok(held)
    }

    /// The same, where a part of the lease has passed already. While it has not passed, that the store
    /// does not answer is no reason to end.
    pub async fn renew_when_due(&self, pin: &mut LeasedPin) -> Result<bool, ObjectsError> {
        let lease = Duration::from_millis(pin.list.lease_ms);
        let passed = self.patience.now().saturating_sub(pin.since);
        if passed < lease / PARTS_OF_LEASE {
            return Ok(true);
        }
        match self.renew(pin).await {
            Err(error) if error.advice() == Advice::Retry && passed < lease => {
                tracing::warn!(pin = pin.name, "a pin is not renewed: {error}");
                Ok(true)
            }
            renewed => renewed,
        }
    }

    /// Gives a pin up before its lease has passed.
    pub async fn release(&self, pin: LeasedPin) -> Result<(), ObjectsError> {
        self.delete(&pin.name).await
    }

    /// Puts a pin, and only then looks for dooms, and only then whether the manifest is there. A name
    /// is not put twice, as a collector may be deleting it because its lease has passed.
    async fn hold(
        &self,
        list: &NameList,
        shard: ShardId,
        id: GenerationId,
    ) -> Result<(String, Option<ShardGeneration>), ObjectsError> {
        let name = names::drawn(names::PINS, self.patience.token());
        let held = match self.put_names(&name, list).await {
            Ok(()) => self.undoomed(shard, id).await,
            Err(error) => Err(error),
        };
        match held {
            Ok(found) => Ok((name, found)),
            Err(error) => {
                // Nobody knows of it. It ends by itself, too.
                let _ = self.delete(&name).await;
                Err(error)
            }
        }
    }

    /// A generation that is there, and is not about to be collected.
    async fn undoomed(
        &self,
        shard: ShardId,
        id: GenerationId,
    ) -> Result<Option<ShardGeneration>, ObjectsError> {
        let manifest = names::manifest(shard, id);
        let mut waits = self.patience.waits();
        // A collector may have seen an older pin, and leave it. When it is done, that is seen.
        while self.doomed().await?.contains(&manifest) {
            let gone = self.generation(shard, id).await?.is_none();
            if gone || !waits.wait().await {
                return Ok(None);
            }
        }
        self.generation(shard, id).await
    }

    /// Puts a pin or a doom.
    pub(super) async fn put_names(&self, name: &str, list: &NameList) -> Result<(), ObjectsError> {
        let bytes = list.encode(self.cluster);
        if bytes.len() as u64 > MANIFEST_MAX {
            return Err(ObjectsError::damaged(name, "would be too long"));
        }
        self.patience.retry(|| self.bucket.put_over(name, bytes.clone())).await
    }

    /// All names that somebody may be deleting.
    pub(super) async fn doomed(&self) -> Result<HashSet<String>, ObjectsError> {
        let mut found = HashSet::new();
        #[cfg(test)]
        if self.dooms_ignored {
            return Ok(found);
        }
        for doom in self.name_lists(names::DOOMS).await? {
            found.extend(doom.list.into_iter().flat_map(|it| it.names));
        }
        Ok(found)
    }

    /// All pins, or all dooms, that are there. One that is damaged is an error for a day, as nobody knows
    /// what it keeps; whoever put it has no more use of it then.
    pub(super) async fn name_lists(&self, folder: &str) -> Result<Vec<FoundList>, ObjectsError> {
        let mut found = Vec::new();
        for listed in self.patience.retry(|| self.bucket.list(folder, None)).await? {
            match self.names_of(&listed.name).await {
                Ok(None) => {}
                Ok(list) => found.push(FoundList { listed, list }),
                Err(error) if error.is_of_contents() => {
                    if !is_past(listed.modified, DOOM_LIFE, self.time().await?) {
                        return Err(error);
                    }
                    tracing::warn!("passed over, as it is more than a day old: {error}");
                    found.push(FoundList { listed, list: None });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// What a pin or a doom says, if it is still there.
    pub(super) async fn names_of(&self, name: &str) -> Result<Option<NameList>, ObjectsError> {
        let bytes = self.patience.retry(|| self.bucket.get(name, MANIFEST_MAX)).await?;
        bytes.map(|bytes| NameList::decode(name, self.cluster, &bytes)).transpose()
    }

    pub(super) async fn delete(&self, name: &str) -> Result<(), ObjectsError> {
        self.patience.retry(|| self.bucket.delete(name)).await
    }

    /// A shard's generation, if it is there.
    pub async fn generation(
        &self,
        shard: ShardId,
        id: GenerationId,
    ) -> Result<Option<ShardGeneration>, ObjectsError> {
        let name = names::manifest(shard, id);
        let bytes = self.patience.retry(|| self.bucket.get(&name, MANIFEST_MAX)).await?;
        bytes.map(|bytes| ShardGeneration::decode(&name, self.cluster, &bytes)).transpose()
    }

    /// A shard's generations, ascending.
    pub async fn ids(&self, shard: ShardId) -> Result<Vec<GenerationId>, ObjectsError> {
        let folder = names::manifests(shard);
        let listed = self.patience.retry(|| self.bucket.list(&folder, None)).await?;
        let ids = listed.iter().filter_map(|it| names::parsed_manifest(&it.name));
        Ok(ids.map(|(_, id)| id).collect())
    }

    /// A shard's newest generation whose manifest can be read. It may not be current yet, which the
    /// shard's log tells.
    pub async fn newest(&self, shard: ShardId) -> Result<Option<ShardGeneration>, ObjectsError> {
        for id in self.ids(shard).await?.into_iter().rev() {
            match self.generation(shard, id).await {
                Ok(None) => {}
                Err(error) if error.is_of_contents() => {
                    tracing::warn!(?id, "a generation is passed over: {error}");
                }
                found => return found,
            }
        }
        Ok(None)
    }
}
