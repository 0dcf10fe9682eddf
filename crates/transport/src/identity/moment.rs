//! A second of the calendar: its form in certificates, and its form for display.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A point in time, in whole seconds since 1970.
///
/// ```
/// use upbeat_transport::identity::Moment;
///
/// assert_eq!(Moment::from_secs(1_795_392_300).to_string(), "2026-11-23 00:05:00 UTC");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Returns the moment this many seconds after the beginning of 1970.
    pub fn from_secs(secs: u64) -> Moment {
        Moment(secs)
    }

    /// Returns the seconds since the beginning of 1970.
    pub fn as_secs(self) -> u64 {
        self.0
    }

    /// Returns the time since the beginning of 1970.
    pub(super) fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }

    /// Returns the time from `now` to this moment, or zero if the moment has passed.
    pub fn since(self, now: SystemTime) -> Duration {
        self.duration().saturating_sub(after_1970(now))
    }

    /// Reads a time in the form of certificates: `261123000500Z` or `20261123000500Z`.
    pub(super) fn parse(text: &[u8]) -> Option<Moment> {
        let (digits, zone) = text.split_at_checked(text.len().checked_sub(1)?)?;
        if zone != b"Z" || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = |digits: &[u8]| {
            digits.iter().fold(0, |number, digit| 10 * number + u64::from(digit - b'0'))
        };
        let (year, rest) = match digits.len() {
            12 => match number(&digits[..2]) {
                year @ 50.. => (1900 + year, &digits[2..]),
                year => (2000 + year, &digits[2..]),
            },
            14 => (number(&digits[..4]), &digits[4..]),
            _ => return None,
        };
        let mut pairs = rest.chunks(2).map(number);
        let mut next = || pairs.next();
        let (month, day, hour, minute, second) = (next()?, next()?, next()?, next()?, next()?);
        let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
        if !valid || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        // A time before 1970 counts as 1970, which has long passed.
        let days = days_since_1970(year, month, day).unwrap_or(0);
        Some(Moment(days * DAY + hour * HOUR + minute * MINUTE + second))
    }
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Moment {
        Moment(after_1970(time).as_secs())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0 / DAY, self.0 % DAY);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (rest / HOUR, rest % HOUR / MINUTE, rest % MINUTE);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

/// Returns the time since 1970, or zero on a clock that is before 1970.
fn after_1970(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The days in 400 years, after which the calendar repeats, and the days from March of year 0 to 1970.
const DAYS_OF_ERA: u64 = 146_097;
const DAYS_BEFORE_1970: u64 = 719_468;

/// Returns the days from 1970 to a date. Years are counted from March, so that a leap day is the last of its year.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year) = (year / 400, year % 400);
    let day = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + day;
    (era * DAYS_OF_ERA + days).checked_sub(DAYS_BEFORE_1970)
}

/// Returns the date this many days after 1970.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        let shown = |text: &[u8]| Moment::parse(text).map(|moment| moment.to_string());
        assert_eq!(shown(b"700101000000Z").as_deref(), Some("1970-01-01 00:00:00 UTC"));
        assert_eq!(shown(b"240229235959Z").as_deref(), Some("2024-02-29 23:59:59 UTC"));
        assert_eq!(shown(b"20500301000000Z").as_deref(), Some("2050-03-01 00:00:00 UTC"));
        assert_eq!(shown(b"99991231235959Z").as_deref(), Some("9999-12-31 23:59:59 UTC"));
        assert_eq!(shown(b"500101000000Z").as_deref(), Some("1970-01-01 00:00:00 UTC"));
        for bad in [&b""[..], b"Z", b"2402292359Z", b"240229235959", b"2413 1000000Z"] {
            assert_eq!(shown(bad), None);
        }
        assert_eq!(shown(b"241301000000Z"), None, "there is no thirteenth month");
    }

    #[test]
    fn every_day_is_shown_as_it_is_read() {
        for days in (0..150_000).step_by(7) {
            let (year, month, day) = date(days);
            assert_eq!(days_since_1970(year, month, day), Some(days));
        }
    }
}
