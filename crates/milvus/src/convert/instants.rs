//! Instants, which clients write as texts in ISO 8601.

use jiff::Timestamp;
use pipeann_db::expr::parse_instant;

use crate::status::{CallFailure, Code};

/// Microseconds since 1970, of a text; in UTC where it names no zone. Read as a filter reads it.
pub(crate) fn parse(text: &str) -> Option<i64> {
    parse_instant(text).ok()
}

/// The text of an instant, in UTC. One that no calendar has is its number.
pub(crate) fn print(microseconds: i64) -> String {
    Timestamp::from_microsecond(microseconds)
        .map_or_else(|_| microseconds.to_string(), |instant| instant.to_string())
}

/// Names the zone in which texts without one are meant, and answered.
const ZONE: &str = "timezone";
/// Asks for parts of instants instead of texts.
const PARTS: &str = "time_fields";
/// Names of the zone that there is.
const UTC: [&str; 3] = ["utc", "etc/utc", "z"];

/// Refuses another zone than UTC in properties or parameters, and parts of instants: without them,
/// instants would be others than was meant.
pub(crate) fn refuse_zones<'p>(given: impl Fn(&str) -> Option<&'p str>) -> Result<(), CallFailure> {
    let is_utc = |zone: &str| UTC.iter().any(|utc| zone.eq_ignore_ascii_case(utc));
    if let Some(zone) = given(ZONE).filter(|zone| !is_utc(zone)) {
        return Err(CallFailure::new(
            Code::Unsupported,
            format!(
                "{ZONE} [{zone}] is not supported by this server: instants are read and answered in UTC, and may name their offset"
            ),
        ));
    }
    match given(PARTS) {
        Some(_) => Err(CallFailure::unsupported(PARTS)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_with_and_without_a_zone() {
        assert_eq!(parse("1970-01-01T00:00:01Z"), Some(1_000_000));
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse("1970-01-01T00:00:00"), Some(0));
        assert_eq!(parse("1970-01-01T00:00:00[Europe/Berlin]"), None);
        assert_eq!(parse("9999-12-30T20:00:00-05:00"), None);
        assert_eq!(parse("yesterday"), None);
        assert_eq!(print(1_500_000), "1970-01-01T00:00:01.5Z");
    }

    #[test]
    fn zones_that_would_be_passed_over_are_refused() {
        let of = |name: &'static str, value: &'static str| {
            refuse_zones(move |asked| (asked == name).then_some(value)).is_ok()
        };
        assert!(of("timezone", "UTC") && of("timezone", "Etc/UTC") && of("other", "x"));
        assert!(!of("timezone", "Asia/Shanghai") && !of("time_fields", "year,month"));
    }
}
