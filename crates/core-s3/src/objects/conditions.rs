//! The conditions of calls as shards check them.
//!
//! Not here: when they hold (core-backends, shard/condition.rs; base-types, s3/conditions.rs: the same, for the gateway).

use base_types::s3::{ReadConditions, WriteConditions};
use core_backends::shard::{Condition, EtagTest};

/// `*`, or etags with commas between.
fn etag_test(condition: &Option<String>) -> Option<EtagTest> {
    let etags: Vec<&str> = condition.as_deref()?.split(',').map(str::trim).collect();
    if etags.iter().any(|etag| etag.trim_matches('"') == "*") {
        return Some(EtagTest::Any);
    }
    Some(EtagTest::OneOf { etags: etags.into_iter().map(str::to_owned).collect() })
}

/// Of a write.
pub(crate) fn of_write(conditions: &WriteConditions) -> Condition {
    Condition {
        if_match: etag_test(&conditions.if_match),
        if_none_match: etag_test(&conditions.if_none_match),
        if_modified_at: conditions.if_match_last_modified_ms,
        if_size: conditions.if_match_size,
        ..Condition::default()
    }
}

/// Of a read.
pub(crate) fn of_read(conditions: &ReadConditions) -> Condition {
    Condition {
        if_match: etag_test(&conditions.if_match),
        if_none_match: etag_test(&conditions.if_none_match),
        if_modified_since: conditions.if_modified_since_ms,
        if_unmodified_since: conditions.if_unmodified_since_ms,
        ..Condition::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_come_alone_in_lists_and_as_stars() {
        let test = |text: &str| etag_test(&Some(text.to_owned()));
        assert_eq!(etag_test(&None), None);
        for star in ["*", " * ", "\"*\"", "\"a\", *"] {
            assert_eq!(test(star), Some(EtagTest::Any), "{star}");
        }
        let two = EtagTest::OneOf { etags: vec!["\"a\"".into(), "W/\"b\"".into()] };
        assert_eq!(test("\"a\", W/\"b\""), Some(two));
    }
}
