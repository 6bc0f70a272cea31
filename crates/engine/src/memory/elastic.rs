//! Memory that gives way: page caches hold what nobody else needs, and give it back when somebody
//! does.
//!
//! A limit holds for a process, in which many indexes may be open. What each of them needs comes
//! first; what is left is for pages, and is shared by use: the caches whose pages are asked for
//! most, byte for byte, get most. So a reservation is refused only where it would be with all
//! caches empty.
//!
//! Invariants: whoever is asked to give memory back may give less, and never waits for the thread
//! that asks; members are asked one at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use super::ledger::Ledger;

/// Holds memory that it can do without.
pub trait Elastic: Send + Sync {
    /// Bytes held that could be given back.
    fn held_bytes(&self) -> u64;

    /// Bytes that it would hold if there were no limit.
    fn wanted_bytes(&self) -> u64;

    /// Bytes of the limit that it leaves free, so that small and short-lived reservations do not
    /// have to ask for them.
    fn leaves_bytes(&self) -> u64;

    /// How often what it holds, or would hold, has been asked for.
    fn uses(&self) -> u64;

    /// Gives back so many bytes, or fewer where it cannot; returns how many.
    fn give_back(&self, bytes: u64) -> u64;

    /// Takes up to so many bytes more, as far as they are free.
    fn take(&self, bytes: u64);
}

/// The least part of a limit that changes hands, so that it seldom does.
const PORTION: u64 = 64;

/// Who holds memory that gives way.
#[derive(Default)]
pub(super) struct Members {
    /// Held by who moves memory between them.
    moving: Mutex<()>,
    list: Mutex<Vec<Member>>,
}

struct Member {
    of: Weak<dyn Elastic>,
    /// Its uses when memory was last divided.
    seen: AtomicU64,
}

/// What came of asking members to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GaveWay {
    /// There is room.
    Made,
    /// Somebody gave less than it holds, since others look at that just now: it may give it later.
    Later,
    /// All of them together hold less than is missing.
    None,
}

/// A member at one moment.
struct Stand {
    of: Arc<dyn Elastic>,
    held: u64,
    wanted: u64,
    /// Uses since memory was last divided.
    uses: u64,
}

impl Stand {
    /// Whether its bytes are used less than those of another.
    fn is_colder_than(&self, other: &Self) -> bool {
        let (here, there) = (u128::from(self.uses), u128::from(other.uses));
        here * u128::from(other.held.max(1)) < there * u128::from(self.held.max(1))
    }
}

impl Members {
    pub(super) fn add(&self, of: Weak<dyn Elastic>) {
        let mut list = lock(&self.list);
        list.retain(|member| member.of.strong_count() > 0);
        list.push(Member { of, seen: AtomicU64::new(0) });
    }

    /// All that are there; with `anew`, uses count from now on.
    fn stand(&self, anew: bool) -> Vec<Stand> {
        let members: Vec<_> = {
            let mut list = lock(&self.list);
            list.retain(|member| member.of.strong_count() > 0);
            let alive = list.iter().filter_map(|member| {
                let of = member.of.upgrade()?;
                let (uses, seen) = (of.uses(), &member.seen);
                let before = if anew {
                    seen.swap(uses, Ordering::Relaxed)
                } else {
                    seen.load(Ordering::Relaxed)
                };
                Some((of, uses.saturating_sub(before)))
            });
            alive.collect()
        };
        // A member may be dropped with its last reference here, so no lock is held.
        let stand = |(of, uses): (Arc<dyn Elastic>, u64)| {
            let (held, wanted) = (of.held_bytes(), of.wanted_bytes());
            Stand { of, held, wanted, uses }
        };
        members.into_iter().map(stand).collect()
    }

    /// Keeps memory from changing hands until this is dropped.
    pub(super) fn keep_still(&self) -> MutexGuard<'_, ()> {
        lock(&self.moving)
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.stand(false).iter().map(|member| member.held).sum()
    }

    /// Takes back what is missing for `bytes` more under the limit, the least used first.
    pub(super) fn make_room(&self, ledger: &Ledger, bytes: u64) -> GaveWay {
        let Some(limit) = ledger.limit_bytes() else { return GaveWay::None };
        let _alone = lock(&self.moving);
        let short = ledger.held_bytes().saturating_add(bytes).saturating_sub(limit);
        if short == 0 {
            return GaveWay::Made;
        }
        let mut members = self.stand(false);
        let all: u64 = members.iter().map(|member| member.held).sum();
        if all < short {
            return GaveWay::None;
        }
        members.sort_by(|a, b| b.is_colder_than(a).cmp(&a.is_colder_than(b)));
        let mut left = short.max(limit / PORTION).min(all);
        let least = left - short;
        for member in members {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(member.of.give_back(left.min(member.held)));
        }
        if left <= least { GaveWay::Made } else { GaveWay::Later }
    }

    /// Divides what is left of the limit anew, by use.
    pub(super) fn balance(&self, ledger: &Ledger) {
        let Some(limit) = ledger.limit_bytes() else { return };
        let _alone = match self.moving.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            // Somebody is at it.
            Err(TryLockError::WouldBlock) => return,
        };
        let members = self.stand(true);
        let held: u64 = members.iter().map(|member| member.held).sum();
        let beside = ledger.held_bytes().saturating_sub(held);
        let slack = members.iter().map(|member| member.of.leaves_bytes()).max().unwrap_or(0);
        let budget = limit.saturating_sub(beside).saturating_sub(slack);
        let targets = shares(&members, budget);
        let portion = limit / PORTION;
        for (member, target) in members.iter().zip(&targets) {
            if member.held > target.saturating_add(portion) {
                member.of.give_back(member.held - target);
            }
        }
        for (member, target) in members.iter().zip(&targets) {
            let free = ledger.free_bytes().saturating_sub(slack);
            let more = target.saturating_sub(member.held).min(free);
            if more >= portion.min(member.wanted.saturating_sub(member.held)) && more > 0 {
                member.of.take(more);
            }
        }
    }
}

/// What each member should hold of a budget: as its uses are to those of all, and no more than it
/// wants; what one does not want is for the others.
fn shares(members: &[Stand], budget: u64) -> Vec<u64> {
    // Who has not been asked for yet counts a little: by its size.
    let total: u64 = members.iter().map(|member| member.uses).sum();
    let wanted: u64 = members.iter().map(|member| member.wanted).sum();
    let weight = |member: &Stand| {
        let by_size = member.wanted as f64 / wanted.max(1) as f64;
        let by_use = member.uses as f64 / total.max(1) as f64;
        if total == 0 { by_size } else { 0.9 * by_use + 0.1 * by_size }
    };
    let mut targets = vec![0; members.len()];
    let mut open: Vec<usize> = (0..members.len()).collect();
    let mut left = budget;
    while !open.is_empty() {
        let weights: f64 = open.iter().map(|&at| weight(&members[at])).sum();
        let share = |at: usize| (left as f64 * weight(&members[at]) / weights.max(1e-12)) as u64;
        let (full, rest): (Vec<_>, Vec<_>) =
            open.iter().partition(|&&at| members[at].wanted <= share(at));
        if full.is_empty() {
            rest.iter().for_each(|&at| targets[at] = share(at));
            break;
        }
        for at in full {
            targets[at] = members[at].wanted;
            left = left.saturating_sub(members[at].wanted);
        }
        open = rest;
    }
    targets
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "elastic_tests.rs"]
mod tests;
