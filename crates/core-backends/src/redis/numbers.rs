//! Numbers as Redis reads and writes them.

use super::{fail, Fail, NOT_AN_INTEGER, NOT_A_FLOAT};

/// Strict, as Redis is: no sign `+`, no leading zero, no space.
pub(super) fn integer_of(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: i64 = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}

pub(super) fn parse_integer(text: &[u8]) -> Result<i64, Fail> {
    integer_of(text).map_or_else(|| fail(NOT_AN_INTEGER), Ok)
}

/// No NaN; infinities are numbers (scores may be infinite).
pub(super) fn float_of(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // Zero has one form: -0 and 0 are the same score and must be the same row.
    (!value.is_nan()).then_some(if value == 0.0 { 0.0 } else { value })
}

pub(super) fn parse_float(text: &[u8]) -> Result<f64, Fail> {
    float_of(text).map_or_else(|| fail(NOT_A_FLOAT), Ok)
}

/// The shortest text that reads back to the same number; an exponent only far from one.
pub(super) fn float_text(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let size = value.abs();
    if value == 0.0 || (1e-5..1e17).contains(&size) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, power)) if power.starts_with('-') => format!("{digits}e{power}"),
        Some((digits, power)) => format!("{digits}e+{power}"),
        None => text,
    }
}

/// What INCRBYFLOAT stores: never an exponent, as Redis has it.
pub(super) fn plain_float_text(value: f64) -> String {
    format!("{}", if value == 0.0 { 0.0 } else { value })
}

/// Unsigned integers that order as the floats do.
pub(super) fn sortable(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

pub(super) fn from_sortable(value: u64) -> f64 {
    f64::from_bits(if value >> 63 == 1 { value & !(1 << 63) } else { !value })
}

/// A range as `LRANGE`, `GETRANGE` and `ZRANGE` mean it: negative counts from the end, both ends
/// included, cut to what is there. `None`: empty.
pub(super) fn clip(start: i64, stop: i64, length: u64) -> Option<(u64, u64)> {
    let length = i64::try_from(length).ok()?;
    let start = if start < 0 { start.saturating_add(length).max(0) } else { start };
    let stop = if stop < 0 { stop.saturating_add(length) } else { stop.min(length - 1) };
    (start <= stop && start < length && stop >= 0).then_some((start as u64, stop as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_and_write_as_redis_does() {
        for (text, value) in [
            ("0", Some(0)),
            ("-5", Some(-5)),
            ("+5", None),
            ("05", None),
            ("-0", None),
            (" 5", None),
            ("", None),
            ("9223372036854775808", None),
        ] {
            assert_eq!(integer_of(text.as_bytes()), value, "{text}");
        }
        for (value, text) in
            [(3.0, "3"), (1.5, "1.5"), (1e20, "1e+20"), (-1e-9, "-1e-9"), (f64::NEG_INFINITY, "-inf"), (10.6, "10.6")]
        {
            assert_eq!(float_text(value), text);
            assert_eq!(float_of(text.as_bytes()), Some(value));
        }
        assert_eq!((plain_float_text(5.0e3), plain_float_text(-0.0)), ("5000".into(), "0".into()));
        let ordered = [f64::NEG_INFINITY, -2.0, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY];
        for pair in ordered.windows(2) {
            assert!(sortable(pair[0]) < sortable(pair[1]));
            assert_eq!(from_sortable(sortable(pair[0])), pair[0]);
        }
        assert_eq!(
            (clip(0, -1, 3), clip(-2, 9, 3), clip(2, 1, 3), clip(0, -9, 3), clip(0, -1, 0)),
            (Some((0, 2)), Some((1, 2)), None, None, None)
        );
    }
}
