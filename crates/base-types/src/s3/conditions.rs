//! When a conditional call is carried out, by RFC 9110 and the S3 API reference. Pure, so that the gateway and the node
//! cannot differ.

use super::{ReadConditions, S3ErrorCode, WriteConditions};

/// Whether an etag of a condition (`*`, with or without quotes, or several with commas) is this one.
fn names(condition: &str, etag: &str) -> bool {
    let bare = |text: &str| -> bool {
        let text = text.trim();
        let text = text.strip_prefix("W/").unwrap_or(text).trim_matches('"');
        text == "*" || text == etag
    };
    condition.split(',').any(bare)
}

/// HTTP dates have no fractions of a second.
fn seconds(millis: u64) -> u64 {
    millis / 1000
}

impl ReadConditions {
    /// Checks a version that was found. An etag's condition makes its date's one void.
    pub fn check(&self, etag: &str, last_modified_ms: u64) -> Result<(), S3ErrorCode> {
        let modified = seconds(last_modified_ms);
        match (&self.if_match, self.if_unmodified_since_ms) {
            (Some(wanted), _) if !names(wanted, etag) => return Err(S3ErrorCode::PreconditionFailed),
            (None, Some(since)) if modified > seconds(since) => return Err(S3ErrorCode::PreconditionFailed),
            _ => {}
        }
        match (&self.if_none_match, self.if_modified_since_ms) {
            (Some(unwanted), _) if names(unwanted, etag) => Err(S3ErrorCode::NotModified),
            (None, Some(since)) if modified <= seconds(since) => Err(S3ErrorCode::NotModified),
            _ => Ok(()),
        }
    }
}

impl WriteConditions {
    /// Whether nothing is asked.
    pub fn is_none(&self) -> bool {
        *self == WriteConditions::default()
    }

    /// Checks the current version: etag, time, length; `None` where there is none or it is a delete marker.
    pub fn check(&self, current: Option<(&str, u64, u64)>) -> Result<(), S3ErrorCode> {
        let Some((etag, last_modified_ms, size)) = current else {
            let wants_one =
                self.if_match.is_some() || self.if_match_last_modified_ms.is_some() || self.if_match_size.is_some();
            return if wants_one { Err(S3ErrorCode::NoSuchKey) } else { Ok(()) };
        };
        let same_time = |wanted: u64| seconds(wanted) == seconds(last_modified_ms);
        let holds = self.if_match.as_ref().is_none_or(|wanted| names(wanted, etag))
            && !self.if_none_match.as_ref().is_some_and(|unwanted| names(unwanted, etag))
            && self.if_match_last_modified_ms.is_none_or(same_time)
            && self.if_match_size.is_none_or(|wanted| wanted == size);
        if holds {
            return Ok(());
        }
        Err(S3ErrorCode::PreconditionFailed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn reads() {
        let text = |text: &str| Some(String::from(text));
        let check = |conditions: ReadConditions| conditions.check("e", 10_500);
        let table = [
            (ReadConditions { if_match: text("e"), ..Default::default() }, Ok(())),
            (ReadConditions { if_match: text("\"x\", \"e\""), ..Default::default() }, Ok(())),
            (ReadConditions { if_match: text("x"), ..Default::default() }, Err(S3ErrorCode::PreconditionFailed)),
            (ReadConditions { if_none_match: text("e"), ..Default::default() }, Err(S3ErrorCode::NotModified)),
            (ReadConditions { if_none_match: text("x"), ..Default::default() }, Ok(())),
            (
                ReadConditions { if_modified_since_ms: Some(10_000), ..Default::default() },
                Err(S3ErrorCode::NotModified),
            ),
            (ReadConditions { if_modified_since_ms: Some(9_999), ..Default::default() }, Ok(())),
            (ReadConditions { if_unmodified_since_ms: Some(10_000), ..Default::default() }, Ok(())),
            (
                ReadConditions { if_unmodified_since_ms: Some(9_000), ..Default::default() },
                Err(S3ErrorCode::PreconditionFailed),
            ),
            // The etag's condition holds: the date's one is void.
            (ReadConditions { if_match: text("e"), if_unmodified_since_ms: Some(0), ..Default::default() }, Ok(())),
            (
                ReadConditions { if_none_match: text("x"), if_modified_since_ms: Some(99_000), ..Default::default() },
                Ok(()),
            ),
        ];
        for (conditions, expected) in table {
            assert_eq!(check(conditions.clone()), expected, "{conditions:?}");
        }
    }

    #[test]
    fn writes() {
        let text = |text: &str| Some(String::from(text));
        let there = Some(("e", 10_500, 3));
        let table = [
            (WriteConditions::default(), there, Ok(())),
            (WriteConditions { if_none_match: text("*"), ..Default::default() }, None, Ok(())),
            (
                WriteConditions { if_none_match: text("*"), ..Default::default() },
                there,
                Err(S3ErrorCode::PreconditionFailed),
            ),
            (WriteConditions { if_match: text("e"), ..Default::default() }, there, Ok(())),
            (WriteConditions { if_match: text("*"), ..Default::default() }, there, Ok(())),
            (
                WriteConditions { if_match: text("x"), ..Default::default() },
                there,
                Err(S3ErrorCode::PreconditionFailed),
            ),
            (WriteConditions { if_match: text("*"), ..Default::default() }, None, Err(S3ErrorCode::NoSuchKey)),
            (WriteConditions { if_match_size: Some(3), ..Default::default() }, there, Ok(())),
            (
                WriteConditions { if_match_size: Some(4), ..Default::default() },
                there,
                Err(S3ErrorCode::PreconditionFailed),
            ),
            (WriteConditions { if_match_last_modified_ms: Some(10_000), ..Default::default() }, there, Ok(())),
        ];
        for (conditions, current, expected) in table {
            assert_eq!(conditions.check(current), expected, "{conditions:?} on {current:?}");
        }
    }
}
