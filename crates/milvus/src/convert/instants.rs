//! Instants, which clients write as texts in ISO 8601.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Microseconds since 1970, of a text; in UTC where it names no zone.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let instant = text.parse::<Timestamp>().ok().or_else(|| {
        let civil = text.parse::<DateTime>().ok()?;
        civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    instant.map(Timestamp::as_microsecond)
}

/// The text of an instant, in UTC. One that no calendar has is its number.
pub(crate) fn print(microseconds: i64) -> String {
    Timestamp::from_microsecond(microseconds)
        .map_or_else(|_| microseconds.to_string(), |instant| instant.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_with_and_without_a_zone() {
        assert_eq!(parse("1970-01-01T00:00:01Z"), Some(1_000_000));
        assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse("1970-01-01T00:00:00"), Some(0));
        assert_eq!(parse("yesterday"), None);
        assert_eq!(print(1_500_000), "1970-01-01T00:00:01.5Z");
    }
}
