//! Users: who may call, with which password and which roles.

use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use pipeann_db::access::{ADMIN, AccessError};

use super::attempts::{Attempt, TriedBy};
use super::frontend::Call;
use crate::proto::common::Status;
use crate::proto::milvus as wire;
use crate::status::{CallFailure, Code};

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

/// Those with the role `admin` need not know the password of others; one that they give is checked.
/// Whoever gives a wrong one too often waits, as at the door.
pub(super) fn set_password(
    call: &Call,
    request: wire::UpdateCredentialRequest,
) -> Result<Status, CallFailure> {
    let access = call.database().access();
    let (old, new) = (password(&request.old_password)?, password(&request.new_password)?);
    let mine = call.user() == request.username;
    let roles = access.roles_of(call.user()).unwrap_or_default();
    let trusted = old.is_empty() && call.is_known() && !mine && roles.contains(ADMIN);
    if trusted {
        access.set_password(&request.username, None, &new)?;
        return Ok(Status::default());
    }
    let by = TriedBy::User(call.user().to_owned());
    let attempt = Attempt::new(&request.username, access.has_user(&request.username), by);
    if let Some(wait) = call.attempts().wait(&attempt, Instant::now()) {
        let seconds = wait.as_secs() + 1;
        let why = format!("too many wrong old passwords of this user; try again in {seconds} s");
        return Err(CallFailure::new(Code::NotAuthenticated, why));
    }
    let changed = access.set_password(&request.username, Some((&old, FIRST_PASSWORD)), &new);
    match &changed {
        Ok(()) => call.attempts().right(&attempt),
        Err(AccessError::WrongPassword { .. }) => call.attempts().failed(&attempt, Instant::now()),
        Err(_) => {}
    }
    changed?;
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
