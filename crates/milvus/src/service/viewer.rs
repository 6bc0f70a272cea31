//! Who looks at what there is, and what of it he may see: name by name, by the grants of his roles.

use pipeann_db::access::{ANY, Access, Grant, PUBLIC};
use pipeann_db::catalog::Snapshot;
use tonic::Status;

use super::aim::Aimed;
use super::privileges::{COLLECTION, denied, groups_with, is_granted_server_wide};

/// Either of these shows that a collection is there.
const SHOWING: [&str; 2] = ["DescribeCollection", "ShowCollections"];

/// Who looks at what there is.
pub(super) struct Viewer<'c> {
    pub(super) access: &'c Access,
    pub(super) user: &'c str,
    /// That of the call, if it is one that tells what there is.
    pub(super) privilege: Option<&'static str>,
}

impl Viewer<'_> {
    fn allows(&self, privilege: &str, database: &str, object: &str) -> bool {
        let wanted = Grant {
            kind: COLLECTION.to_owned(),
            object: object.to_owned(),
            privilege: privilege.to_owned(),
            database: database.to_owned(),
        };
        self.access.allows(self.user, &wanted, &groups_with(privilege))
    }

    fn is_shown(&self, database: &str, collection: &str) -> bool {
        SHOWING.iter().any(|privilege| self.allows(privilege, database, collection))
    }

    /// Whether the call may tell of a collection. One that lists them tells of all that are shown.
    pub(super) fn sees(&self, database: &str, collection: &str) -> bool {
        match self.privilege {
            Some("ShowCollections") | None => self.is_shown(database, collection),
            Some(own) => self.allows(own, database, collection),
        }
    }

    /// Whether the call may tell of every collection of a database.
    pub(super) fn sees_all_of(&self, database: &str) -> bool {
        self.sees(database, ANY)
    }

    /// Whether the call may tell of a database: to whom they are all shown, and to whoever has a right
    /// in it, by name or, beside what everybody has, in all databases.
    pub(super) fn sees_database(&self, database: &str) -> bool {
        let is_within = |role: &str| {
            let grants = self.access.grants(role).unwrap_or_default();
            grants.iter().any(|(grant, _)| {
                let in_all = || !is_granted_server_wide(self.access, &grant.privilege);
                grant.database == database || role != PUBLIC && grant.database == ANY && in_all()
            })
        };
        self.allows("ListDatabases", ANY, ANY)
            || self.allows("DescribeDatabase", database, ANY)
            || self
                .access
                .roles_of(self.user)
                .unwrap_or_default()
                .iter()
                .any(|role| is_within(role))
            || is_within(PUBLIC)
    }

    /// Refuses a call about a collection that its caller knows of, and may not be told this of. Whatever
    /// else he may not see is passed over where it is looked for.
    pub(super) fn check(
        &self,
        catalog: &Snapshot,
        request: &impl Aimed,
        named: &str,
    ) -> Result<(), Status> {
        let Some(privilege) = self.privilege else { return Ok(()) };
        let (given, objects) = request.aim();
        let database = if given.is_empty() { named } else { given };
        for object in objects.into_iter().filter(|object| !object.is_empty()) {
            let Ok(entry) = catalog.collection(database, object) else { continue };
            let may = self.allows(privilege, database, &entry.name);
            if !may && self.is_shown(database, &entry.name) {
                return Err(denied(privilege, self.user, database));
            }
        }
        Ok(())
    }
}
