//! Users: who may call, with which password and which roles.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use pipeann_db::access::ADMIN;

use super::frontend::Call;
use crate::proto::common::Status;
use crate::proto::milvus as wire;
use crate::status::CallFailure;

/// The password of `root` until it is given another one, as in Milvus.
pub(super) const FIRST_PASSWORD: &str = "Milvus";

/// A password as it is sent.
fn password(sent: &str) -> Result<String, CallFailure> {
    let decoded = STANDARD.decode(sent).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.ok_or_else(|| CallFailure::parameter("the password is no text in base64"))
}

pub(super) fn create(
    call: &Call,
    request: wire::CreateCredentialRequest,
) -> Result<Status, CallFailure> {
    call.database().access().create_user(&request.username, &password(&request.password)?)?;
    Ok(Status::default())
}

/// Those with the role `admin` need not know the password of others.
pub(super) fn set_password(
    call: &Call,
    request: wire::UpdateCredentialRequest,
) -> Result<Status, CallFailure> {
    let access = call.database().access();
    let (old, new) = (password(&request.old_password)?, password(&request.new_password)?);
    let mine = call.user() == request.username;
    let roles = access.roles_of(call.user()).unwrap_or_default();
    let trusted = call.is_known() && !mine && roles.contains(ADMIN);
    let old = (!trusted).then_some((old.as_str(), FIRST_PASSWORD));
    access.set_password(&request.username, old, &new)?;
    Ok(Status::default())
}

pub(super) fn drop(
    call: &Call,
    request: wire::DeleteCredentialRequest,
) -> Result<Status, CallFailure> {
    call.database().access().drop_user(&request.username)?;
    Ok(Status::default())
}

pub(super) fn list(
    call: &Call,
    _request: wire::ListCredUsersRequest,
) -> Result<wire::ListCredUsersResponse, CallFailure> {
    let usernames = call.database().access().users();
    Ok(wire::ListCredUsersResponse { usernames, ..Default::default() })
}

pub(super) fn set_role(
    call: &Call,
    request: wire::OperateUserRoleRequest,
) -> Result<Status, CallFailure> {
    let has = request.r#type() == wire::OperateUserRoleType::AddUserToRole;
    call.database().access().set_role(&request.username, &request.role_name, has)?;
    Ok(Status::default())
}

/// One user, if there is one of this name, or all of them, with their roles where they are asked for.
pub(super) fn select(
    call: &Call,
    request: wire::SelectUserRequest,
) -> Result<wire::SelectUserResponse, CallFailure> {
    let access = call.database().access();
    let asked = request.user.map(|user| user.name).filter(|name| !name.is_empty());
    let names = match asked {
        Some(user) => access.roles_of(&user).map(|_| user).into_iter().collect(),
        None => access.users(),
    };
    let result = |name: String| {
        let roles = access.roles_of(&name).filter(|_| request.include_role_info);
        let role = |name| wire::RoleEntity { name, ..Default::default() };
        wire::UserResult {
            roles: roles.unwrap_or_default().into_iter().map(role).collect(),
            user: Some(wire::UserEntity { name }),
            ..Default::default()
        }
    };
    let results = names.into_iter().map(result).collect();
    Ok(wire::SelectUserResponse { results, ..Default::default() })
}
