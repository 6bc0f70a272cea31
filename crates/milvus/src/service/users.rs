//! Users, roles and resource groups, of which there is one each, for clients that look for them.

use super::door::Call;
use crate::proto::milvus as wire;
use crate::status::Failure;

const USER: &str = "root";
const ROLES: [&str; 2] = ["admin", "public"];
pub(super) const RESOURCE_GROUP: &str = "__default_resource_group";

pub(super) fn list(
    _call: &Call,
    _request: wire::ListCredUsersRequest,
) -> Result<wire::ListCredUsersResponse, Failure> {
    Ok(wire::ListCredUsersResponse { usernames: vec![USER.to_owned()], ..Default::default() })
}

pub(super) fn roles(
    _call: &Call,
    request: wire::SelectRoleRequest,
) -> Result<wire::SelectRoleResponse, Failure> {
    let asked = request.role.map(|role| role.name).filter(|name| !name.is_empty());
    let known = ROLES.iter().filter(|role| asked.as_ref().is_none_or(|asked| asked == *role));
    let result = |role: &&str| wire::RoleResult {
        role: Some(wire::RoleEntity { name: (*role).to_owned(), ..Default::default() }),
        users: Vec::new(),
    };
    Ok(wire::SelectRoleResponse { results: known.map(result).collect(), ..Default::default() })
}

pub(super) fn describe(
    _call: &Call,
    request: wire::SelectUserRequest,
) -> Result<wire::SelectUserResponse, Failure> {
    let asked = request.user.map(|user| user.name).filter(|name| !name.is_empty());
    let result = wire::UserResult {
        user: Some(wire::UserEntity { name: USER.to_owned() }),
        ..Default::default()
    };
    let known = asked.is_none_or(|asked| asked == USER);
    let results = if known { vec![result] } else { Vec::new() };
    Ok(wire::SelectUserResponse { results, ..Default::default() })
}

pub(super) fn resource_groups(
    _call: &Call,
    _request: wire::ListResourceGroupsRequest,
) -> Result<wire::ListResourceGroupsResponse, Failure> {
    let resource_groups = vec![RESOURCE_GROUP.to_owned()];
    Ok(wire::ListResourceGroupsResponse { resource_groups, ..Default::default() })
}
