//! What roles may do: grants, and groups of privileges.

use pipeann_db::access::{ANY, Grant};
use pipeann_db::catalog::limits::DEFAULT_DATABASE;

use super::frontend::Call;
use super::privileges::{
    ALL, GLOBAL, GROUPS, are_mixed, is_earlier_group, is_fixed_group, is_granted_server_wide,
    is_on, is_reserved, is_server_wide, kind_of, known,
};
use crate::proto::common::Status;
use crate::proto::milvus as wire;
use crate::proto::milvus::{OperatePrivilegeGroupType, OperatePrivilegeType};
use crate::status::CallFailure;

fn privilege(grantor: Option<wire::GrantorEntity>) -> Result<String, CallFailure> {
    let name = grantor.and_then(|grantor| grantor.privilege).unwrap_or_default().name;
    match name.as_str() {
        ALL | ANY => Ok(ANY.to_owned()),
        _ => Ok(name),
    }
}

fn check_known(call: &Call, privilege: &str) -> Result<(), CallFailure> {
    let made = || call.database().access().group(privilege).is_some();
    match privilege == ANY || known(privilege) || made() {
        true => Ok(()),
        false => Err(CallFailure::parameter(format!("not found the privilege name[{privilege}]"))),
    }
}

/// The database of a grant, [`ANY`] for what is on the whole server. To grant that on one database is
/// refused: who has it there would have it everywhere, or nowhere.
fn database_of(
    call: &Call,
    privilege: &str,
    given: &str,
    has: bool,
) -> Result<String, CallFailure> {
    let database = call.database_name(given);
    if database == ANY || !is_granted_server_wide(call.database().access(), privilege) {
        return Ok(database.to_owned());
    }
    // Requests by the kind of object mostly name none.
    if given.is_empty() && database == DEFAULT_DATABASE {
        return Ok(ANY.to_owned());
    }
    match has {
        false => Ok(database.to_owned()),
        true => Err(CallFailure::parameter(format!(
            "dbName and collectionName should be * for the cluster level privilege: {privilege}"
        ))),
    }
}

/// Refuses to grant every privilege by a word that is a group's name too: earlier versions let one be made, and
/// who grants it means what is in it.
fn check_meant(call: &Call, privilege: &str, has: bool) -> Result<(), CallFailure> {
    if !has || privilege != ANY || call.database().access().group(ALL).is_none() {
        return Ok(());
    }
    Err(CallFailure::parameter(format!(
        "{ALL} stands for every privilege, and is the name of a privilege group here: drop that group first"
    )))
}

fn named(name: String) -> String {
    if name.is_empty() { ANY.to_owned() } else { name }
}

/// By the kind of object that it is on.
pub(super) fn operate(
    call: &Call,
    request: wire::OperatePrivilegeRequest,
) -> Result<Status, CallFailure> {
    let has = request.r#type() == OperatePrivilegeType::Grant;
    let entity = request.entity.unwrap_or_default();
    let kind = entity.object.unwrap_or_default().name;
    if !["Collection", "Global", "User"].contains(&kind.as_str()) {
        return Err(CallFailure::parameter(format!("not found the object type[name: {kind}]")));
    }
    let privilege = privilege(entity.grantor)?;
    check_known(call, &privilege)?;
    check_meant(call, &privilege, has)?;
    if has {
        check_kind(&privilege, &kind)?;
    }
    let database = database_of(call, &privilege, &entity.db_name, has)?;
    let is_global = kind == GLOBAL && !is_earlier_group(&privilege);
    // What is global is on all objects, whatever was named.
    let object = if is_global && has { ANY.to_owned() } else { named(entity.object_name) };
    // All that there is globally is all that there is.
    let kind = if privilege == ANY && is_global { ANY.to_owned() } else { kind };
    let role = entity.role.unwrap_or_default().name;
    let grant = Grant { kind, object, privilege, database };
    match has {
        true => call.database().access().set_grant(&role, grant, call.user(), true)?,
        false => take(call, &role, &grant, is_global)?,
    }
    Ok(Status::default())
}

/// Grants by the kind of object are of single privileges on objects of this kind, or of the groups that
/// there were before there were others.
fn check_kind(privilege: &str, kind: &str) -> Result<(), CallFailure> {
    if privilege == ANY || is_earlier_group(privilege) {
        return Ok(());
    }
    let why = match (is_fixed_group(privilege), known(privilege)) {
        (true, _) => format!("can not operate the built-in privilege group [{privilege}]"),
        (false, false) => format!("can not operate the custom privilege group [{privilege}]"),
        (false, true) if is_on(privilege, kind) => return Ok(()),
        (false, true) => format!("not found the privilege name[{privilege}] in object[{kind}]"),
    };
    Err(CallFailure::parameter(why))
}

/// Takes a right, in whatever form it was granted: under any kind of object, as earlier versions let it be;
/// what is on the whole server also in one database, where it does not count; and where it `is_global`, of
/// all objects beside that which is named.
fn take(call: &Call, role: &str, asked: &Grant, is_global: bool) -> Result<(), CallFailure> {
    let access = call.database().access();
    let everywhere = asked.database == ANY && is_granted_server_wide(access, &asked.privilege);
    access.take_grants(role, |there| {
        let mut there = there.clone();
        if everywhere {
            ANY.clone_into(&mut there.database);
        }
        if is_global && there.object == ANY {
            there.object.clone_from(&asked.object);
        }
        asked.takes(&there)
    })?;
    Ok(())
}

/// By collection and database, either of them `*` for all.
pub(super) fn operate_by_collection(
    call: &Call,
    request: wire::OperatePrivilegeV2Request,
) -> Result<Status, CallFailure> {
    let has = request.r#type() == OperatePrivilegeType::Grant;
    let privilege = privilege(request.grantor)?;
    check_known(call, &privilege)?;
    check_meant(call, &privilege, has)?;
    let grant = Grant {
        kind: kind_of(&privilege).to_owned(),
        object: named(request.collection_name),
        database: database_of(call, &privilege, &request.db_name, has)?,
        privilege,
    };
    let role = request.role.unwrap_or_default().name;
    match has {
        true => call.database().access().set_grant(&role, grant, call.user(), true)?,
        false => take(call, &role, &grant, false)?,
    }
    Ok(Status::default())
}

/// The grants of a role, of one object where it is named.
pub(super) fn select(
    call: &Call,
    request: wire::SelectGrantRequest,
) -> Result<wire::SelectGrantResponse, CallFailure> {
    let entity = request.entity.unwrap_or_default();
    let role = entity.role.unwrap_or_default();
    let kind = entity.object.unwrap_or_default().name;
    let is = |asked: &str, found: &str| asked.is_empty() || asked == found || found == ANY;
    let wanted = |(grant, _): &(Grant, String)| {
        is(&kind, &grant.kind)
            && is(&entity.object_name, &grant.object)
            && (entity.db_name == ANY || is(&entity.db_name, &grant.database))
    };
    let shown = |(grant, by): (Grant, String)| wire::GrantEntity {
        role: Some(role.clone()),
        object: Some(wire::ObjectEntity { name: grant.kind }),
        object_name: grant.object,
        grantor: Some(wire::GrantorEntity {
            user: Some(wire::UserEntity { name: by }),
            privilege: Some(wire::PrivilegeEntity { name: grant.privilege }),
        }),
        db_name: grant.database,
    };
    let found = call.database().access().grants(&role.name)?;
    let entities = found.into_iter().filter(wanted).map(shown).collect();
    Ok(wire::SelectGrantResponse { entities, ..Default::default() })
}

pub(super) fn create_group(
    call: &Call,
    request: wire::CreatePrivilegeGroupRequest,
) -> Result<Status, CallFailure> {
    if known(&request.group_name) || is_reserved(&request.group_name) {
        let name = request.group_name;
        return Err(CallFailure::parameter(format!(
            "privilege group name [{name}] is defined by built in privileges or privilege groups"
        )));
    }
    call.database().access().create_group(&request.group_name)?;
    Ok(Status::default())
}

pub(super) fn drop_group(
    call: &Call,
    request: wire::DropPrivilegeGroupRequest,
) -> Result<Status, CallFailure> {
    call.database().access().drop_group(&request.group_name)?;
    Ok(Status::default())
}

/// Those that were made, and those that there always are.
pub(super) fn list_groups(
    call: &Call,
    _request: wire::ListPrivilegeGroupsRequest,
) -> Result<wire::ListPrivilegeGroupsResponse, CallFailure> {
    let entity = |name: &str| wire::PrivilegeEntity { name: name.to_owned() };
    let fixed = GROUPS.iter().map(|(name, privileges)| wire::PrivilegeGroupInfo {
        group_name: (*name).to_owned(),
        privileges: privileges.iter().copied().flatten().map(|name| entity(name)).collect(),
    });
    let made = call.database().access().groups().into_iter();
    let made = made.map(|(group_name, privileges)| wire::PrivilegeGroupInfo {
        group_name,
        privileges: privileges.iter().map(|name| entity(name)).collect(),
    });
    let privilege_groups = made.chain(fixed).collect();
    Ok(wire::ListPrivilegeGroupsResponse { privilege_groups, ..Default::default() })
}

pub(super) fn operate_group(
    call: &Call,
    request: wire::OperatePrivilegeGroupRequest,
) -> Result<Status, CallFailure> {
    let has = request.r#type() == OperatePrivilegeGroupType::AddPrivilegesToGroup;
    let names: Vec<String> = request.privileges.into_iter().map(|p| p.name).collect();
    if let Some(name) = names.iter().find(|name| !known(name)) {
        return Err(CallFailure::parameter(format!("there is no privilege name [{name}] defined")));
    }
    if has {
        check_level(call, &request.group_name, &names)?;
    }
    call.database().access().set_group(&request.group_name, &names, has)?;
    Ok(Status::default())
}

/// Refuses to put what is on the whole server beside what is in databases, or into a group that a role has
/// in one database: there it would be granted and never count.
fn check_level(call: &Call, group: &str, names: &[String]) -> Result<(), CallFailure> {
    let access = call.database().access();
    let within = access.group(group).unwrap_or_default();
    let all = || within.iter().chain(names).map(String::as_str);
    if are_mixed(all()) {
        return Err(CallFailure::parameter(format!(
            "privileges of the cluster level and of others cannot be in one privilege group [{group}]"
        )));
    }
    if !all().any(is_server_wide) {
        return Ok(());
    }
    for role in access.roles() {
        let grants = access.grants(&role.name).unwrap_or_default();
        let of_group = |grant: &Grant| grant.privilege == group && grant.database != ANY;
        if let Some((grant, _)) = grants.iter().find(|(grant, _)| of_group(grant)) {
            return Err(CallFailure::parameter(format!(
                "role [{}] has privilege group [{group}] in database [{}], where no privilege of the cluster \
                 level counts: revoke it first",
                role.name, grant.database
            )));
        }
    }
    Ok(())
}
