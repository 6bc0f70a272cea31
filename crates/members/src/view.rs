//! What is known of etcd's keys: the newest version of each that the list, the watch or an answer of
//! our own has told.
//!
//! Invariants: a key's version never goes back but by a new list, also where the key was removed, which
//! the watch alone tells, in order; a term that was ever seen is kept, whatever becomes of its key; a
//! record that is refused is kept as refused, so that a campaign knows whether it may overwrite it; what
//! is kept is bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use uuid::Uuid;

use crate::counts::Tallies;
use crate::election::patience;
use crate::keys::{KeySpace, NamedKey};
use crate::notices::{Noticed, Subscribers};
use crate::records::{KeyRecord, NewestTerm, ServerSeat, Throne, Unreadable};
use crate::{LeadingServer, SHARDS_MAX, ServerInfo};

/// The most servers that are known.
const SERVERS_MAX: usize = 1024;

/// A key as it stands, or that it is gone.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyCell {
    pub(crate) key: Vec<u8>,
    /// `None` where it is gone.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) lease: i64,
    pub(crate) revision: i64,
}

/// What a key holds, and which version of it that is.
#[derive(Debug, Clone)]
pub(crate) struct Known<T> {
    pub(crate) what: Result<T, Unreadable>,
    pub(crate) lease: i64,
    pub(crate) revision: i64,
}

#[derive(Default)]
struct Board {
    servers: BTreeMap<Uuid, Known<ServerSeat>>,
    leaders: BTreeMap<u64, Known<Throne>>,
    terms: BTreeMap<u64, Known<NewestTerm>>,
    /// The greatest term ever seen of each shard.
    seen: BTreeMap<u64, u64>,
    led: BTreeMap<Uuid, usize>,
    /// All that came before this revision was listed, or told by the watch: what is not known of it is gone.
    told: i64,
    settling: bool,
    stale_since: Option<Duration>,
}

/// All that is known, shared between the watch and whoever asks.
pub(crate) struct View {
    keys: KeySpace,
    board: Mutex<Board>,
    pub(crate) subscribers: Subscribers,
    tallies: Arc<Tallies>,
}

impl View {
    pub(crate) fn new(keys: KeySpace, tallies: Arc<Tallies>) -> Self {
        Self { keys, board: Mutex::default(), subscribers: Subscribers::default(), tallies }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().expect("nothing panics under this lock")
    }

    /// Takes over a list of all keys that are there.
    pub(crate) fn replace(&self, cells: Vec<KeyCell>) {
        let mut board = self.board();
        *board = Board { seen: std::mem::take(&mut board.seen), ..Board::default() };
        let told = cells.iter().map(|cell| cell.revision).max();
        for cell in cells {
            self.take_over(&mut board, cell);
        }
        board.told = told.unwrap_or(0);
        drop(board);
        self.subscribers.tell(&Noticed::Everything);
    }

    /// Takes over one change.
    pub(crate) fn apply(&self, cell: KeyCell) {
        let changed = self.take_over(&mut self.board(), cell);
        if let Some(what) = changed {
            self.subscribers.tell(&what);
        }
    }

    /// What a change means to subscribers, if anything.
    fn take_over(&self, board: &mut Board, cell: KeyCell) -> Option<Noticed> {
        let key = self.keys.parse(&cell.key)?;
        if cell.value.is_none() {
            board.told = board.told.max(cell.revision);
        } else if cell.revision < board.told && !board.knows(&key) {
            // An answer of our own, which the watch has overtaken.
            return None;
        }
        match key {
            NamedKey::Settling => {
                board.settling = cell.value.is_some();
                Some(Noticed::Everything)
            }
            NamedKey::Server(id) => {
                let sound = |it: &ServerSeat| it.info.id == id;
                self.keep(&mut board.servers, id, &cell, sound, SERVERS_MAX)
                    .then_some(Noticed::Servers)
            }
            NamedKey::Leader(shard) => {
                let before = board.leader(shard).map(|it| it.server);
                if !self.keep(&mut board.leaders, shard, &cell, |_| true, SHARDS_MAX) {
                    return None;
                }
                if let Some(before) = before {
                    board.led.entry(before).and_modify(|led| *led = led.saturating_sub(1));
                }
                if let Some(Throne { server, term, .. }) = board.leader(shard).cloned() {
                    *board.led.entry(server).or_default() += 1;
                    board.note(shard, term);
                }
                board.led.retain(|_, led| *led > 0);
                Some(Noticed::Leader(shard))
            }
            NamedKey::Term(shard) => {
                // Not under a lease, unlike the others.
                let cell = KeyCell { lease: i64::from(cell.value.is_some()), ..cell };
                self.keep(&mut board.terms, shard, &cell, |_| true, SHARDS_MAX);
                if let Some(Known { what: Ok(NewestTerm(term)), .. }) = board.terms.get(&shard) {
                    let term = *term;
                    board.note(shard, term);
                }
                None
            }
            NamedKey::Value(name) => Some(Noticed::Value(name)),
        }
    }

    /// Whether it was newer than what was known.
    fn keep<K: Ord + Copy, T: KeyRecord>(
        &self,
        known: &mut BTreeMap<K, Known<T>>,
        key: K,
        cell: &KeyCell,
        sound: impl Fn(&T) -> bool,
        most: usize,
    ) -> bool {
        if known.get(&key).is_some_and(|it| it.revision >= cell.revision) {
            return false;
        }
        let Some(value) = &cell.value else { return known.remove(&key).is_some() };
        if known.len() >= most && !known.contains_key(&key) {
            tracing::warn!(key = %key_text(&cell.key), most, "there are too many keys of this kind");
            return false;
        }
        let refuse = |why: &str| Unreadable::Garbage(why.to_owned());
        let what = match T::decode(value) {
            Ok(_) if cell.lease == 0 => Err(refuse("stands under no lease")),
            Ok(it) if !sound(&it) => Err(refuse("is another's")),
            decoded => decoded,
        };
        if let Err(why) = &what {
            self.tallies.refused_records.add();
            tracing::warn!(key = %key_text(&cell.key), ?why, "a record is refused");
        }
        known.insert(key, Known { what, lease: cell.lease, revision: cell.revision });
        true
    }

    pub(crate) fn stale(&self, now: Duration) {
        self.board().stale_since.get_or_insert(now);
    }

    pub(crate) fn stale_since(&self) -> Option<Duration> {
        self.board().stale_since
    }

    pub(crate) fn settling(&self) -> bool {
        self.board().settling
    }

    pub(crate) fn servers(&self) -> Vec<ServerInfo> {
        let board = self.board();
        board.servers.values().filter_map(|it| Some(it.what.as_ref().ok()?.info.clone())).collect()
    }

    pub(crate) fn server(&self, id: Uuid) -> Option<Known<ServerSeat>> {
        self.board().servers.get(&id).cloned()
    }

    pub(crate) fn leader(&self, shard: u64) -> Option<LeadingServer> {
        self.board().leader(shard).map(|it| it.leader(shard))
    }

    pub(crate) fn leaders(&self) -> Vec<LeadingServer> {
        let board = self.board();
        board
            .leaders
            .iter()
            .filter_map(|(&shard, it)| Some(it.what.as_ref().ok()?.leader(shard)))
            .collect()
    }

    pub(crate) fn throne(&self, shard: u64) -> Option<Known<Throne>> {
        self.board().leaders.get(&shard).cloned()
    }

    pub(crate) fn term(&self, shard: u64) -> Option<Known<NewestTerm>> {
        self.board().terms.get(&shard).cloned()
    }

    /// The greatest term ever seen of a shard.
    pub(crate) fn seen(&self, shard: u64) -> u64 {
        self.board().seen.get(&shard).copied().unwrap_or(0)
    }

    /// How long `me` leaves a shard that nobody leads to others.
    pub(crate) fn patience(&self, shard: u64, me: Uuid) -> Duration {
        let board = self.board();
        let led = |id: &Uuid| board.led.get(id).copied().unwrap_or(0);
        patience(shard, me, led(&me), board.servers.keys().map(|id| (*id, led(id))))
    }
}

impl Board {
    fn leader(&self, shard: u64) -> Option<&Throne> {
        self.leaders.get(&shard)?.what.as_ref().ok()
    }

    /// Whether there is a version that a change is compared with, or none is ever kept.
    fn knows(&self, key: &NamedKey) -> bool {
        match key {
            NamedKey::Server(id) => self.servers.contains_key(id),
            NamedKey::Leader(shard) => self.leaders.contains_key(shard),
            NamedKey::Term(shard) => self.terms.contains_key(shard),
            NamedKey::Settling | NamedKey::Value(_) => true,
        }
    }

    fn note(&mut self, shard: u64, term: u64) {
        if self.seen.len() < SHARDS_MAX || self.seen.contains_key(&shard) {
            let seen = self.seen.entry(shard).or_default();
            *seen = term.max(*seen);
        }
    }
}

pub(crate) fn key_text(key: &[u8]) -> String {
    String::from_utf8_lossy(&key[..key.len().min(200)]).into_owned()
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
