//! RFC 3339 in UTC, with milliseconds.

use std::time::{SystemTime, UNIX_EPOCH};

use super::escape::push_padded;

/// Appends such as `2026-12-01T12:56:15.042Z`. Times before 1970 are written as 1970.
pub(super) fn push(out: &mut Vec<u8>, time: SystemTime) {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since_epoch.as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    push_padded(out, year, 4);
    for (mark, value) in [
        (b'-', month),
        (b'-', day),
        (b'T', seconds / 3600 % 24),
        (b':', seconds / 60 % 60),
        (b':', seconds % 60),
    ] {
        out.push(mark);
        push_padded(out, value, 2);
    }
    out.push(b'.');
    push_padded(out, since_epoch.subsec_millis().into(), 3);
    out.push(b'Z');
}

/// Year, month and day of a day counted from 1970-01-01. Counts in years that begin in March, so
/// that the leap day is a year's last, and in eras of 400 years, which are all equally long.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59.000Z"),
            (1_796_129_775_042, "2026-12-01T12:56:15.042Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let mut out = Vec::new();
            push(&mut out, UNIX_EPOCH + Duration::from_millis(millis));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut out = Vec::new();
        push(&mut out, UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(out, b"1970-01-01T00:00:00.000Z");
    }
}
