//! What listings of a bucket at rest must have in common: groups are those of the keys, counts those of the entries, and
//! behind a marker is the version that it hides.
//!
//! Not here: asking (`run/buckets`), which versions there are (`s3_versions`).

use base_types::s3::{ListObjectsV2, ObjectCount, ObjectEntry, ObjectPage, S3Action, VersionEntry};

/// By the first, all of a client's keys fall into groups; by the second some do, and some lie right behind a group.
pub const DELIMITERS: [&str; 2] = ["/", "1"];

/// The call for the page behind another.
pub fn list_by_groups(bucket: &str, delimiter: Option<&str>, max_keys: u32, behind: Option<&ObjectPage>) -> S3Action {
    ListObjectsV2 {
        bucket: bucket.to_string(),
        delimiter: delimiter.map(str::to_string),
        max_keys: Some(max_keys),
        continuation_token: behind.and_then(|page| page.next_continuation_token.clone()),
        ..ListObjectsV2::default()
    }
    .into()
}

/// Keys that hold no delimiter, and the groups of the others; both in order.
pub fn grouped<'k>(keys: impl Iterator<Item = &'k str>, delimiter: &str) -> (Vec<String>, Vec<String>) {
    let (mut alone, mut groups) = (Vec::new(), Vec::<String>::new());
    for key in keys {
        match key.find(delimiter).map(|at| &key[..at + delimiter.len()]) {
            None => alone.push(key.to_string()),
            Some(group) if groups.last().is_some_and(|last| last == group) => {}
            Some(group) => groups.push(group.to_string()),
        }
    }
    (alone, groups)
}

/// What a bucket without versions counts.
pub fn count_of_objects(objects: &[ObjectEntry]) -> ObjectCount {
    let keys = objects.len() as u64;
    ObjectCount { keys, versions: keys, bytes: objects.iter().map(|object| object.size).sum() }
}

/// What a bucket with versions counts.
pub fn count_of_versions(versions: &[VersionEntry]) -> ObjectCount {
    let shown = versions.iter().filter(|version| version.is_latest && !version.delete_marker);
    let bytes = versions.iter().map(|version| version.size).sum();
    ObjectCount { keys: shown.count() as u64, versions: versions.len() as u64, bytes }
}

/// Markers that are the newest of their key, each with the next older version.
pub fn hidden(versions: &[VersionEntry]) -> Vec<(&VersionEntry, &VersionEntry)> {
    let pairs = versions.windows(2).map(|pair| (&pair[0], &pair[1]));
    let hides = |(marker, behind): &(&VersionEntry, &VersionEntry)| {
        marker.is_latest && marker.delete_marker && marker.key == behind.key && !behind.delete_marker
    };
    pairs.filter(hides).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(key: &str, is_latest: bool, delete_marker: bool) -> VersionEntry {
        VersionEntry { key: key.to_string(), is_latest, delete_marker, size: 7, ..VersionEntry::default() }
    }

    #[test]
    fn keys_fall_into_groups_in_order() {
        let keys = ["0/01", "0/10", "0/11", "0/20", "0/21", "1/00"];
        let (alone, groups) = grouped(keys.into_iter(), "1");
        assert_eq!(alone, ["0/20"]);
        assert_eq!(groups, ["0/01", "0/1", "0/21", "1"]);
        assert_eq!(grouped(keys.into_iter(), "/"), (vec![], vec!["0/".to_string(), "1/".to_string()]));
    }

    #[test]
    fn a_marker_hides_the_version_right_behind_it() {
        let versions = [
            version("a", true, true),
            version("a", false, false),
            version("b", true, true),
            version("b", false, true),
            version("b", false, false),
            version("c", true, false),
            version("d", true, true),
        ];
        let hidden = hidden(&versions);
        assert_eq!(hidden.len(), 1);
        assert_eq!((hidden[0].0.key.as_str(), hidden[0].1.delete_marker), ("a", false));
        assert_eq!(count_of_versions(&versions), ObjectCount { keys: 1, versions: 7, bytes: 49 });
    }
}
