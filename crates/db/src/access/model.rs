//! Users, roles, grants and groups, as they stand in memory and in the file.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The user that is always there.
pub const ROOT: &str = "root";
/// The role that may do everything.
pub const ADMIN: &str = "admin";
/// The role of everybody who is known.
pub const PUBLIC: &str = "public";
/// Any object, any database, any privilege.
pub const ANY: &str = "*";
/// What everybody may do everywhere until it is taken from [`PUBLIC`]: kinds of objects and privileges,
/// in the names of the door. They tell what there is.
pub const FIRST_OF_PUBLIC: &[(&str, &str)] = &[
    ("Global", "DescribeCollection"),
    ("Global", "ShowCollections"),
    ("Global", "ListDatabases"),
    ("Global", "GetLoadState"),
    ("Global", "GetLoadingProgress"),
    ("Global", "DescribeAlias"),
    ("Global", "ListAliases"),
    ("Collection", "IndexDetail"),
];

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct User {
    /// A hash with its salt; none of `root` as long as it has the first password.
    pub(super) password: Option<String>,
    pub(super) description: String,
    pub(super) roles: BTreeSet<String>,
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Role {
    pub(super) description: String,
    /// Each with who granted it.
    #[serde(with = "pairs")]
    pub(super) grants: BTreeMap<Grant, String>,
}

/// A privilege on something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Kind of object that the privilege is on.
    pub kind: String,
    /// Name of the object; [`ANY`] for all.
    pub object: String,
    /// The privilege, or a group of privileges; [`ANY`] for all.
    pub privilege: String,
    /// The database; [`ANY`] for all.
    pub database: String,
}

impl Grant {
    /// Whether to take this right is to take that one. The kind of object tells them apart only where they
    /// are of every privilege on it: any other one is what it is, under whichever kind it was granted.
    pub fn takes(&self, there: &Self) -> bool {
        let of_kind = self.privilege != ANY || self.kind == ANY || self.kind == there.kind;
        self.object == there.object
            && self.privilege == there.privilege
            && self.database == there.database
            && of_kind
    }

    /// Whether it is of what is wanted, whatever the privilege.
    fn is_of(&self, wanted: &Self) -> bool {
        let is = |mine: &str, wanted: &str| mine == ANY || mine == wanted;
        is(&self.object, &wanted.object) && is(&self.database, &wanted.database)
    }

    /// Whether it is of every privilege on objects of a kind.
    fn is_all(&self, kind: &str) -> bool {
        self.privilege == ANY && (self.kind == ANY || self.kind == kind)
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsersAndRoles {
    pub(super) users: BTreeMap<String, User>,
    pub(super) roles: BTreeMap<String, Role>,
    /// Groups of privileges.
    pub(super) groups: BTreeMap<String, BTreeSet<String>>,
}

impl UsersAndRoles {
    /// What there always is.
    pub(super) fn new() -> Self {
        let root = User { roles: BTreeSet::from([ADMIN.to_owned()]), ..User::default() };
        let roles = [ADMIN, PUBLIC].map(|role| (role.to_owned(), Role::default()));
        let mut state = Self {
            users: BTreeMap::from([(ROOT.to_owned(), root)]),
            roles: BTreeMap::from(roles),
            groups: BTreeMap::new(),
        };
        state.grant_public();
        state
    }

    /// Gives everybody what everybody has at first.
    pub(super) fn grant_public(&mut self) {
        let public = self.roles.entry(PUBLIC.to_owned()).or_default();
        public.grants.extend(FIRST_OF_PUBLIC.iter().map(|(kind, privilege)| {
            let [kind, privilege] = [*kind, *privilege].map(str::to_owned);
            let [object, database] = [ANY, ANY].map(str::to_owned);
            (Grant { kind, object, privilege, database }, ROOT.to_owned())
        }));
    }

    /// Whether it has what there always is.
    pub(super) fn is_whole(&self) -> bool {
        let root = self.users.get(ROOT).is_some_and(|root| root.roles.contains(ADMIN));
        root && [ADMIN, PUBLIC].iter().all(|role| self.roles.contains_key(*role))
            && self.users.iter().all(|(name, user)| name == ROOT || user.password.is_some())
    }

    /// Whether a role may do what is wanted.
    pub(super) fn grants(&self, role: &Role, wanted: &Grant, groups: &[&str]) -> bool {
        let has = |privilege: &str| {
            let made = self.groups.get(privilege);
            privilege == wanted.privilege
                || groups.contains(&privilege)
                || made.is_some_and(|group| group.contains(&wanted.privilege))
        };
        role.grants.keys().any(|grant| {
            grant.is_of(wanted) && (grant.is_all(&wanted.kind) || has(&grant.privilege))
        })
    }
}

/// Maps whose keys are no texts, as lists of pairs.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::Grant;

    pub(super) fn serialize<S: Serializer>(
        grants: &BTreeMap<Grant, String>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(grants)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Grant, String>, D::Error> {
        Ok(Vec::<(Grant, String)>::deserialize(from)?.into_iter().collect())
    }
}
