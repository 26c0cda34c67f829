use super::*;
use crate::testing::golden;

fn open(path: &Path, world: &str, node: u64, lanes: u16) -> Result<DataDirectory, DataError> {
    DataDirectory::open(path, world, NodeId(node), lanes)
}

fn listing(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_directory_is_made_once_and_known_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node-1");
    let made = open(&path, "dev", 1, 2).unwrap();
    assert!(made.fresh && made.lanes == 2 && made.disk.0 != 0);
    let disk = made.disk;
    assert!(made.log(1).is_dir());
    assert!(matches!(open(&path, "dev", 1, 2), Err(DataError::InUse { .. })));
    drop(made);
    // Lanes are the directory's, whatever the configuration says later.
    let again = open(&path, "dev", 1, 8).unwrap();
    assert!(!again.fresh && again.lanes == 2 && again.disk == disk);
    let other = open(&root.path().join("node-2"), "dev", 2, 1).unwrap();
    assert_ne!(other.disk, disk);
}

#[test]
fn what_belongs_to_another_is_refused_and_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("d");
    drop(open(&path, "dev", 1, 1).unwrap());
    let before = std::fs::read(path.join("hive-node.json")).unwrap();
    assert_eq!(
        open(&path, "prod", 1, 1).unwrap_err().to_string(),
        format!("data directory {} belongs to world \"dev\", not \"prod\"; correct world.name or data", path.display())
    );
    assert!(open(&path, "dev", 2, 1).unwrap_err().to_string().contains("belongs to node 1, not 2"));
    std::fs::write(path.join("hive-node.json"), r#"{"format":4,"shape":"unheard of"}"#).unwrap();
    assert!(open(&path, "dev", 1, 1)
        .unwrap_err()
        .to_string()
        .contains("has format 4, this build knows up to 3; start a newer build"));
    for damaged in [
        "",
        "{",
        "[]",
        r#"{"format":3}"#,
        r#"{"format":3,"level":1,"world":"dev","node":1,"disk":0,"lanes":1}"#,
        "\u{1}\u{2}",
    ] {
        std::fs::write(path.join("hive-node.json"), damaged).unwrap();
        assert!(matches!(open(&path, "dev", 1, 1), Err(DataError::Damaged { .. })), "{damaged:?}");
    }
    // What lies beside it cannot be read any more: refused before anything opens it.
    let older = r#"{"format":2,"world":"dev","node":1,"disk":7,"lanes":1}"#;
    std::fs::write(path.join("hive-node.json"), older).unwrap();
    let refused = open(&path, "dev", 1, 1).unwrap_err().to_string();
    assert!(refused.contains("has format 2, this build reads only 3; start the build that wrote it"), "{refused}");
    assert_eq!(std::fs::read_to_string(path.join("hive-node.json")).unwrap(), older);
    std::fs::write(path.join("hive-node.json"), before).unwrap();
    open(&path, "dev", 1, 1).unwrap();
}

#[test]
fn a_strangers_directory_stays_untouched() {
    let root = tempfile::tempdir().unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(root.path().join("thesis.tex"), "x").unwrap();
    std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(open(root.path(), "dev", 1, 1), Err(DataError::Foreign { .. })));
    assert_eq!(std::fs::metadata(root.path()).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(listing(root.path()), ["thesis.tex"]);
    // A start that was cut short leaves only our own files behind: it may be repeated.
    let cut = root.path().join("cut");
    std::fs::create_dir(&cut).unwrap();
    std::fs::write(cut.join("hive-node.json.new"), "{").unwrap();
    assert!(open(&cut, "dev", 1, 1).unwrap().fresh);
}

#[test]
fn incarnation_is_kept_with_the_identity() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let data = open(&path, "dev", 1, 1).unwrap();
    assert_eq!((data.incarnation(), data.superseded_by()), (0, 0));
    let disk = data.disk;
    data.set_incarnation(7, 9).unwrap();
    assert_eq!((data.incarnation(), data.superseded_by()), (7, 9));
    drop(data);
    let data = open(&path, "dev", 1, 1).unwrap();
    assert_eq!((data.incarnation(), data.superseded_by(), data.disk), (7, 9, disk));
}

#[test]
fn level_is_kept_and_only_rises() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let data = open(&path, "dev", 1, 1).unwrap();
    assert_eq!(data.level(), LEVEL_MIN);
    data.raise_level(FormatLevel(0)).unwrap();
    assert_eq!(data.level(), LEVEL_MIN);
    data.raise_level(LEVEL_MAX).unwrap();
    drop(data);
    assert_eq!(open(&path, "dev", 1, 1).unwrap().level(), LEVEL_MAX);
}

#[test]
fn directory_of_unserved_level_names_what_to_install() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    let data = open(&path, "dev", 1, 1).unwrap();
    data.raise_level(FormatLevel(900)).unwrap();
    drop(data);
    let refused = open(&path, "dev", 1, 1).unwrap_err();
    assert!(matches!(refused, DataError::NewerLevel { found: FormatLevel(900), .. }), "{refused}");
    assert!(refused.to_string().contains("install the version of hive that the other nodes"), "{refused}");
    let marker = std::fs::read_to_string(path.join("hive-node.json")).unwrap();
    // As a build that knows the level leaves it; the rest may mean anything.
    let newer = r#"{"format":3,"level":900,"level_since":"9.1.0","lanes":"unheard of"}"#;
    std::fs::write(path.join("hive-node.json"), newer).unwrap();
    let refused = open(&path, "dev", 1, 1).unwrap_err().to_string();
    assert!(refused.contains("format level 900") && refused.contains("install hive 9.1.0 or later"), "{refused}");
    std::fs::write(path.join("hive-node.json"), marker.replace("\"level\":900", "\"level\":0")).unwrap();
    let refused = open(&path, "dev", 1, 1).unwrap_err().to_string();
    assert!(refused.contains("hive ctl upgrade finalize"), "{refused}");
}

#[test]
fn origin_tells_its_incarnation() {
    let origin = Origin {
        world: "dev".into(),
        node: NodeId(1),
        disk: DiskId(2),
        lane: 0,
        lanes: 1,
        format: FORMAT,
        incarnation: 7,
    };
    assert_eq!(Origin::read(&origin.note()), Some(origin.clone()));
    let first = Origin { incarnation: 0, ..origin };
    assert!(!first.note().contains("incarnation"), "archives of the first life read as they did");
    assert_eq!(Origin::read(&first.note()), Some(first));
}

#[test]
fn files_of_the_first_release_are_read() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("d");
    let made = open(&path, "dev", 1, 1).unwrap();
    let marker = Marker {
        format: FORMAT,
        level: 1,
        level_since: Some("0.2.0".into()),
        world: "dev".into(),
        node: 1,
        disk: 77,
        lanes: 2,
        logs: Some(vec![17, 12]),
        incarnation: 3,
        superseded_by: 0,
    };
    golden::check("data-directory", "hive-node.json", &serde_json::to_vec(&marker).unwrap());
    drop(made);
    let known = golden::line("data-directory", "hive-node.json");
    let again: Marker = serde_json::from_slice(&known).unwrap();
    assert_eq!((again.disk, again.level, again.logs), (77, 1, Some(vec![17, 12])));
    std::fs::write(path.join("hive-node.json"), known).unwrap();
    // The marker is taken; the lanes that it names are not here.
    assert!(matches!(open(&path, "dev", 1, 1), Err(DataError::LogGone { .. })));
}
