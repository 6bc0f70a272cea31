//! Users, roles and what roles may do; saved as one file of the database.
//!
//! Privileges are names here: a door says which one a call needs, and of what. Roles have privileges
//! by grants, on an object of a kind in a database, where `*` stands for any. `admin` may do
//! everything; whoever is known has the role `public`, which has [`FIRST_OF_PUBLIC`] until that is
//! taken from it. There is always a user `root` with the role
//! `admin`; where no file says otherwise its password is that which the door names.
//!
//! Each change is on stable storage before it is answered. A file that is damaged lets nobody in.
//! Backups leave it out: they carry data, and not who may read it.

mod change;
mod error;
mod file;
mod line;
mod model;
mod password;
mod proving;
#[cfg(test)]
mod tests;

pub use error::AccessError;
pub use file::ACCESS_FILE;
pub use line::ProofSource;
pub use model::{ADMIN, ANY, FIRST_OF_PUBLIC, Grant, PUBLIC, ROOT};

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pipeann_engine::memory::Accountant;

use self::model::UsersAndRoles;
use self::password::VerifiedPasswords;
use self::proving::{ProofBusy, Provers};
use crate::disk::{Disk, DiskError, read_file, replace_file};
use crate::replication::{Leadership, SharedChange, SharedLogError};

/// Stands for the hash of a first password, which has none.
const INITIAL: &str = "";

/// See the module's description. Shared between threads by reference.
pub struct Access {
    disk: Arc<dyn Disk>,
    writable: bool,
    state: RwLock<Arc<UsersAndRoles>>,
    /// Held while it changes.
    changing: Mutex<()>,
    verified: VerifiedPasswords,
    provers: Provers,
    wrong: AtomicU64,
    /// Where several servers have it.
    shared: Option<Arc<Leadership>>,
    /// The file lacks a change that their log has.
    behind: AtomicBool,
}

/// What became of a password that somebody sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It is the user's.
    Right,
    /// It is not, or there is no such user.
    Wrong,
    /// It was not looked at, since too many others wait for that.
    Busy,
}

/// A role that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRole {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Who has it.
    pub users: Vec<String>,
}

/// Passwords that were not accepted since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusedPasswords {
    /// That were wrong.
    pub wrong: u64,
    /// That were not looked at, since too many waited.
    pub busy: u64,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("writable", &self.writable).finish_non_exhaustive()
    }
}

impl Access {
    /// What the file says; where there is none, nobody but `root`.
    ///
    /// Memory for proofs is counted by the accountant.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        writable: bool,
        accountant: Arc<Accountant>,
    ) -> Result<Self, AccessError> {
        let state = match read_file(&*disk, ACCESS_FILE, file::MAX_BYTES) {
            Ok(bytes) => file::decode(&bytes)
                .map_err(|why| AccessError::Damaged { path: disk.locate(ACCESS_FILE), why })?,
            Err(error) if error.is_not_found() => UsersAndRoles::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            disk,
            writable,
            state: RwLock::new(Arc::new(state)),
            changing: Mutex::new(()),
            verified: VerifiedPasswords::default(),
            provers: Provers::new(accountant),
            wrong: AtomicU64::new(0),
            shared: None,
            behind: AtomicBool::new(false),
        })
    }

    /// Whether this password of the user was right before. Takes no time, and waits for nobody.
    pub fn knows(&self, user: &str, password: &str) -> bool {
        let state = self.state();
        let Some(found) = state.users.get(user) else { return false };
        self.verified.knows(user, found.password.as_deref().unwrap_or(INITIAL), password)
    }

    /// Whether this is the password of the user. `root` has `initial` until it is given another one.
    ///
    /// A proof takes tens of milliseconds, of no user and of a first password, too, and waits for
    /// others. A password that was right is remembered, without being kept, as long as it is the user's.
    /// Of many who come with it at once, the first one proves it for all.
    pub fn authenticates(&self, user: &str, password: &str, initial: &str) -> Proof {
        self.authenticates_at(ProofSource::default(), user, password, initial)
    }

    /// The same for somebody at a place. Where many wait, places take turns.
    pub fn authenticates_at(
        &self,
        source: ProofSource,
        user: &str,
        password: &str,
        initial: &str,
    ) -> Proof {
        if self.knows(user, password) {
            return Proof::Right;
        }
        match self.prove(source, user, password, initial) {
            Err(ProofBusy) => Proof::Busy,
            Ok(true) => Proof::Right,
            Ok(false) => {
                self.wrong.fetch_add(1, Ordering::Relaxed);
                Proof::Wrong
            }
        }
    }

    fn prove(
        &self,
        source: ProofSource,
        user: &str,
        password: &str,
        initial: &str,
    ) -> Result<bool, ProofBusy> {
        let state = self.state();
        let found = state.users.get(user);
        let (hash, is_right) = match found.map(|found| found.password.as_deref()) {
            Some(Some(hash)) => {
                let known = || self.verified.knows(user, hash, password);
                (hash, password::verify(&self.provers, source, hash, password, known)?)
            }
            // As long as for a user that there is, or one with a password of his own.
            first => {
                let known = || first.is_some() && self.verified.knows(user, INITIAL, password);
                let known = password::check_nothing(&self.provers, source, password, known)?;
                let same = password::same(password.as_bytes(), initial.as_bytes());
                (INITIAL, known || first.is_some() && user == ROOT && same)
            }
        };
        if is_right {
            self.verified.remember(user, hash, password);
        }
        Ok(is_right)
    }

    /// How many passwords were not accepted.
    pub fn refused(&self) -> RefusedPasswords {
        RefusedPasswords { wrong: self.wrong.load(Ordering::Relaxed), busy: self.provers.refused() }
    }

    /// Whether a user may use a privilege, which is also known by `groups`, on an object of a kind
    /// in a database.
    pub fn allows(&self, user: &str, wanted: &Grant, groups: &[&str]) -> bool {
        let state = self.state();
        let Some(known) = state.users.get(user) else { return false };
        let public = PUBLIC.to_owned();
        known.roles.iter().chain([&public]).any(|role| {
            role == ADMIN || state.roles.get(role).is_some_and(|r| state.grants(r, wanted, groups))
        })
    }

    /// Whether a user may use a privilege on some object of a kind, in some database.
    pub fn allows_somewhere(
        &self,
        user: &str,
        (kind, privilege): (&str, &str),
        groups: &[&str],
    ) -> bool {
        let state = self.state();
        let Some(known) = state.users.get(user) else { return false };
        let public = PUBLIC.to_owned();
        known.roles.iter().chain([&public]).any(|name| {
            let Some(role) = state.roles.get(name) else { return false };
            // What a grant is about is what is asked for.
            let may = |grant: &Grant| {
                let wanted = Grant {
                    kind: kind.to_owned(),
                    privilege: privilege.to_owned(),
                    ..grant.clone()
                };
                state.grants(role, &wanted, groups)
            };
            name == ADMIN || role.grants.keys().any(may)
        })
    }

    /// Whether there is a user of this name.
    pub fn has_user(&self, user: &str) -> bool {
        self.state().users.contains_key(user)
    }

    /// Names of users.
    pub fn users(&self) -> Vec<String> {
        self.state().users.keys().cloned().collect()
    }

    /// The roles of a user, `None` where there is no such user.
    pub fn roles_of(&self, user: &str) -> Option<BTreeSet<String>> {
        Some(self.state().users.get(user)?.roles.clone())
    }

    /// What a user is for.
    pub fn about_user(&self, user: &str) -> Option<String> {
        Some(self.state().users.get(user)?.description.clone())
    }

    /// All roles, by name.
    pub fn roles(&self) -> Vec<KnownRole> {
        let state = self.state();
        let users = |role: &str| {
            let has = state.users.iter().filter(|(_, user)| user.roles.contains(role));
            has.map(|(name, _)| name.clone()).collect()
        };
        let role = |(name, role): (&String, &model::Role)| KnownRole {
            name: name.clone(),
            description: role.description.clone(),
            users: users(name),
        };
        state.roles.iter().map(role).collect()
    }

    /// What a role may do, each with who granted it.
    ///
    /// # Errors
    /// [`AccessError::NoRole`].
    pub fn grants(&self, role: &str) -> Result<Vec<(Grant, String)>, AccessError> {
        let state = self.state();
        let role = state.roles.get(role).ok_or_else(|| AccessError::no_role(role))?;
        Ok(role.grants.iter().map(|(grant, by)| (grant.clone(), by.clone())).collect())
    }

    /// Groups of privileges that were made, and what is in them.
    pub fn groups(&self) -> Vec<(String, BTreeSet<String>)> {
        let state = self.state();
        state.groups.iter().map(|(name, of)| (name.clone(), of.clone())).collect()
    }

    /// What is in a group that was made.
    pub fn group(&self, name: &str) -> Option<BTreeSet<String>> {
        self.state().groups.get(name).cloned()
    }

    fn state(&self) -> Arc<UsersAndRoles> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a change, saves it, and lets everybody see it.
    fn change(
        &self,
        make: impl FnOnce(&mut UsersAndRoles) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        if !self.writable {
            return Err(AccessError::ReadOnly);
        }
        let _changing: MutexGuard<'_, ()> =
            self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = (*self.state()).clone();
        make(&mut state)?;
        let file = file::encode(&state);
        let (bytes, limit) = (file.len() as u64, file::MAX_BYTES);
        if bytes > limit {
            return Err(AccessError::TooMuch { bytes, limit });
        }
        let change = SharedChange::Access { file: &file };
        let shared = self.shared.as_ref().map(|leadership| leadership.change(change));
        let _under_way = shared.transpose()?;
        self.replace(&file, state)
    }

    /// The same, of a database that several servers have: a change stands in the log that they share
    /// before it is saved.
    #[must_use]
    pub(crate) fn shared_by(mut self, leadership: Arc<Leadership>) -> Self {
        self.shared = Some(leadership);
        self
    }

    /// Waits for a change that is under way, and saves one that stands in the shared log alone.
    ///
    /// # Errors
    /// A disk that still does not take it.
    pub(crate) fn settle(&self) -> Result<(), AccessError> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.behind.load(Ordering::Relaxed) {
            replace_file(&*self.disk, ACCESS_FILE, &file::encode(&self.state()))?;
            self.behind.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes over what the shared log has.
    ///
    /// # Errors
    /// [`AccessError::Shared`] where that is damaged, and a disk that fails.
    pub(crate) fn follow(&self, bytes: &[u8]) -> Result<(), AccessError> {
        let damaged = |why: String| SharedLogError::Damaged { of: "users and roles".into(), why };
        let state = file::decode(bytes).map_err(damaged)?;
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        if file::encode(&self.state()) == bytes {
            return Ok(());
        }
        self.replace(bytes, state)
    }

    /// Saves a state, and lets everybody see it. One that the shared log has cannot be taken back: where
    /// the disk does not take it, it is saved later.
    fn replace(&self, file: &[u8], state: UsersAndRoles) -> Result<(), AccessError> {
        let saved: Result<(), DiskError> = replace_file(&*self.disk, ACCESS_FILE, file);
        self.behind.store(saved.is_err(), Ordering::Relaxed);
        match saved {
            Err(error) if self.shared.is_some() => {
                tracing::warn!("a change of users stands in the shared log alone: {error}");
            }
            saved => saved?,
        }
        self.verified.keep(|user| state.users.contains_key(user));
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
        Ok(())
    }
}

/// Whether bytes are what the file of users and roles holds; for fuzzing.
#[doc(hidden)]
pub fn decodes(bytes: &[u8]) -> bool {
    file::decode(bytes).is_ok()
}
