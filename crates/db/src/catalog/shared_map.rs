//! A sorted map whose copies share what they have in common.
//!
//! Each change of the catalogue edits a copy of it, so a copy may not cost what it holds. Entries
//! stand in blocks, which copies share until one of them writes into a block; a copy takes a
//! pointer a block. What two copies differ in is found in the blocks that they do not share.
//!
//! Invariants: no block is empty or has more than [`MOST`] entries; keys ascend within and across
//! blocks. Absent on purpose: ranges, and removal of more than one key at a time.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most entries of a block.
const MOST: usize = 128;

type MapBlock<K, V> = Arc<Vec<(K, V)>>;

/// See the module's description.
#[derive(Clone)]
pub struct SharedMap<K, V> {
    blocks: Vec<MapBlock<K, V>>,
    count: usize,
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self { blocks: Vec::new(), count: 0 }
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// Entries.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.blocks.iter().flat_map(|block| block.iter()).map(|(key, value)| (key, value))
    }

    /// All values, by key.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let block = self.block_of(key);
        let entries = self.blocks.get(block)?;
        let at = entries.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        Some(&entries[at].1)
    }

    /// The block in which a key stands, if it does.
    fn block_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let is_before =
            |block: &MapBlock<K, V>| block.last().is_some_and(|(k, _)| k.borrow() < key);
        self.blocks.partition_point(is_before)
    }

    /// What is otherwise here than in `before`, by key: the values here, `None` for keys that are
    /// gone. `same` compares two values; blocks that both share are not looked at.
    pub(super) fn changes<'a>(
        &'a self,
        before: &'a Self,
        same: impl Fn(&V, &V) -> bool,
    ) -> Vec<(&'a K, Option<&'a V>)> {
        let mut changes = Vec::new();
        let (mut new, mut old) = (MapCursor::of(self), MapCursor::of(before));
        loop {
            while let (Some(a), Some(b)) = (new.whole_block(), old.whole_block())
                && Arc::ptr_eq(a, b)
            {
                new.skip_block();
                old.skip_block();
            }
            match (new.entry(), old.entry()) {
                (None, None) => return changes,
                (Some((a, value)), Some((b, was))) if a == b => {
                    if !same(value, was) {
                        changes.push((a, Some(value)));
                    }
                    new.step();
                    old.step();
                }
                (Some((a, value)), next) if next.is_none_or(|(b, _)| a < b) => {
                    changes.push((a, Some(value)));
                    new.step();
                }
                (_, Some((b, _))) => {
                    changes.push((b, None));
                    old.step();
                }
                (Some(_), None) => unreachable!("an entry behind which none stands was taken"),
            }
        }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// The value of a key, to be written.
    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let block = self.block_of(key);
        let entries = self.blocks.get_mut(block)?;
        let at = entries.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        Some(&mut Arc::make_mut(entries)[at].1)
    }

    /// Gives a key a value; returns the one that it had.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        // What lies behind all others joins the last block.
        let block = self.block_of(&key).min(self.blocks.len().saturating_sub(1));
        let Some(entries) = self.blocks.get_mut(block) else {
            self.blocks.push(Arc::new(vec![(key, value)]));
            self.count = 1;
            return None;
        };
        match entries.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(at) => return Some(std::mem::replace(&mut Arc::make_mut(entries)[at].1, value)),
            // Keys that ascend, as ids do, leave full blocks behind.
            Err(at) if at == MOST => self.blocks.insert(block + 1, Arc::new(vec![(key, value)])),
            Err(at) => {
                let entries = Arc::make_mut(entries);
                entries.insert(at, (key, value));
                if entries.len() > MOST {
                    let rest = entries.split_off(MOST / 2);
                    self.blocks.insert(block + 1, Arc::new(rest));
                }
            }
        }
        self.count += 1;
        None
    }

    /// Takes a key away; returns the value that it had.
    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let block = self.block_of(key);
        let entries = self.blocks.get_mut(block)?;
        let at = entries.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        let entries = Arc::make_mut(entries);
        let (_, value) = entries.remove(at);
        self.count -= 1;
        let left = entries.len();
        // Blocks of which little is left join the next one.
        match self.blocks.get(block + 1) {
            _ if left == 0 => drop(self.blocks.remove(block)),
            Some(next) if left + next.len() <= MOST / 2 => {
                let next = self.blocks.remove(block + 1);
                Arc::make_mut(&mut self.blocks[block]).extend(next.iter().cloned());
            }
            _ => {}
        }
        Some(value)
    }
}

/// A place in a map.
struct MapCursor<'a, K, V> {
    blocks: &'a [MapBlock<K, V>],
    at: usize,
}

impl<'a, K, V> MapCursor<'a, K, V> {
    fn of(map: &'a SharedMap<K, V>) -> Self {
        Self { blocks: &map.blocks, at: 0 }
    }

    /// The block that begins here.
    fn whole_block(&self) -> Option<&'a MapBlock<K, V>> {
        self.blocks.first().filter(|_| self.at == 0)
    }

    fn skip_block(&mut self) {
        self.blocks = &self.blocks[1..];
    }

    fn entry(&self) -> Option<(&'a K, &'a V)> {
        self.blocks.first().map(|block| (&block[self.at].0, &block[self.at].1))
    }

    fn step(&mut self) {
        self.at += 1;
        if self.at == self.blocks[0].len() {
            self.skip_block();
            self.at = 0;
        }
    }
}

impl<K: Ord, V> Index<&K> for SharedMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key is in the map")
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord + Serialize, V: Serialize> Serialize for SharedMap<K, V> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.iter())
    }
}

impl<'de, K, V> Deserialize<'de> for SharedMap<K, V>
where
    K: Ord + Clone + Deserialize<'de>,
    V: Clone + Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(parser: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::deserialize(parser)?.into_iter().collect())
    }
}

#[cfg(test)]
#[path = "shared_map_tests.rs"]
mod tests;
