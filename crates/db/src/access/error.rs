//! Why users, roles or grants are not changed, or not read.

use std::path::PathBuf;

use crate::disk::DiskError;
use crate::ids::ErrorClass;
use crate::replication::SharedLogError;

/// See the module's description.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// No user of this name.
    #[error("not found the user, maybe the user isn't existed or internal system error: {user}")]
    NoUser {
        /// The name.
        user: String,
    },
    /// No role of this name.
    #[error("not found the role, maybe the role isn't existed or internal system error: {role}")]
    NoRole {
        /// The name.
        role: String,
    },
    /// No group of privileges of this name.
    #[error("there is no privilege group name [{group}] to operate")]
    NoGroup {
        /// The name.
        group: String,
    },
    /// Something of this name is there already.
    #[error("{what} already exists: {name}")]
    Exists {
        /// A user, a role or a group.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that is none.
    #[error("{}", name_words(what, name, further))]
    Name {
        /// A user, a role or a group.
        what: &'static str,
        /// The name.
        name: String,
        /// What such a name may have beside letters, digits and underscores.
        further: &'static str,
    },
    /// A password that is too short or too long.
    #[error(
        "invalid password: the length of a password must be in the range [{least}, {most}], it is {found}"
    )]
    Password {
        /// The shortest.
        least: usize,
        /// The longest.
        most: usize,
        /// Of this one.
        found: usize,
    },
    /// The password that was to be changed is another one.
    #[error("old password not correct for {user}: not authenticated")]
    WrongPassword {
        /// The user.
        user: String,
    },
    /// `root`, `admin` and `public` stay.
    #[error("{what} {name} is built in and cannot be dropped or changed so")]
    BuiltIn {
        /// A user or a role.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Something has it still.
    #[error("fail to drop {what} {name}: it has {by}")]
    InUse {
        /// A role or a group.
        what: &'static str,
        /// The name.
        name: String,
        /// What has it.
        by: &'static str,
    },
    /// More users, roles, grants and descriptions than are read again.
    #[error("users, roles and what is said of them would take {bytes} bytes, at most {limit}")]
    TooMuch {
        /// Bytes of the file.
        bytes: u64,
        /// The most.
        limit: u64,
    },
    /// The database was opened for reading only.
    #[error("the database is open for reading only; change users where it is open for writing")]
    ReadOnly,
    /// Too many passwords wait to be looked at.
    #[error("too many passwords wait to be checked; try again")]
    Busy,
    /// No hash of a password can be made.
    #[error("the password cannot be hashed: the system gives no randomness or no memory")]
    Hash,
    /// The file is not what was written.
    #[error("{}: {why}; nobody is let in", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The change could not be put into the log that servers share, or what came from there is
    /// damaged.
    #[error(transparent)]
    Shared(#[from] SharedLogError),
}

/// What is wrong with a name.
fn name_words(what: &str, name: &str, further: &str) -> String {
    let quoted: Vec<String> = further.chars().map(|c| format!(", `{c}`")).collect();
    format!(
        "invalid {what} name `{name}`: 1 to 255 letters, digits, underscores{}, the first one a letter or \
         an underscore",
        quoted.concat()
    )
}

impl AccessError {
    pub(super) fn no_user(user: &str) -> Self {
        Self::NoUser { user: user.to_owned() }
    }

    pub(super) fn no_role(role: &str) -> Self {
        Self::NoRole { role: role.to_owned() }
    }

    /// Whether to retry, to fix the input, or to stop.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Busy | Self::Hash => ErrorClass::Retry,
            Self::Damaged { .. } => ErrorClass::Stop,
            Self::Disk(error) => error.class(),
            Self::Shared(error) => error.class(),
            _ => ErrorClass::FixInput,
        }
    }
}
