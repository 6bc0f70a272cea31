//! Names in requests, refused in the words that clients and their tests search for.
//!
//! The database checks names where it takes them up. Here they are checked before anything is looked
//! for, so that a name that can belong to nothing is told from one that belongs to nothing yet.

use crate::status::{CallFailure, Code};

/// The longest name of anything, in bytes.
const MAX_BYTES: usize = 255;
/// What of a longer name stands in a message: it may be as long as a request.
const SHOWN_BYTES: usize = 1024;

/// Names of collections, databases or aliases in one request.
const MAX_NAMES: usize = 1024;

/// Words of the filter language and of the schema, which no field can be called.
const KEYWORDS: [&str; 21] = [
    "$meta",
    "like",
    "exists",
    "and",
    "or",
    "not",
    "in",
    "is",
    "null",
    "true",
    "false",
    "json_contains",
    "json_contains_all",
    "json_contains_any",
    "array_contains",
    "array_contains_all",
    "array_contains_any",
    "array_length",
    "text_match",
    "phrase_match",
    "random_sample",
];

/// Whether one request may name so many.
pub(crate) fn check_count(what: &str, count: usize) -> Result<(), CallFailure> {
    if count <= MAX_NAMES {
        return Ok(());
    }
    Err(CallFailure::parameter(format!(
        "a request names at most {MAX_NAMES} {what}, this one {count}; ask in several requests"
    )))
}

/// What is wrong with the characters of a name.
enum NameFault {
    Long,
    First,
    Others,
}

/// Names are words of ASCII; what else may stand in some of them is said by `more`.
fn fault(name: &str, first: fn(u8) -> bool, more: fn(u8) -> bool) -> Option<NameFault> {
    let plain = |byte: u8| byte == b'_' || byte.is_ascii_alphabetic();
    match name.as_bytes() {
        bytes if bytes.len() > MAX_BYTES => Some(NameFault::Long),
        [at_first, ..] if !plain(*at_first) && !first(*at_first) => Some(NameFault::First),
        bytes => {
            let fits = |byte: &u8| plain(*byte) || byte.is_ascii_digit() || more(*byte);
            (!bytes.iter().all(fits)).then_some(NameFault::Others)
        }
    }
}

/// As much of a name as a message shows.
fn shown(name: &str) -> &str {
    &name[..name.floor_char_boundary(SHOWN_BYTES)]
}

fn nothing(_: u8) -> bool {
    false
}

/// The sentence on a fault of a plain name.
fn sentence(what: &str, fault: &NameFault) -> String {
    match fault {
        NameFault::Long => {
            format!("the length of a {what} must be less than {MAX_BYTES} characters")
        }
        NameFault::First => {
            format!("the first character of a {what} must be an underscore or letter")
        }
        NameFault::Others => format!("{what} can only contain numbers, letters and underscores"),
    }
}

/// The same as one of several sentences.
fn of_its_own(mut sentence: String) -> String {
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    sentence + "."
}

/// A name of a collection, or another name of one.
pub(crate) fn collection(name: &str) -> Result<(), CallFailure> {
    named("name", name)
}

/// Another name of a collection.
pub(crate) fn alias(name: &str) -> Result<(), CallFailure> {
    named("alias", name)
}

fn named(role: &str, name: &str) -> Result<(), CallFailure> {
    let what = format!("collection {role}");
    if name.is_empty() {
        return Err(CallFailure::parameter(format!(
            "{what} should not be empty: invalid parameter"
        )));
    }
    refuse(fault(name, nothing, nothing), |fault| {
        let (name, why) = (shown(name), sentence(&what, &fault));
        CallFailure::parameter(format!("Invalid {what}: {name}. {why}: invalid parameter"))
    })
}

/// A name of a partition; it may begin with a digit, and have hyphens further on.
pub(crate) fn partition(name: &str) -> Result<(), CallFailure> {
    let name = name.trim();
    let invalid = |why: String| {
        let name = shown(name);
        CallFailure::parameter(format!("Invalid partition name: {name}. {why}: invalid parameter"))
    };
    if name.is_empty() {
        return Err(invalid("Partition name should not be empty.".to_owned()));
    }
    refuse(fault(name, |byte| byte.is_ascii_digit(), |byte| byte == b'-'), |fault| {
        invalid(of_its_own(sentence("partition name", &fault)))
    })
}

/// A name of a database.
pub(crate) fn database(name: &str) -> Result<(), CallFailure> {
    let invalid = |why: String| {
        let reason = format!("{why}: invalid database name[database={}]", shown(name));
        CallFailure::new(Code::InvalidDatabaseName, reason)
    };
    if name.is_empty() {
        return Err(invalid("database name couldn't be empty".to_owned()));
    }
    refuse(fault(name, nothing, nothing), |fault| invalid(sentence("database name", &fault)))
}

/// A name of a field that is declared.
pub(crate) fn field(name: &str) -> Result<(), CallFailure> {
    let invalid = |why: String| {
        let name = shown(name);
        let reason = format!("Invalid field name: {name}. {why}: field name invalid[field={name}]");
        CallFailure::new(Code::InvalidFieldName, reason)
    };
    if name.trim().is_empty() {
        let reason = "field name should not be empty: field name invalid[field=]";
        return Err(CallFailure::new(Code::InvalidFieldName, reason));
    }
    if KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(name)) {
        return Err(invalid(format!("{name} is keyword in milvus.")));
    }
    refuse(fault(name, nothing, nothing), |fault| {
        invalid(of_its_own(match fault {
            NameFault::Others => {
                "field name can only contain numbers, letters, and underscores".into()
            }
            other => sentence("field name", &other),
        }))
    })
}

fn refuse(
    fault: Option<NameFault>,
    why: impl FnOnce(NameFault) -> CallFailure,
) -> Result<(), CallFailure> {
    fault.map_or(Ok(()), |fault| Err(why(fault)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long() -> String {
        "a".repeat(MAX_BYTES + 1)
    }

    #[test]
    fn what_can_be_a_name_passes() {
        for name in ["a", "_1", "Docs_2024", &"a".repeat(MAX_BYTES)] {
            for check in [collection, alias, partition, database, field] {
                assert_eq!(check(name), Ok(()), "{name}");
            }
        }
        assert_eq!(partition("2024-01-31"), Ok(()));
        assert_eq!(field("likes"), Ok(()));
    }

    #[test]
    fn what_cannot_is_refused_in_known_words() {
        let reason = |found: Result<(), CallFailure>| found.unwrap_err().reason;
        assert_eq!(
            reason(collection("12-s")),
            "Invalid collection name: 12-s. the first character of a collection name must be an underscore or letter: invalid parameter"
        );
        assert_eq!(
            reason(alias("a-b")),
            "Invalid collection alias: a-b. collection alias can only contain numbers, letters and underscores: invalid parameter"
        );
        assert!(
            reason(collection(&long()))
                .contains("collection name must be less than 255 characters")
        );
        assert_eq!(
            reason(collection("")),
            "collection name should not be empty: invalid parameter"
        );
        assert_eq!(
            reason(partition("(mn)")),
            "Invalid partition name: (mn). The first character of a partition name must be an underscore or letter.: invalid parameter"
        );
        let huge = "x".repeat(1 << 20);
        for check in [collection, alias, partition, database, field] {
            assert!(reason(check(&huge)).len() < 4096);
        }
        assert!(reason(partition(" ")).contains("Partition name should not be empty."));
        assert!(
            reason(partition(&long())).contains("The length of a partition name must be less than")
        );
        assert_eq!(
            reason(database("  ")),
            "the first character of a database name must be an underscore or letter: invalid database name[database=  ]"
        );
        assert_eq!(
            reason(field("español")),
            "Invalid field name: español. Field name can only contain numbers, letters, and underscores.: field name invalid[field=español]"
        );
        assert!(reason(field("LIKE")).contains("Invalid field name: LIKE. LIKE is keyword"));
        assert!(reason(field("random_sample")).contains("random_sample is keyword"));
        assert_eq!(field("1st").unwrap_err().code, Code::InvalidFieldName);
        assert_eq!(database("").unwrap_err().code, Code::InvalidDatabaseName);
    }
}
