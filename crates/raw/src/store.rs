//! The copies that a stripe holds: found, made, given up.
//!
//! A copy is a *region* of the stripe: the bytes of one sealed segment. It counts from the moment in
//! which the directory names it, which is after its bytes are on stable storage, until another
//! directory without it is; only then is its space given to another. Who reads a region holds it
//! ([`Region`]), and what is held is not given up.
//!
//! Invariants: bytes of a region that a directory on any device names are never overwritten; after
//! a directory could not be written, nothing is, since which of the two counts is unknown.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use uuid::Uuid;

use crate::bell::Bell;
use crate::device::DeviceAction;
use crate::devices::Devices;
use crate::head::{ClaimError, FoundMarker, examine};
use crate::marker::{DIRECTORIES, Entry, HEAD_BYTES, MOST_REGIONS, NAME_BYTES, RegionDirectory};
use crate::port::{Port, PortError, PortTarget};
use crate::stripe::Stripe;
use crate::transfers::{TransferError, Transfers};

/// A segment: a file that never changes any more.
#[derive(Clone, Debug)]
pub struct CopiedSegment {
    /// The index that it is of.
    pub index: Uuid,
    /// The generation of it that is opened.
    pub generation: u64,
    /// The partition of it.
    pub partition: u32,
    /// The segment's name in the partition.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// A copy that is held: it stays as long as this does.
#[derive(Debug)]
pub struct Region {
    /// Where it stands in the stripe.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
}

/// Why a segment has no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The stripe has no room.
    #[error(
        "the stripe is full: {wanted} bytes are wanted, and the longest of its free parts has {free}"
    )]
    Full {
        /// Bytes wanted.
        wanted: u64,
        /// The longest free part.
        free: u64,
    },
    /// Its name is too long, or there are too many.
    #[error("the marker has no room for one more copy, or for a name of so many letters")]
    Directory,
    /// A directory could not be written before.
    #[error(
        "the marker could not be written; nothing is copied until the devices are opened again"
    )]
    Poisoned,
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// What was written is not what was read.
    #[error("{}: bytes of its copy at {start} came back changed", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Where in the stripe.
        start: u64,
    },
    /// A device failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

type Key = (Uuid, u32, String);

fn key(entry: &Entry) -> Key {
    (entry.index, entry.partition, entry.name.clone())
}

#[derive(Default)]
struct State {
    directory: Option<RegionDirectory>,
    /// Regions that somebody reads, or did.
    held: HashMap<Key, Weak<Region>>,
    /// Those that are to be given up when nobody reads them.
    dead: Vec<Key>,
    poisoned: bool,
}

impl State {
    fn directory(&self) -> &RegionDirectory {
        self.directory.as_ref().expect("set when the store was opened")
    }

    fn is_held(&self, key: &Key) -> bool {
        self.held.get(key).is_some_and(|region| region.strong_count() > 0)
    }

    /// The directory without what is dead and not held; `None` where that is the same. What goes is found by
    /// nobody from now on, though it may stand in the directory on the devices until another one is there.
    fn clear(&mut self) -> Option<RegionDirectory> {
        let gone = |e: &Entry| self.dead.contains(&key(e)) && !self.is_held(&key(e));
        let old = self.directory();
        let left: Vec<Entry> = old.entries.iter().filter(|e| !gone(e)).cloned().collect();
        if left.len() == old.entries.len() {
            return None;
        }
        self.directory = Some(RegionDirectory { entries: left, ..old.clone() });
        self.directory.clone()
    }
}

/// See the module's description.
pub struct Store {
    pub(crate) devices: Devices,
    stripe: Stripe,
    set: Uuid,
    state: Mutex<State>,
    /// One copy at a time.
    copying: Mutex<()>,
}

/// What a stripe is and holds.
#[derive(Clone, Debug)]
pub struct StoreStatus {
    /// Identity of the stripe.
    pub set: Uuid,
    /// Bytes of a turn.
    pub stripe_bytes: u64,
    /// Bytes in all.
    pub capacity: u64,
    /// Bytes of copies.
    pub used: u64,
    /// The copies.
    pub entries: Vec<Entry>,
}

impl Store {
    /// The stripe over devices that were claimed for it. Reads only.
    ///
    /// # Errors
    /// [`ClaimError`], which names the device and what is wrong with it.
    pub fn open(devices: Devices) -> Result<Self, ClaimError> {
        let FoundMarker { identity, directory } = examine(&devices)?;
        let stripe =
            Stripe::new(devices.count(), identity.stripe_bytes, HEAD_BYTES, identity.device_bytes);
        let state = State { directory: Some(directory), ..State::default() };
        let (state, copying) = (Mutex::new(state), Mutex::new(()));
        Ok(Self { devices, stripe, set: identity.set, state, copying })
    }

    /// The devices.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// A port for one thread, which sleeps on this bell.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn port(&self, room: usize, bell: Arc<dyn Bell>) -> Result<Port, PortError> {
        self.devices.port_with(self.stripe, room, bell)
    }

    /// The first device that is lost and has some of a range of the stripe.
    pub fn lost_in(&self, offset: u64, bytes: u64) -> Option<usize> {
        if !self.devices.is_any_lost() {
            return None;
        }
        let mut devices = self.stripe.pieces(offset, bytes).map(|piece| piece.device);
        devices.find(|&device| self.devices.is_lost(device))
    }

    /// What it is and holds.
    pub fn status(&self) -> StoreStatus {
        let entries = self.lock().directory().entries.clone();
        StoreStatus {
            set: self.set,
            stripe_bytes: self.stripe.stripe_bytes(),
            capacity: self.stripe.capacity(),
            used: entries.iter().map(|entry| entry.bytes).sum(),
            entries,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The copy of a segment, if there is one. One whose file is another than was copied is compared
    /// with it by checksum, which reads the file.
    ///
    /// # Errors
    /// [`CopyError::File`].
    pub fn find(&self, segment: &CopiedSegment) -> Result<Option<Arc<Region>>, CopyError> {
        let same = |e: &&Entry| {
            (e.index, e.partition, &e.name) == (segment.index, segment.partition, &segment.name)
        };
        let Some(entry) = self.lock().directory().entries.iter().find(same).cloned() else {
            return Ok(None);
        };
        let failed = |source| CopyError::File { path: segment.path.clone(), source };
        let source = source_of(&segment.path).map_err(failed)?;
        let is_it = entry.bytes == segment.bytes
            && (source == entry.source
                || checksum_of(&segment.path).map_err(failed)? == entry.checksum);
        let mut state = self.lock();
        // While its file was read it may have been given up, and its place been given to another.
        let is_same = |e: &Entry| (key(e), e.start) == (key(&entry), entry.start);
        if !state.directory().entries.iter().any(is_same) {
            return Ok(None);
        }
        if is_it && source != entry.source {
            // Known from now on, and for ever with the next change of the directory.
            let entries = &mut state.directory.as_mut().expect("set when it was opened").entries;
            entries.iter_mut().filter(|e| **e == entry).for_each(|e| e.source = source);
        }
        if !is_it {
            state.dead.push(key(&entry));
            return Ok(None);
        }
        state.dead.retain(|dead| *dead != key(&entry));
        Ok(Some(hold(&mut state, &entry)))
    }

    /// Says which segments a generation has: copies of the same index that an earlier generation
    /// wanted, and this one does not, are given up when nobody reads them.
    pub fn wants(&self, index: Uuid, generation: u64, segments: &[CopiedSegment]) {
        let mut state = self.lock();
        let wanted =
            |e: &Entry| segments.iter().any(|s| (s.partition, &s.name) == (e.partition, &e.name));
        let dead: Vec<Key> = state
            .directory()
            .entries
            .iter()
            .filter(|e| e.index == index && e.generation < generation && !wanted(e))
            .map(key)
            .collect();
        state.dead.extend(dead);
    }

    /// Gives up all copies of an index, or of all, as far as nobody reads them. Returns how many.
    ///
    /// # Errors
    /// [`CopyError`] of the directory.
    pub fn forget(&self, index: Option<Uuid>) -> Result<usize, CopyError> {
        let _alone = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        let before = {
            let mut state = self.lock();
            let of = |e: &&Entry| index.is_none_or(|index| e.index == index);
            let dead: Vec<Key> = state.directory().entries.iter().filter(of).map(key).collect();
            state.dead.extend(dead);
            state.directory().entries.len()
        };
        self.clear()?;
        Ok(before - self.lock().directory().entries.len())
    }

    /// Copies a segment and holds its region. `progress` is told the bytes copied so far.
    ///
    /// # Errors
    /// [`CopyError`]; the stripe is as it was, but for copies that were given up.
    pub fn copy(
        &self,
        segment: &CopiedSegment,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Arc<Region>, CopyError> {
        let _alone = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have been faster.
        if let Some(region) = self.find(segment)? {
            return Ok(region);
        }
        let start = self.room_for(segment)?;
        let failed = |source| CopyError::File { path: segment.path.clone(), source };
        let source = source_of(&segment.path).map_err(failed)?;
        let checksum = crate::copy::copy(&self.devices, self.stripe, segment, start, progress)?;
        let entry = Entry {
            index: segment.index,
            partition: segment.partition,
            name: segment.name.clone(),
            bytes: segment.bytes,
            checksum,
            start,
            generation: segment.generation,
            source,
        };
        let mut directory = {
            let mut state = self.lock();
            state.clear().unwrap_or_else(|| state.directory().clone())
        };
        directory.entries.retain(|e| key(e) != key(&entry));
        directory.entries.push(entry.clone());
        self.publish(directory)?;
        Ok(hold(&mut self.lock(), &entry))
    }

    /// Where a segment fits, after giving up what is dead if it fits nowhere else.
    fn room_for(&self, segment: &CopiedSegment) -> Result<u64, CopyError> {
        if segment.name.len() > NAME_BYTES {
            return Err(CopyError::Directory);
        }
        let mut cleared = false;
        loop {
            let (room, full, known, poisoned) = {
                let state = self.lock();
                let entries = &state.directory().entries;
                let of = |e: &Entry| {
                    let wanted = (segment.index, segment.partition, &segment.name);
                    (e.index, e.partition, &e.name) == wanted
                };
                let room = self.gap(entries, segment.bytes);
                (room, entries.len() >= MOST_REGIONS, entries.iter().any(of), state.poisoned)
            };
            if poisoned {
                return Err(CopyError::Poisoned);
            }
            // A copy of the same name is of a file that was replaced: it is not to be found again.
            match room {
                Ok(start) if !full && (!known || cleared) => return Ok(start),
                Err(free) if cleared => {
                    return Err(CopyError::Full { wanted: segment.bytes, free });
                }
                _ if cleared => return Err(CopyError::Directory),
                _ => {
                    self.clear()?;
                    cleared = true;
                }
            }
        }
    }

    /// The first gap between regions that is long enough, else the length of the longest.
    fn gap(&self, entries: &[Entry], wanted: u64) -> Result<u64, u64> {
        let turn = self.stripe.stripe_bytes();
        let mut taken: Vec<(u64, u64)> =
            entries.iter().map(|e| (e.start, (e.start + e.bytes).next_multiple_of(turn))).collect();
        taken.sort_unstable();
        taken.push((self.stripe.capacity(), u64::MAX));
        let (mut at, mut longest) = (0, 0);
        for (from, to) in taken {
            let gap = from.saturating_sub(at);
            if gap >= wanted {
                return Ok(at);
            }
            (at, longest) = (at.max(to), longest.max(gap));
        }
        Err(longest)
    }

    /// Writes a directory without what is dead and not held.
    fn clear(&self) -> Result<(), CopyError> {
        let cleared = self.lock().clear();
        cleared.map_or(Ok(()), |directory| self.publish(directory))
    }

    /// Puts a directory on the first device, twice.
    fn publish(&self, directory: RegionDirectory) -> Result<(), CopyError> {
        let directory = RegionDirectory { sequence: directory.sequence + 1, ..directory };
        if self.lock().poisoned {
            return Err(CopyError::Poisoned);
        }
        if let Err(error) = write_directory(&self.devices, self.stripe, &directory) {
            self.lock().poisoned = true;
            return Err(error.into());
        }
        let mut state = self.lock();
        let keys: Vec<Key> = directory.entries.iter().map(key).collect();
        state.dead.retain(|dead| keys.contains(dead));
        state.held.retain(|of, region| keys.contains(of) || region.strong_count() > 0);
        state.directory = Some(directory);
        Ok(())
    }
}

fn hold(state: &mut State, entry: &Entry) -> Arc<Region> {
    if let Some(region) = state.held.get(&key(entry)).and_then(Weak::upgrade)
        && (region.start, region.bytes) == (entry.start, entry.bytes)
    {
        return region;
    }
    let region = Arc::new(Region { start: entry.start, bytes: entry.bytes });
    state.held.insert(key(entry), Arc::downgrade(&region));
    region
}

/// Writes a directory in both places, one after the other.
pub(crate) fn write_directory(
    devices: &Devices,
    stripe: Stripe,
    directory: &RegionDirectory,
) -> Result<(), TransferError> {
    let bytes = directory.encode();
    let mut transfers = Transfers::new(devices, stripe, 1, bytes.len())?;
    for place in DIRECTORIES {
        transfers.buffer(0)[..bytes.len()].copy_from_slice(&bytes);
        transfers.one(DeviceAction::Write, PortTarget::Device(0), place, bytes.len())?;
        transfers.sync()?;
    }
    Ok(())
}

/// What tells a file from another one of the same name: its inode, and when it was changed.
fn source_of(path: &Path) -> std::io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::metadata(path)?;
    let nanos = i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec());
    Ok((file.ino(), nanos as u64))
}

fn checksum_of(path: &Path) -> std::io::Result<u64> {
    use std::io::Read;
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut piece) = (xxhash_rust::xxh3::Xxh3::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hash.digest()),
            n => hash.update(&piece[..n]),
        }
    }
}
