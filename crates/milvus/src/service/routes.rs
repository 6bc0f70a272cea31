//! Where each call is answered, when a server is one of several.

/// One call of the service.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedCall {
    pub(super) name: &'static str,
    pub(super) route: Route,
    /// What of it is not served: nothing where it is empty.
    pub(super) but: &'static str,
}

/// Calls that change something in one piece: one that comes twice by one id is applied once.
const APPLIED_ONCE: &[&str] = &[
    "CreateDatabase",
    "DropDatabase",
    "AlterDatabase",
    "CreateCollection",
    "DropCollection",
    "RenameCollection",
    "AlterCollectionField",
    "AddCollectionField",
    "TruncateCollection",
    "CreatePartition",
    "DropPartition",
    "CreateAlias",
    "DropAlias",
    "AlterAlias",
    "AlterIndex",
    "DropIndex",
    "Insert",
    "Upsert",
    "Delete",
    "CreateCredential",
    "UpdateCredential",
    "DeleteCredential",
    "CreateRole",
    "DropRole",
    "OperateUserRole",
    "OperatePrivilege",
    "OperatePrivilegeV2",
    "CreatePrivilegeGroup",
    "DropPrivilegeGroup",
    "OperatePrivilegeGroup",
];

/// Those of them that write rows: their answers have counts and keys.
pub(super) const WRITES: &[&str] = &["Insert", "Upsert", "Delete"];

/// Calls after which something is otherwise that servers know and do not look up anew. They are answered
/// when all servers know.
const TAKES_AWAY: &[&str] = &[
    "DropDatabase",
    "DropCollection",
    "RenameCollection",
    "AlterCollection",
    "AlterCollectionField",
    "AddCollectionField",
    "TruncateCollection",
    "ReleaseCollection",
    "DropPartition",
    "ReleasePartitions",
    "CreateAlias",
    "DropAlias",
    "AlterAlias",
    "DropIndex",
    "UpdateCredential",
    "DeleteCredential",
    "DropRole",
    "OperateUserRole",
    "OperatePrivilege",
    "OperatePrivilegeV2",
    "DropPrivilegeGroup",
    "OperatePrivilegeGroup",
];

impl ServedCall {
    /// Whether it changes something in one piece.
    pub(super) fn is_applied_once(&self) -> bool {
        APPLIED_ONCE.contains(&self.name)
    }

    /// Whether all servers have to know of it before it is answered.
    pub(super) fn takes_away(&self) -> bool {
        TAKES_AWAY.contains(&self.name)
    }
}

/// Where a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// By the server that is asked, from its own data, when that is new enough.
    Local(LocalRead),
    /// By the server that leads.
    Leader,
    /// By the server that is asked: it is about the process.
    Process,
}

/// What a call that is answered here reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalRead {
    /// Names and what belongs to them: as new as anything that was answered.
    Catalogue,
    /// Whether there is the database that is named beside the request: looked up anew where it is not
    /// known.
    Database,
    /// How many rows there are: likewise.
    Counts,
    /// Rows: as new as the request asks for.
    Rows,
}

impl Route {
    /// As the page says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Local(_) => "local",
            Self::Leader => "forwarded",
            Self::Process => "process",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::called;
    use super::*;

    #[test]
    fn calls_are_named_as_they_are_served() {
        for name in [APPLIED_ONCE, WRITES, TAKES_AWAY].concat() {
            let call = called(name).unwrap_or_else(|| panic!("{name} is not served"));
            assert_eq!(call.route, Route::Leader, "{name}");
        }
        assert!(WRITES.iter().all(|name| APPLIED_ONCE.contains(name)));
    }
}
