//! Which server has which number: timestamps name servers by them. Each is a value in etcd, so that a server
//! keeps its number.
//!
//! etcd may lose them all; then each server puts its own again.

use std::collections::BTreeMap;

use pipeann_members::{Coordinator, Error as MembersError, PutIf};
use uuid::Uuid;

/// Names of the values; the number follows.
const NUMBERS: &str = "numbers/";
/// Attempts to get a number while others get theirs.
const ATTEMPTS: usize = 300;

fn value_name(number: u8) -> String {
    format!("{NUMBERS}{number}")
}

/// Which server has which number, and by which revision.
fn read(coordinator: &dyn Coordinator) -> Result<BTreeMap<u8, (Uuid, u64)>, MembersError> {
    let values = coordinator.values(NUMBERS)?;
    let number = |name: &str| name.strip_prefix(NUMBERS)?.parse::<u8>().ok();
    let parsed = values.iter().filter_map(|value| {
        let id = Uuid::from_slice(&value.bytes).ok()?;
        Some((number(&value.name)?, (id, value.revision)))
    });
    Ok(parsed.collect())
}

/// Which server has which number.
pub(crate) fn numbers(coordinator: &dyn Coordinator) -> Result<BTreeMap<u8, Uuid>, MembersError> {
    Ok(read(coordinator)?.into_iter().map(|(number, (id, _))| (number, id)).collect())
}

/// The number that a server has, or the least that nobody has, or that of one that is gone; and which
/// server has which.
pub(crate) fn take_number(
    coordinator: &dyn Coordinator,
    id: Uuid,
) -> Result<(u8, BTreeMap<u8, Uuid>), MembersError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let taken = read(coordinator)?;
        let servers = || taken.iter().map(|(&n, &(id, _))| (n, id)).collect();
        if let Some((&number, _)) = taken.iter().find(|(_, (of, _))| *of == id) {
            return Ok((number, servers()));
        }
        let free = (0..=u8::MAX).find(|number| !taken.contains_key(number));
        let gone = || {
            let live = coordinator.servers();
            let gone = |(_, (of, _)): &(&u8, &(Uuid, u64))| !live.iter().any(|s| s.id == *of);
            taken.iter().find(gone).map(|(&n, &(_, revision))| (n, PutIf::At(revision)))
        };
        let Some((number, when)) = free.map(|n| (n, PutIf::Absent)).or_else(gone) else {
            let why = "256 servers are there, which is the most".to_owned();
            return Err(MembersError::Invalid { what: "number of the server", why });
        };
        match coordinator.put_value(&value_name(number), id.as_bytes(), when) {
            Ok(_) => {
                let mut servers: BTreeMap<u8, Uuid> = servers();
                servers.insert(number, id);
                return Ok((number, servers));
            }
            // Somebody else has it by now.
            Err(error @ MembersError::Conflict { .. }) => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.expect("there was an attempt"))
}

/// Puts the number of a server again where etcd has lost it, so that no other one takes it.
pub(crate) fn keep_number(
    coordinator: &dyn Coordinator,
    number: u8,
    id: Uuid,
) -> Result<(), MembersError> {
    let name = value_name(number);
    let found = coordinator.value(&name)?;
    let is_free = found.is_none();
    if found.is_some_and(|value| value.bytes == id.as_bytes()) {
        return Ok(());
    }
    match is_free.then(|| coordinator.put_value(&name, id.as_bytes(), PutIf::Absent)) {
        Some(Ok(_)) => Ok(()),
        // One that joined before this one had put it again, or that took it for that of one that is gone.
        None | Some(Err(MembersError::Conflict { .. })) => {
            tracing::warn!(
                number,
                "another server has this server's number, so pages of iterators may come to the wrong one: \
                 start this server again"
            );
            Ok(())
        }
        Some(Err(error)) => Err(error),
    }
}
