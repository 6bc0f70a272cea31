//! Every call is free or needs one privilege, and groups are of known ones.

use pipeann_db::access::FIRST_OF_PUBLIC;

use super::super::calls::CALLS;
use super::super::routes::ServedCall;
use super::*;

#[test]
fn every_call_is_free_or_needs_one_privilege() {
    for ServedCall { name: call, .. } in CALLS {
        let needed = NEEDED.iter().filter(|(_, _, calls)| calls.contains(call)).count();
        let told = TOLD.iter().filter(|(_, calls)| calls.contains(call)).count();
        let free = usize::from(FREE.contains(call));
        assert_eq!(needed + told + free, 1, "{call}");
    }
    let told = TOLD.iter().flat_map(|(_, calls)| *calls);
    let calls = NEEDED.iter().flat_map(|(_, _, calls)| *calls).chain(FREE).chain(told);
    for call in calls {
        assert!(CALLS.iter().any(|served| served.name == *call), "{call} is no call");
    }
}

#[test]
fn public_has_at_first_what_tells_what_there_is() {
    let told: Vec<_> = TOLD.iter().map(|(name, _)| (kind_of(name), *name)).collect();
    let mut first = FIRST_OF_PUBLIC.to_vec();
    first.sort_by_key(|(_, name)| told.iter().position(|(_, told)| told == name));
    assert_eq!(first, told);
}

#[test]
fn groups_are_of_known_privileges() {
    for (group, parts) in GROUPS {
        for name in parts.iter().copied().flatten() {
            assert!(known(name), "{name} of {group}");
        }
    }
    assert!(!known("Fly"));
}
