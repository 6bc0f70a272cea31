//! Who has tried wrong passwords lately, and how long he has to wait before the next one is looked
//! at.
//!
//! Of a user from an address: others neither wait for it nor learn of it. A password that was
//! proved before is not asked about here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wrong passwords that cost nothing beside their proof.
const FREE: u32 = 5;
/// The first wait, which doubles up to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// After so long without a wrong one all is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Who is remembered at once, at most.
const MOST: usize = 4096;

/// Bytes of a name of which more are not told apart; users have no longer ones.
const MOST_NAME: usize = 255;

/// A user at an address.
type Who = (IpAddr, Vec<u8>);

struct Failed {
    count: u32,
    last: Instant,
}

impl Failed {
    fn wait(&self) -> Duration {
        let doublings = self.count.saturating_sub(FREE);
        match doublings {
            0 => Duration::ZERO,
            n => FIRST.saturating_mul(1 << (n - 1).min(16)).min(LONGEST),
        }
    }
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Attempts {
    failed: Mutex<HashMap<Who, Failed>>,
    delayed: AtomicU64,
}

impl Attempts {
    /// How long somebody has to wait yet; `None` where a password of his is looked at.
    pub(super) fn wait(&self, user: &str, from: IpAddr, now: Instant) -> Option<Duration> {
        let all = self.all();
        let failed = all.get(&who(user, from))?;
        let waited = now.saturating_duration_since(failed.last);
        let left = failed.wait().checked_sub(waited).filter(|left| !left.is_zero())?;
        self.delayed.fetch_add(1, Ordering::Relaxed);
        Some(left)
    }

    /// Passwords that were not looked at, since wrong ones came before.
    pub(super) fn delayed(&self) -> u64 {
        self.delayed.load(Ordering::Relaxed)
    }

    /// Somebody gave a wrong password.
    pub(super) fn failed(&self, user: &str, from: IpAddr, now: Instant) {
        let mut all = self.all();
        let who = who(user, from);
        if all.len() >= MOST && !all.contains_key(&who) {
            all.retain(|_, failed| now.saturating_duration_since(failed.last) < FORGOTTEN);
            // Where all are of lately, the one that was longest ago makes room.
            let oldest =
                all.iter().min_by_key(|(_, failed)| failed.last).map(|(who, _)| who.clone());
            if let Some(oldest) = oldest.filter(|_| all.len() >= MOST) {
                all.remove(&oldest);
            }
        }
        let failed = all.entry(who).or_insert(Failed { count: 0, last: now });
        if now.saturating_duration_since(failed.last) >= FORGOTTEN {
            failed.count = 0;
        }
        (failed.count, failed.last) = (failed.count.saturating_add(1), now);
    }

    /// Somebody gave the right one.
    pub(super) fn right(&self, user: &str, from: IpAddr) {
        self.all().remove(&who(user, from));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Who, Failed>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn who(user: &str, from: IpAddr) -> Who {
    (from, user.bytes().take(MOST_NAME).collect())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    #[test]
    fn waits_begin_after_some_wrong_ones_double_and_end() {
        let (attempts, mut now) = (Attempts::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..14 {
            attempts.failed("ada", HERE, now);
            waits.push(attempts.wait("ada", HERE, now).map_or(0, |wait| wait.as_secs()));
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(attempts.wait("ada", THERE, now), None, "from elsewhere");
        assert_eq!(attempts.wait("eve", HERE, now), None, "somebody else");
        now += Duration::from_secs(59);
        assert_eq!(attempts.wait("ada", HERE, now), Some(Duration::from_secs(1)));
        now += Duration::from_secs(1);
        assert_eq!(attempts.wait("ada", HERE, now), None);
        attempts.failed("ada", HERE, now);
        assert!(attempts.wait("ada", HERE, now).is_some());
        attempts.right("ada", HERE);
        assert_eq!(attempts.wait("ada", HERE, now), None);
    }

    #[test]
    fn what_was_long_ago_is_forgotten_and_no_more_are_remembered_than_fit() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        (0..6).for_each(|_| attempts.failed("ada", HERE, now));
        let later = now + FORGOTTEN;
        attempts.failed("ada", HERE, later);
        assert_eq!(attempts.wait("ada", HERE, later), None);
        for user in 0..2 * MOST {
            attempts.failed(&user.to_string(), HERE, later + Duration::from_secs(1));
        }
        assert_eq!(attempts.all().len(), MOST);
    }
}
