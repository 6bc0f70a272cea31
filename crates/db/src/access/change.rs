//! Changes of users, roles and grants.

use super::model::{ADMIN, Grant, PUBLIC, ROOT, Role, User, UsersAndRoles};
use super::proving::ProofBusy;
use super::{Access, AccessError, Proof, password};

/// Bytes of a password.
const LEAST_PASSWORD: usize = 6;
const MOST_PASSWORD: usize = 72;
/// Bytes of a name.
const MOST_NAME: usize = 255;
/// What names may have beside letters, digits and underscores.
const IN_USER_NAMES: &str = ".-";
const IN_ROLE_NAMES: &str = "$-";

impl Access {
    /// Adds a user.
    ///
    /// # Errors
    /// [`AccessError`]; then there is no new user.
    pub fn create_user(&self, user: &str, password: &str) -> Result<(), AccessError> {
        check_name("user", user, IN_USER_NAMES)?;
        let hash = self.hash(password)?;
        self.change(|state| {
            if state.users.contains_key(user) {
                return Err(AccessError::Exists { what: "user", name: user.to_owned() });
            }
            state.users.insert(user.to_owned(), User { password: Some(hash), ..User::default() });
            Ok(())
        })
    }

    /// Gives a user another password; `old` is not asked for where it is none.
    ///
    /// # Errors
    /// [`AccessError`]; then the password is what it was.
    pub fn set_password(
        &self,
        user: &str,
        old: Option<(&str, &str)>,
        new: &str,
    ) -> Result<(), AccessError> {
        if !self.state().users.contains_key(user) {
            return Err(AccessError::no_user(user));
        }
        match old.map(|(old, initial)| self.authenticates(user, old, initial)) {
            None | Some(Proof::Right) => {}
            Some(Proof::Wrong) => {
                return Err(AccessError::WrongPassword { user: user.to_owned() });
            }
            Some(Proof::Busy) => return Err(AccessError::Busy),
        }
        let hash = self.hash(new)?;
        self.change(|state| {
            let found = state.users.get_mut(user).ok_or_else(|| AccessError::no_user(user))?;
            found.password = Some(hash);
            Ok(())
        })
    }

    /// Says what a user is for.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn describe_user(&self, user: &str, description: &str) -> Result<(), AccessError> {
        self.change(|state| {
            let found = state.users.get_mut(user).ok_or_else(|| AccessError::no_user(user))?;
            description.clone_into(&mut found.description);
            Ok(())
        })
    }

    /// Takes a user away; one that is not there is fine.
    ///
    /// # Errors
    /// [`AccessError`]; then the user is still there.
    pub fn drop_user(&self, user: &str) -> Result<(), AccessError> {
        if user == ROOT {
            return Err(AccessError::BuiltIn { what: "user", name: user.to_owned() });
        }
        self.change(|state| {
            state.users.remove(user);
            Ok(())
        })
    }

    /// Adds a role.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn create_role(&self, role: &str, description: &str) -> Result<(), AccessError> {
        check_name("role", role, IN_ROLE_NAMES)?;
        self.change(|state| {
            if state.roles.contains_key(role) {
                return Err(AccessError::Exists { what: "role", name: role.to_owned() });
            }
            let description = description.to_owned();
            state.roles.insert(role.to_owned(), Role { description, ..Role::default() });
            Ok(())
        })
    }

    /// Takes a role away, by `force` also one with grants. Users lose it.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn drop_role(&self, role: &str, force: bool) -> Result<(), AccessError> {
        if [ADMIN, PUBLIC].contains(&role) {
            return Err(AccessError::BuiltIn { what: "role", name: role.to_owned() });
        }
        self.change(|state| {
            let found = role_of(state, role)?;
            if !found.grants.is_empty() && !force {
                let (what, name) = ("role", role.to_owned());
                return Err(AccessError::InUse { what, name, by: "privileges, revoke them first" });
            }
            state.roles.remove(role);
            for user in state.users.values_mut() {
                user.roles.remove(role);
            }
            Ok(())
        })
    }

    /// Gives a role to a user, or takes it.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn set_role(&self, user: &str, role: &str, has: bool) -> Result<(), AccessError> {
        if (user, role, has) == (ROOT, ADMIN, false) {
            return Err(AccessError::BuiltIn { what: "user", name: user.to_owned() });
        }
        self.change(|state| {
            role_of(state, role)?;
            let found = state.users.get_mut(user).ok_or_else(|| AccessError::no_user(user))?;
            match has {
                true => found.roles.insert(role.to_owned()),
                false => found.roles.remove(role),
            };
            Ok(())
        })
    }

    /// Grants something to a role, or takes it, under whichever kind of object it was granted. What is so
    /// already is fine.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn set_grant(
        &self,
        role: &str,
        grant: Grant,
        by: &str,
        has: bool,
    ) -> Result<(), AccessError> {
        if !has {
            return self.take_grants(role, |there| grant.takes(there));
        }
        check_grants_of(role)?;
        self.change(|state| {
            role_of(state, role)?.grants.insert(grant, by.to_owned());
            Ok(())
        })
    }

    /// Takes from a role the grants that are `meant`, of which there may be none.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn take_grants(
        &self,
        role: &str,
        meant: impl Fn(&Grant) -> bool,
    ) -> Result<(), AccessError> {
        check_grants_of(role)?;
        self.change(|state| {
            role_of(state, role)?.grants.retain(|grant, _| !meant(grant));
            Ok(())
        })
    }

    /// Adds an empty group of privileges.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn create_group(&self, group: &str) -> Result<(), AccessError> {
        check_name("privilege group", group, "")?;
        self.change(|state| {
            if state.groups.contains_key(group) {
                let name = group.to_owned();
                return Err(AccessError::Exists { what: "privilege group", name });
            }
            state.groups.insert(group.to_owned(), Default::default());
            Ok(())
        })
    }

    /// Takes a group away; one that is not there is fine.
    ///
    /// # Errors
    /// [`AccessError::InUse`] where a role has it.
    pub fn drop_group(&self, group: &str) -> Result<(), AccessError> {
        self.change(|state| {
            let grants = state.roles.values().flat_map(|role| role.grants.keys());
            if grants.into_iter().any(|grant| grant.privilege == group) {
                let (what, name) = ("privilege group", group.to_owned());
                return Err(AccessError::InUse { what, name, by: "grants, revoke them first" });
            }
            state.groups.remove(group);
            Ok(())
        })
    }

    /// Puts privileges into a group, or takes them out.
    ///
    /// # Errors
    /// [`AccessError::NoGroup`].
    pub fn set_group(
        &self,
        group: &str,
        privileges: &[String],
        has: bool,
    ) -> Result<(), AccessError> {
        self.change(|state| {
            let missing = || AccessError::NoGroup { group: group.to_owned() };
            let found = state.groups.get_mut(group).ok_or_else(missing)?;
            for privilege in privileges {
                match has {
                    true => found.insert(privilege.clone()),
                    false => found.remove(privilege),
                };
            }
            Ok(())
        })
    }

    fn hash(&self, password: &str) -> Result<String, AccessError> {
        let found = password.len();
        if !(LEAST_PASSWORD..=MOST_PASSWORD).contains(&found) {
            let (least, most) = (LEAST_PASSWORD, MOST_PASSWORD);
            return Err(AccessError::Password { least, most, found });
        }
        let hash =
            password::hash(&self.provers, password).map_err(|ProofBusy| AccessError::Busy)?;
        hash.ok_or(AccessError::Hash)
    }
}

fn role_of<'s>(state: &'s mut UsersAndRoles, role: &str) -> Result<&'s mut Role, AccessError> {
    state.roles.get_mut(role).ok_or_else(|| AccessError::no_role(role))
}

/// What `admin` may do is not changed.
fn check_grants_of(role: &str) -> Result<(), AccessError> {
    match role {
        ADMIN => Err(AccessError::BuiltIn { what: "role", name: role.to_owned() }),
        _ => Ok(()),
    }
}

/// A name of letters, digits, underscores and what else such names may have, as in Milvus.
fn check_name(what: &'static str, name: &str, further: &'static str) -> Result<(), AccessError> {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let fits = name.len() <= MOST_NAME
        && name.starts_with(is_letter)
        && name.chars().all(|c| is_letter(c) || c.is_ascii_digit() || further.contains(c));
    if fits { Ok(()) } else { Err(AccessError::Name { what, name: name.to_owned(), further }) }
}
