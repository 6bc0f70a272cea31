//! Users, roles and what roles may do; saved as one file of the database.
//!
//! Privileges are names here: a door says which one a call needs, and of what. Roles have privileges
//! by grants, on an object of a kind in a database, where `*` stands for any. `admin` may do
//! everything; whoever is known has the role `public`. There is always a user `root` with the role
//! `admin`; where no file says otherwise its password is that which the door names.
//!
//! Each change is on stable storage before it is answered. A file that is damaged lets nobody in.
//! Backups leave it out: they carry data, and not who may read it.

mod change;
mod error;
mod file;
mod model;
mod password;
#[cfg(test)]
mod tests;

pub use error::AccessError;
pub use file::ACCESS_FILE;
pub use model::{ADMIN, ANY, Grant, PUBLIC, ROOT};

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use self::model::State;
use self::password::Verified;
use crate::disk::{Disk, DiskError, read_file, replace_file};

/// See the module's description. Shared between threads by reference.
pub struct Access {
    disk: Arc<dyn Disk>,
    writable: bool,
    state: RwLock<Arc<State>>,
    /// Held while it changes.
    changing: Mutex<()>,
    verified: Verified,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("writable", &self.writable).finish_non_exhaustive()
    }
}

impl Access {
    /// What the file says; where there is none, nobody but `root`.
    pub(crate) fn open(disk: Arc<dyn Disk>, writable: bool) -> Result<Self, AccessError> {
        let state = match read_file(&*disk, ACCESS_FILE, file::MAX_BYTES) {
            Ok(bytes) => file::decode(&bytes)
                .map_err(|why| AccessError::Damaged { path: disk.locate(ACCESS_FILE), why })?,
            Err(error) if error.is_not_found() => State::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            disk,
            writable,
            state: RwLock::new(Arc::new(state)),
            changing: Mutex::new(()),
            verified: Verified::default(),
        })
    }

    /// Whether this is the password of the user. `root` has `initial` until it is given another one.
    ///
    /// A password that was right is remembered, without being kept, since proving it takes long.
    pub fn authenticates(&self, user: &str, password: &str, initial: &str) -> bool {
        let state = self.state();
        match state.users.get(user) {
            None => {
                // As long as for a user that there is.
                password::check_nothing(password);
                false
            }
            Some(found) => match &found.password {
                None => user == ROOT && password::same(password.as_bytes(), initial.as_bytes()),
                Some(hash) => self.verified.check(user, hash, password),
            },
        }
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

    /// Names of roles, each with what it is for and its users.
    pub fn roles(&self) -> Vec<(String, String, Vec<String>)> {
        let state = self.state();
        let users = |role: &str| {
            let has = state.users.iter().filter(|(_, user)| user.roles.contains(role));
            has.map(|(name, _)| name.clone()).collect()
        };
        let role = |(name, role): (&String, &model::Role)| {
            (name.clone(), role.description.clone(), users(name))
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

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a change, saves it, and lets everybody see it.
    fn change(
        &self,
        make: impl FnOnce(&mut State) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        if !self.writable {
            return Err(AccessError::ReadOnly);
        }
        let _changing: MutexGuard<'_, ()> =
            self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = (*self.state()).clone();
        make(&mut state)?;
        let saved: Result<(), DiskError> =
            replace_file(&*self.disk, ACCESS_FILE, &file::encode(&state));
        saved?;
        self.verified.forget();
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
        Ok(())
    }
}

/// Whether bytes are what the file of users and roles holds; for fuzzing.
#[doc(hidden)]
pub fn decodes(bytes: &[u8]) -> bool {
    file::decode(bytes).is_ok()
}
