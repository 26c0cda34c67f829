//! Listings as the S3 API reference and its common test suites tell them.

use super::bed::*;
use crate::shard::*;
use base_types::s3::Version;

fn bed_of(keys: &[&str]) -> Bed {
    let mut bed = Bed::serving();
    for key in keys {
        bed.put(key, Versioning::Unversioned, 1).unwrap();
    }
    bed
}

/// Keys and common prefixes of a page, and whether it is cut off.
fn page(bed: &Bed, prefix: &str, delimiter: &str, after: &str, limit: u32) -> (Vec<String>, Vec<String>, bool) {
    let mut listing = Listing { limit, ..bed.listing(prefix, delimiter) };
    if !after.is_empty() {
        listing.start = ListStart::After { key: after.to_string().into() };
    }
    let (items, more) = bed.page(listing, false).unwrap();
    let (mut keys, mut prefixes) = (Vec::new(), Vec::new());
    for item in items {
        match plain(item) {
            (key, Some(_)) => keys.push(key),
            (prefix, None) => prefixes.push(prefix),
        }
    }
    (keys, prefixes, more)
}

fn texts(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| key.to_string()).collect()
}

/// API reference, ListObjects: "sample.jpg" and three months of photos.
#[test]
pub fn the_api_references_photos() {
    let bed = bed_of(&[
        "sample.jpg",
        "photos/2006/January/sample.jpg",
        "photos/2006/February/sample2.jpg",
        "photos/2006/February/sample3.jpg",
        "photos/2006/February/sample4.jpg",
    ]);
    assert_eq!(page(&bed, "", "/", "", 1000), (texts(&["sample.jpg"]), texts(&["photos/"]), false));
    let months = texts(&["photos/2006/February/", "photos/2006/January/"]);
    assert_eq!(page(&bed, "photos/2006/", "/", "", 1000), (vec![], months, false));
    assert_eq!(page(&bed, "photos/2006", "/", "", 1000), (vec![], texts(&["photos/2006/"]), false));
    assert_eq!(page(&bed, "s", "", "", 1000), (texts(&["sample.jpg"]), vec![], false));
}

/// User guide, "Organizing objects using prefixes".
#[test]
pub fn the_user_guides_states() {
    let bed = bed_of(&["Development/Projects.xls", "Finance/statement1.pdf", "Private/taxdocument.pdf", "s3-dg.pdf"]);
    let folders = texts(&["Development/", "Finance/", "Private/"]);
    assert_eq!(page(&bed, "", "/", "", 1000), (texts(&["s3-dg.pdf"]), folders, false));
    assert_eq!(page(&bed, "Finance/", "/", "", 1000), (texts(&["Finance/statement1.pdf"]), vec![], false));
    assert_eq!(page(&bed, "none", "/", "", 1000), (vec![], vec![], false));
}

/// The pages of the common suites: a marker that is a common prefix passes over all of it.
#[test]
pub fn pages_with_a_delimiter_go_on_where_they_ended() {
    let bed = bed_of(&["asdf", "boo/bar", "boo/baz/xyzzy", "cquux/thud", "cquux/bla"]);
    assert_eq!(page(&bed, "", "/", "", 1), (texts(&["asdf"]), vec![], true));
    assert_eq!(page(&bed, "", "/", "asdf", 1), (vec![], texts(&["boo/"]), true));
    assert_eq!(page(&bed, "", "/", "boo/", 1), (vec![], texts(&["cquux/"]), false));
    assert_eq!(page(&bed, "", "/", "", 2), (texts(&["asdf"]), texts(&["boo/"]), true));
    assert_eq!(page(&bed, "", "/", "boo/", 2), (vec![], texts(&["cquux/"]), false));
    assert_eq!(page(&bed, "boo/", "/", "", 1), (texts(&["boo/bar"]), vec![], true));
    assert_eq!(page(&bed, "boo/", "/", "boo/bar", 1), (vec![], texts(&["boo/baz/"]), false));
    assert_eq!(page(&bed, "boo/", "/", "", 2), (texts(&["boo/bar"]), texts(&["boo/baz/"]), false));
    // A marker inside of a common prefix: what follows it is still told.
    assert_eq!(page(&bed, "", "/", "boo/bar", 9), (vec![], texts(&["boo/", "cquux/"]), false));
}

#[test]
pub fn delimiters_of_any_kind() {
    let bed = bed_of(&["bar", "baz", "cab", "foo", "b\u{1}x", "a%b", "a%c", "äöü", "äöa", "x--y--z"]);
    assert_eq!(page(&bed, "", "a", "", 1000).1, texts(&["a", "ba", "ca", "äöa"]));
    assert_eq!(page(&bed, "", "%", "", 1000).1, texts(&["a%"]));
    assert_eq!(page(&bed, "", "ö", "", 1000).1, texts(&["äö"]));
    assert_eq!(page(&bed, "", "--", "", 1000).1, texts(&["x--"]));
    assert_eq!(page(&bed, "b", "\u{1}", "", 1000).1, texts(&["b\u{1}"]));
    assert_eq!(page(&bed, "", "/", "", 0), (vec![], vec![], false));
    assert_eq!(page(&bed, "ba", "", "bar", 1000), (texts(&["baz"]), vec![], false));
    assert_eq!(page(&bed, "", "", "\u{10ffff}", 1000), (vec![], vec![], false));
}

/// The cost of a delimiter's page: rows visited, however many lie below.
#[test]
pub fn a_common_prefix_is_passed_over_unread() {
    let mut bed = Bed::serving();
    for at in 0..400 {
        bed.put(&format!("{}/{at:04}", at % 4), Versioning::Unversioned, 1).unwrap();
    }
    let visits = counting(&bed, bed.listing("", "/"));
    assert_eq!(visits.0, 4);
    assert!(visits.1 <= 5, "{} rows were visited for 4 prefixes", visits.1);
}

#[test]
pub fn versions_with_markers_of_key_and_version() {
    let mut bed = Bed::serving();
    let (one, two) = (bed.put("k", Versioning::Enabled, 1).unwrap(), bed.put("k", Versioning::Enabled, 2).unwrap());
    bed.delete("k", Versioning::Enabled, Version::Current).unwrap();
    bed.put("l", Versioning::Enabled, 4).unwrap();
    let (items, more) = bed.page(bed.listing("", ""), true).unwrap();
    let told: Vec<_> = items.into_iter().map(plain).collect();
    assert!(!more && told.len() == 4);
    let flags: Vec<_> = told
        .iter()
        .map(|(key, version)| (key.as_str(), version.as_ref().map(|(v, latest)| (v.marker, *latest))))
        .collect();
    let wanted = [("k", (true, true)), ("k", (false, false)), ("k", (false, false)), ("l", (false, true))];
    assert_eq!(flags, wanted.map(|(key, flags)| (key, Some(flags))));
    let after = |version| ListStart::AfterVersion { key: "k".into(), version };
    let rest = |start| bed.page(Listing { start, ..bed.listing("", "") }, true).unwrap().0.len();
    assert_eq!((rest(after(Version::Stamp(two))), rest(after(Version::Stamp(one)))), (2, 1));
    assert_eq!((rest(ListStart::After { key: "k".into() }), rest(after(Version::Current))), (1, 1));
}

/// The version marker names one that is gone meanwhile, and what follows is now the newest.
#[test]
pub fn a_version_marker_that_is_gone_keeps_its_place() {
    let mut bed = Bed::serving();
    let (_one, two) = (bed.put("k", Versioning::Enabled, 1).unwrap(), bed.put("k", Versioning::Enabled, 2).unwrap());
    bed.delete("k", Versioning::Enabled, Version::Stamp(two)).unwrap();
    let start = ListStart::AfterVersion { key: "k".into(), version: Version::Stamp(two) };
    let (items, _) = bed.page(Listing { start, ..bed.listing("", "") }, true).unwrap();
    assert!(matches!(items[..], [Item::Version { latest: true, .. }]), "{items:?}");
}
