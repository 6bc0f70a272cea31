//! Whether a user has the right to make a call: by the privilege that it needs, on what it is about.

use pipeann_db::access::{ANY, Access, Grant};
use pipeann_db::catalog::{CollectionId, Snapshot};
use tonic::Status;

use super::aim::Aimed;
use super::privileges::{USER, denied, groups_with, is_free, is_server_wide, needed, told_by};
use super::viewer::Viewer;

/// Refuses a call that its caller has no right to make; `named` is the database of calls that name
/// none.
///
/// A right is looked up by the collection that a name stands for, so that an alias neither gives nor
/// takes one, and in the database where that collection is, whatever the request says beside it.
pub(super) fn check(
    access: &Access,
    catalog: &Snapshot,
    user: &str,
    call: &str,
    request: &impl Aimed,
    named: &str,
) -> Result<(), Status> {
    if let Some(privilege) = told_by(call) {
        let viewer = Viewer { access, user, privilege: Some(privilege) };
        return viewer.check(catalog, request, named);
    }
    let Some((privilege, kind)) = needed(call) else {
        // What is in no list is nobody's: a test compares them with the calls.
        return if is_free(call) { Ok(()) } else { Err(denied(call, user, named)) };
    };
    let (given, objects) = request.aim();
    if kind == USER && objects == [user] {
        return Ok(());
    }
    let database = if given.is_empty() { named } else { given };
    let stands_for = |database: &str, name: &str| match catalog.collection(database, name) {
        Ok(entry) => entry.name.clone(),
        Err(_) => name.to_owned(),
    };
    let mut wanted: Vec<(&str, String)> = objects
        .into_iter()
        .filter(|object| !object.is_empty())
        .map(|object| match kind {
            USER => (database, object.to_owned()),
            _ => (database, stands_for(database, object)),
        })
        .collect();
    if let Some(alias) = request.alias()
        && let Ok(left) = catalog.alias(database, alias)
    {
        wanted.push((database, left.name.clone()));
    }
    if let Some((target, name)) = request.target() {
        wanted.push((if target.is_empty() { database } else { target }, name.to_owned()));
    }
    let numbered = request.number().map(|id| CollectionId(id.cast_unsigned()));
    if let Some(entry) = numbered.and_then(|id| catalog.collection_by_id(id))
        && let Some(home) = catalog.home_of(entry)
    {
        wanted.push((home, entry.name.clone()));
    }
    if wanted.is_empty() {
        wanted.push((database, ANY.to_owned()));
    }
    let groups = groups_with(privilege);
    let everywhere = kind == USER || is_server_wide(privilege);
    for (database, object) in wanted {
        let within = if everywhere { ANY } else { database };
        let wanted = Grant {
            kind: kind.to_owned(),
            object,
            privilege: privilege.to_owned(),
            database: within.to_owned(),
        };
        if !access.allows(user, &wanted, &groups) {
            return Err(denied(privilege, user, database));
        }
    }
    Ok(())
}

/// Refuses a call that nothing lets its caller make, whatever it is about: before it is read.
pub(super) fn check_anywhere(
    access: &Access,
    user: &str,
    call: &str,
    named: &str,
) -> Result<(), Status> {
    // Everybody may do some things with his own user, which are small.
    let Some((privilege, kind)) = needed(call).filter(|(_, kind)| *kind != USER) else {
        return Ok(());
    };
    match access.allows_somewhere(user, (kind, privilege), &groups_with(privilege)) {
        true => Ok(()),
        false => Err(denied(privilege, user, named)),
    }
}
