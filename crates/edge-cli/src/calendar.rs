//! Times as people read them, in UTC.

use serde_json::Value;
use time::OffsetDateTime;

/// Milliseconds since 1970 as a date; what lies beyond year 9999 as its last moment.
fn date(ms: u64) -> OffsetDateTime {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .unwrap_or(OffsetDateTime::new_utc(time::Date::MAX, time::Time::MIDNIGHT))
}

/// `2026-11-28`; `-` where it is no number.
pub fn day(ms: &Value) -> String {
    ms.as_u64().map_or("-".into(), |ms| date(ms).date().to_string())
}

/// `2026-11-28 09:05 UTC`; `-` where it is no number, or zero.
pub fn minute(ms: &Value) -> String {
    let Some(ms) = ms.as_u64().filter(|ms| *ms > 0) else { return "-".into() };
    let at = date(ms);
    format!("{} {:02}:{:02} UTC", at.date(), at.hour(), at.minute())
}

/// `2026-11-28 09:05:07 UTC`.
pub fn second(ms: u64) -> String {
    let at = date(ms);
    format!("{} {:02}:{:02}:{:02} UTC", at.date(), at.hour(), at.minute(), at.second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [(0u64, "1970-01-01"), (951_782_400_000, "2000-02-29"), (1_795_305_599_999, "2026-11-21")];
        for (ms, expected) in cases {
            assert_eq!(day(&json!(ms)), expected);
        }
        assert_eq!(day(&Value::Null), "-");
        assert_eq!(
            (minute(&json!(0)), minute(&json!(1_709_210_096_789u64))),
            ("-".into(), "2024-02-29 12:34 UTC".into())
        );
        assert_eq!(second(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(second(1_709_210_096_789), "2024-02-29 12:34:56 UTC");
        assert_eq!(second(4_102_444_799_000), "2099-12-31 23:59:59 UTC");
        assert_eq!(second(u64::MAX), "9999-12-31 00:00:00 UTC");
    }
}
