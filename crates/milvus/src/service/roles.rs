//! Roles, and the one resource group, which some clients look for beside them.

use pipeann_db::access::KnownRole;

use super::frontend::Call;
use crate::proto::common::Status;
use crate::proto::milvus as wire;
use crate::status::CallFailure;

pub(super) const RESOURCE_GROUP: &str = "__default_resource_group";

pub(super) fn create(call: &Call, request: wire::CreateRoleRequest) -> Result<Status, CallFailure> {
    let role = request.entity.unwrap_or_default();
    call.database().access().create_role(&role.name, &role.description)?;
    Ok(Status::default())
}

pub(super) fn drop(call: &Call, request: wire::DropRoleRequest) -> Result<Status, CallFailure> {
    call.database().access().drop_role(&request.role_name, request.force_drop)?;
    Ok(Status::default())
}

/// One role, if there is one of this name, or all of them, with their users where they are asked for.
pub(super) fn select(
    call: &Call,
    request: wire::SelectRoleRequest,
) -> Result<wire::SelectRoleResponse, CallFailure> {
    let asked = request.role.map(|role| role.name).filter(|name| !name.is_empty());
    let mut known = call.database().access().roles();
    if let Some(role) = asked {
        known.retain(|known| known.name == role);
    }
    let users = |users: Vec<String>| {
        let users = users.into_iter().filter(|_| request.include_user_info);
        users.map(|name| wire::UserEntity { name }).collect()
    };
    let result = |known: KnownRole| wire::RoleResult {
        role: Some(wire::RoleEntity { name: known.name, description: known.description }),
        users: users(known.users),
    };
    let results = known.into_iter().map(result).collect();
    Ok(wire::SelectRoleResponse { results, ..Default::default() })
}

pub(super) fn resource_groups(
    _call: &Call,
    _request: wire::ListResourceGroupsRequest,
) -> Result<wire::ListResourceGroupsResponse, CallFailure> {
    let resource_groups = vec![RESOURCE_GROUP.to_owned()];
    Ok(wire::ListResourceGroupsResponse { resource_groups, ..Default::default() })
}
