//! Instants and intervals, in the notation of ISO 8601.

use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;
use jiff::{Span, SpanFieldwise, Timestamp};

/// A length of time by calendar: months and years differ in length. In UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(SpanFieldwise);

/// Microseconds since 1970 of an instant such as `2025-01-01T00:00:00Z`; one without a zone is
/// in UTC.
///
/// # Errors
/// Why the text is none, also where it names a zone without its offset: which offset a zone has is
/// not known here.
pub fn parse_instant(text: &str) -> Result<i64, String> {
    const NO_OFFSET: &str =
        "a zone comes behind its offset, as in 2025-01-01T00:00:00+01:00[Europe/Berlin]";
    let error = match text.parse::<Timestamp>() {
        Ok(instant) => return Ok(instant.as_microsecond()),
        Err(error) => error.to_string(),
    };
    // What follows passes over zones and offsets.
    match Pieces::parse(text) {
        Ok(pieces) if pieces.offset().is_some() => return Err(error),
        Ok(pieces) if pieces.time_zone_annotation().is_some() => {
            return Err(NO_OFFSET.to_owned());
        }
        _ => {}
    }
    let civil = text.parse::<jiff::civil::DateTime>();
    let utc = civil.and_then(|civil| civil.to_zoned(TimeZone::UTC));
    utc.map(|zoned| zoned.timestamp().as_microsecond()).map_err(|_| error)
}

impl Interval {
    /// An interval such as `P1DT12H`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let capital = text.trim_start_matches(['-', '+']).starts_with(['P', 'p']);
        if !capital {
            return Err("an interval is written as P1DT12H".to_owned());
        }
        text.parse::<Span>().map(|span| Self(span.fieldwise())).map_err(|error| error.to_string())
    }

    /// The same the other way.
    pub(super) fn negated(self) -> Self {
        Self(self.0.0.negate().fieldwise())
    }

    /// Where an instant comes to; `None` where that is beyond the years from -9999 to 9999.
    pub(super) fn after(self, us: i64) -> Option<i64> {
        let zoned = Timestamp::from_microsecond(us).ok()?.to_zoned(TimeZone::UTC);
        zoned.checked_add(self.0.0).ok().map(|moved| moved.timestamp().as_microsecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;

    #[test]
    fn instants_are_read_with_and_without_a_zone() {
        for (text, us) in [
            ("1970-01-02T00:00:00Z", DAY),
            ("1970-01-02T00:00:00", DAY),
            ("1970-01-02T02:00:00+02:00", DAY),
            ("1970-01-02T02:00:00+02:00[Africa/Cairo]", DAY),
            ("1970-01-02", DAY),
            ("1969-12-31T23:59:59.5Z", -500_000),
        ] {
            assert_eq!(parse_instant(text), Ok(us), "{text}");
        }
        for text in ["", "yesterday", "2025-13-01T00:00:00Z", "2025-02-30", "1"] {
            assert!(parse_instant(text).is_err(), "{text}");
        }
    }

    #[test]
    fn zones_and_offsets_are_never_passed_over() {
        for text in [
            "2025-07-01T00:00:00[Europe/Berlin]",
            "2025-07-01[Europe/Berlin]",
            "2025-07-01T00:00:00[+02:00]",
        ] {
            let error = parse_instant(text).unwrap_err();
            assert!(error.contains("behind its offset"), "{text}: {error}");
        }
        // Beyond the last instant, and not so without the offset.
        assert!(parse_instant("9999-12-30T20:00:00").is_ok());
        assert!(parse_instant("9999-12-30T20:00:00-05:00").is_err());
    }

    #[test]
    fn intervals_move_instants_by_calendar() {
        let moved = |start, by| {
            let interval = Interval::parse(by).unwrap();
            interval.after(parse_instant(start).unwrap())
        };
        for (start, by, end) in [
            ("2024-02-28T12:00:00Z", "P1D", "2024-02-29T12:00:00Z"),
            ("2024-01-31T00:00:00Z", "P1M", "2024-02-29T00:00:00Z"),
            ("2025-01-01T00:00:00Z", "PT36H", "2025-01-02T12:00:00Z"),
            ("2025-01-01T00:00:00Z", "-P1Y", "2024-01-01T00:00:00Z"),
        ] {
            assert_eq!(moved(start, by), Some(parse_instant(end).unwrap()), "{start} {by}");
        }
        assert_eq!(moved("2025-01-01T00:00:00Z", "P9000Y"), None);
        assert_eq!(Interval::parse("P1D").unwrap().negated().after(DAY), Some(0));
        for text in ["", "1D", "P", "P1X", "5 days"] {
            assert!(Interval::parse(text).is_err(), "{text}");
        }
    }
}
