use super::*;
use std::os::unix::fs::PermissionsExt;

#[test]
fn an_authority_issues_shows_and_rotates() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("ca");
    init(&directory, "dev").unwrap();
    assert!(matches!(init(&directory, "dev"), Err(CaError::Exists { .. })));
    let issued = issue(&directory, NodeId(3), &["127.0.0.1".into(), "localhost".into()], 30).unwrap();
    for key in [&issued.key, &directory.join("ca.key")] {
        assert_eq!(std::fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let shown = show(&directory).unwrap();
    assert_eq!(shown.len(), 2);
    assert!(shown[0].authority && !shown[1].authority);
    assert_eq!(shown[1].names, ["node-3.dev.hive", "127.0.0.1", "localhost"]);
    assert!(!shown[1].expired);
    assert_eq!((shown[1].not_after - shown[1].not_before) / 86_400, 31);
    let before = shown[0].subject.clone();
    rotate(&directory).unwrap();
    let authorities: Vec<_> = show(&directory).unwrap().into_iter().filter(|info| info.authority).collect();
    assert_eq!(authorities.len(), 2);
    assert!(authorities[0].subject != before && authorities[1].subject == before);
    rotate(&directory).unwrap();
    let authorities: Vec<_> = show(&directory).unwrap().into_iter().filter(|info| info.authority).collect();
    assert!(authorities.len() == 2 && authorities.iter().all(|info| info.subject != before));
    issue(&directory, NodeId(3), &[], 30).unwrap();
}

#[test]
fn mistakes_are_named() {
    let home = tempfile::tempdir().unwrap();
    assert!(init(home.path(), "No Such").unwrap_err().to_string().starts_with("world is \"No Such\"; use 1 to 63"));
    assert!(matches!(issue(home.path(), NodeId(1), &[], 1), Err(CaError::Absent { .. })));
    assert!(matches!(show(home.path()), Err(CaError::Absent { .. })));
    init(home.path(), "dev").unwrap();
    assert!(matches!(issue(home.path(), NodeId(0), &[], 1), Err(CaError::Invalid { .. })));
    assert!(matches!(issue(home.path(), NodeId(1), &[], 0), Err(CaError::Invalid { .. })));
    let two = issue(home.path(), NodeId(1), &["node-2.dev.hive".into()], 1).unwrap_err().to_string();
    assert!(two.contains("names exactly one node"), "{two}");
}

#[test]
fn days_become_dates() {
    let date = |day: i64| midnight(day).to_string();
    assert_eq!(date(0), "1970-01-01 0:00:00.0 +00:00:00");
    assert_eq!(date(11_016), "2000-02-29 0:00:00.0 +00:00:00");
    assert_eq!(date(-1), "1969-12-31 0:00:00.0 +00:00:00");
    assert_eq!(date(i64::MAX), "9999-12-31 0:00:00.0 +00:00:00");
}
