//! Who has tried wrong passwords lately, and how long he has to wait before the next one is looked
//! at.
//!
//! Of a user from a network: others neither wait for it nor learn of it. Somebody who was let in and
//! gives another password to a user waits for his own wrong ones. A password that was proved before is not
//! asked about here.
//!
//! Names that no user has cost a proof too, so that nobody learns which there are. From a network that
//! has tried many of them they are not proved any more, and refused as late as if they had been.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
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
/// Names that no user has, of a network within the time, which are proved.
const MOST_UNKNOWN: u32 = 20;
const WITHIN: Duration = Duration::from_secs(60);
/// Who is remembered at once, at most; of each kind.
const MOST: usize = 4096;

/// Bytes of a name of which more are not told apart; users have no longer ones.
const MOST_NAME: usize = 255;

/// Who tries a password.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum TriedBy {
    /// Somebody in a network.
    Network(IpAddr),
    /// A user that was let in.
    User(String),
}

/// Whose password is tried, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    by: TriedBy,
    name: Vec<u8>,
    is_user: bool,
}

impl Attempt {
    /// One on a name, which a user may have or not.
    pub(super) fn new(name: &str, is_user: bool, by: TriedBy) -> Self {
        Self { by, name: name.bytes().take(MOST_NAME).collect(), is_user }
    }

    /// One on the token, which all share.
    pub(super) fn on_token(from: IpAddr) -> Self {
        Self::new("", true, TriedBy::Network(from))
    }
}

struct Failed {
    count: u32,
    last: Instant,
    /// What was tried last, where it is to be known again.
    tried: Option<u64>,
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

/// Names that no user has, tried from a network.
struct Unknown {
    count: u32,
    since: Instant,
}

/// See the module's description.
#[derive(Default)]
pub(super) struct Attempts {
    known: Mutex<KnownAttempts>,
    delayed: AtomicU64,
    /// How long the last proof took, in microseconds.
    proof_us: AtomicU64,
    hasher: RandomState,
}

#[derive(Default)]
struct KnownAttempts {
    /// On users, and apart from them on names of which anybody can make up as many as he likes.
    on_users: HashMap<Attempt, Failed>,
    on_others: HashMap<Attempt, Failed>,
    unknown: HashMap<IpAddr, Unknown>,
    /// Where the right token was shown, and when last.
    trusted: HashMap<IpAddr, Instant>,
}

impl KnownAttempts {
    fn of(&mut self, attempt: &Attempt) -> &mut HashMap<Attempt, Failed> {
        if attempt.is_user { &mut self.on_users } else { &mut self.on_others }
    }
}

impl Attempts {
    /// How long somebody has to wait yet; `None` where a password of his is looked at.
    pub(super) fn wait(&self, attempt: &Attempt, now: Instant) -> Option<Duration> {
        let mut all = self.all();
        let failed = all.of(attempt).get(attempt)?;
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
    pub(super) fn failed(&self, attempt: &Attempt, now: Instant) {
        self.note(attempt, None, now);
    }

    /// Somebody gave a wrong token. The same one again is no guess: a client that has an old one makes nobody
    /// wait.
    pub(super) fn failed_with(&self, attempt: &Attempt, token: &[u8], now: Instant) {
        self.note(attempt, Some(self.hasher.hash_one(token)), now);
    }

    fn note(&self, attempt: &Attempt, tried: Option<u64>, now: Instant) {
        let mut all = self.all();
        let failed = all.of(attempt);
        make_room(failed, attempt, now, |failed| failed.last);
        let failed = failed.entry(attempt.clone());
        let failed = failed.or_insert(Failed { count: 0, last: now, tried: None });
        if tried.is_some() && failed.tried == tried {
            return;
        }
        if now.saturating_duration_since(failed.last) >= FORGOTTEN {
            failed.count = 0;
        }
        *failed = Failed { count: failed.count.saturating_add(1), last: now, tried };
        if let (TriedBy::Network(from), false) = (&attempt.by, attempt.is_user) {
            make_room(&mut all.unknown, from, now, |unknown| unknown.since);
            let unknown = all.unknown.entry(*from).or_insert(Unknown { count: 0, since: now });
            if now.saturating_duration_since(unknown.since) >= WITHIN {
                *unknown = Unknown { count: 0, since: now };
            }
            unknown.count = unknown.count.saturating_add(1);
        }
    }

    /// Whether this is a name that no user has, from a network that has tried so many of them that no more are
    /// proved.
    pub(super) fn is_flooded(&self, attempt: &Attempt, now: Instant) -> bool {
        let (TriedBy::Network(from), false) = (&attempt.by, attempt.is_user) else { return false };
        let all = self.all();
        let unknown = all.unknown.get(from);
        unknown.is_some_and(|unknown| {
            let age = now.saturating_duration_since(unknown.since);
            unknown.count >= MOST_UNKNOWN && age < WITHIN
        })
    }

    /// A proof took so long.
    pub(super) fn proved_in(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.proof_us.store(us, Ordering::Relaxed);
    }

    /// How long a refusal without a proof waits, so that it looks like any other.
    pub(super) fn pretence(&self) -> Duration {
        self.delayed.fetch_add(1, Ordering::Relaxed);
        Duration::from_micros(self.proof_us.load(Ordering::Relaxed)).min(LONGEST)
    }

    /// Somebody gave the right one.
    pub(super) fn right(&self, attempt: &Attempt) {
        self.all().of(attempt).remove(attempt);
    }

    /// The right token was shown from a network.
    pub(super) fn trust(&self, from: IpAddr, now: Instant) {
        let mut all = self.all();
        make_room(&mut all.trusted, &from, now, |shown| *shown);
        all.trusted.insert(from, now);
    }

    /// Whether the right token was shown from a network before. Who shows it there again waits for nobody.
    pub(super) fn is_trusted(&self, from: IpAddr) -> bool {
        self.all().trusted.contains_key(&from)
    }

    fn all(&self) -> MutexGuard<'_, KnownAttempts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has what is about `key` fit in. Where all are of lately, the one that was longest ago makes room.
fn make_room<K: Clone + Eq + Hash, V>(
    all: &mut HashMap<K, V>,
    key: &K,
    now: Instant,
    last: impl Fn(&V) -> Instant,
) {
    if all.len() < MOST || all.contains_key(key) {
        return;
    }
    all.retain(|_, one| now.saturating_duration_since(last(one)) < FORGOTTEN);
    let oldest = all.iter().min_by_key(|(_, one)| last(one)).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest.filter(|_| all.len() >= MOST) {
        all.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    fn on(name: &str, from: IpAddr) -> Attempt {
        Attempt::new(name, true, TriedBy::Network(from))
    }

    fn made_up(name: &str, from: IpAddr) -> Attempt {
        Attempt::new(name, false, TriedBy::Network(from))
    }

    #[test]
    fn waits_begin_after_some_wrong_ones_double_and_end() {
        let (attempts, mut now) = (Attempts::default(), Instant::now());
        let ada = on("ada", HERE);
        let mut waits = Vec::new();
        for _ in 0..14 {
            attempts.failed(&ada, now);
            waits.push(attempts.wait(&ada, now).map_or(0, |wait| wait.as_secs()));
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(attempts.wait(&on("ada", THERE), now), None, "from elsewhere");
        assert_eq!(attempts.wait(&on("eve", HERE), now), None, "somebody else");
        let by_bob = Attempt::new("ada", true, TriedBy::User("bob".to_owned()));
        assert_eq!(attempts.wait(&by_bob, now), None, "by somebody who was let in");
        now += Duration::from_secs(59);
        assert_eq!(attempts.wait(&ada, now), Some(Duration::from_secs(1)));
        now += Duration::from_secs(1);
        assert_eq!(attempts.wait(&ada, now), None);
        attempts.failed(&ada, now);
        assert!(attempts.wait(&ada, now).is_some());
        attempts.right(&ada);
        assert_eq!(attempts.wait(&ada, now), None);
    }

    #[test]
    fn what_was_long_ago_is_forgotten_and_no_more_are_remembered_than_fit() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let ada = on("ada", HERE);
        (0..6).for_each(|_| attempts.failed(&ada, now));
        let later = now + FORGOTTEN;
        attempts.failed(&ada, later);
        assert_eq!(attempts.wait(&ada, later), None);
        for user in 0..2 * MOST {
            attempts.failed(&on(&user.to_string(), HERE), later + Duration::from_secs(1));
        }
        assert_eq!(attempts.all().on_users.len(), MOST);
    }

    #[test]
    fn names_that_somebody_makes_up_take_nothing_from_users() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let ada = on("ada", HERE);
        (0..6).for_each(|_| attempts.failed(&ada, now));
        let later = now + Duration::from_millis(1);
        for name in 0..2 * MOST {
            let attempt = made_up(&name.to_string(), HERE);
            assert_eq!(attempts.is_flooded(&attempt, later), name >= MOST_UNKNOWN as usize);
            attempts.failed(&attempt, later);
        }
        assert!(attempts.wait(&ada, later).is_some(), "it is still known");
        assert!(!attempts.is_flooded(&ada, later), "a user");
        let another = made_up("another", HERE);
        assert!(!attempts.is_flooded(&made_up("another", THERE), later));
        assert!(!attempts.is_flooded(&another, later + WITHIN));
        attempts.failed(&another, later + WITHIN);
        assert!(!attempts.is_flooded(&another, later + WITHIN));
    }

    #[test]
    fn one_wrong_token_again_and_again_is_no_guess() {
        let (attempts, now) = (Attempts::default(), Instant::now());
        let (here, there) = (Attempt::on_token(HERE), Attempt::on_token(THERE));
        (0..50).for_each(|_| attempts.failed_with(&here, b"old", now));
        assert_eq!(attempts.wait(&here, now), None);
        (0..6u8).for_each(|guess| attempts.failed_with(&there, &[guess], now));
        assert!(attempts.wait(&there, now).is_some());
        attempts.trust(HERE, now);
        assert!(attempts.is_trusted(HERE) && !attempts.is_trusted(THERE));
    }
}
