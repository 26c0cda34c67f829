//! `hive-access.json`: this node's copy of the directory of users (docs/formats/access.md).
//!
//! ```text
//! {"format":1,"world":"…","epoch":7,"confirmed_ms":…,"sum":"<xxh3 of the next line>"}
//! {"user/root":{…},"token/…":{…}}
//! ```
//!
//! Always: written whole and synced, mode 0600; a file that is damaged, of another format or of another world lets nobody in until
//! the world is heard, and is said so (`tests::damage_lets_nobody_in`).
//! Not here: when it is written (access.rs).

use base_access::{Directory, Row, RowName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The file in the data directory.
pub const FILE: &str = "hive-access.json";
const FORMAT: u32 = 1;
/// A longer file is none: a hundred thousand rows have less.
const BYTES_MAX: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    world: String,
    epoch: u64,
    confirmed_ms: u64,
    sum: String,
}

/// What was kept.
#[derive(Default)]
pub struct Kept {
    pub directory: Directory,
    pub confirmed_ms: u64,
}

fn sum_of(rows: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(rows.as_bytes()))
}

/// What is kept in this data directory; and why nothing is, where a file is there.
pub fn read(data: &Path, world: &str) -> (Kept, Option<String>) {
    match read_file(&data.join(FILE), world) {
        Ok(kept) => (kept, None),
        Err(reason) => {
            let path = data.join(FILE).display().to_string();
            let remedy =
                "nobody is let in until this node has heard from the world's directory; the file is written again then";
            (Kept::default(), Some(format!("{path} is not read: {reason}; {remedy}")))
        }
    }
}

fn read_file(path: &Path, world: &str) -> Result<Kept, String> {
    use std::io::Read;
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Kept::default()),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let (head, rows) = text.split_once('\n').ok_or("it has no rows")?;
    let head: Head = serde_json::from_str(head).map_err(|error| error.to_string())?;
    if head.format != FORMAT {
        return Err(format!("it has format {}, this build knows {FORMAT}", head.format));
    }
    if head.world != world {
        return Err(format!("it is of world {}", head.world));
    }
    let rows = rows.trim_end_matches('\n');
    if head.sum != sum_of(rows) {
        return Err("it is damaged: its sum is another".into());
    }
    let rows: BTreeMap<RowName, Row> = serde_json::from_str(rows).map_err(|error| error.to_string())?;
    Ok(Kept { directory: Directory::new(head.epoch, rows), confirmed_ms: head.confirmed_ms })
}

/// Keeps this in place of what was there.
pub fn write(data: &Path, world: &str, directory: &Directory, confirmed_ms: u64) -> std::io::Result<()> {
    let rows = serde_json::to_string(directory.rows())?;
    let (sum, epoch) = (sum_of(&rows), directory.epoch());
    let head = Head { format: FORMAT, world: world.into(), epoch, confirmed_ms, sum };
    let text = format!("{}\n{rows}\n", serde_json::to_string(&head)?);
    edge_disk::files::write_whole(data, FILE, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_access::{RowBody, UserRow};

    fn directory() -> Directory {
        let alice = UserRow {
            id: 7,
            service: false,
            tenant: None,
            roles: Vec::new(),
            password: None,
            disabled: false,
            namespace: None,
            created_ms: 1,
            requests: Default::default(),
        };
        let row = Row { epoch: 3, changed_ms: 1, body: Some(RowBody::User(alice)) };
        Directory::new(3, [("user/alice".to_string(), row)].into())
    }

    #[test]
    fn what_is_written_is_read() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path(), "w").0.directory.epoch(), 0);
        write(home.path(), "w", &directory(), 99).unwrap();
        let (kept, warning) = read(home.path(), "w");
        assert_eq!((kept.directory.rows(), kept.confirmed_ms, warning), (directory().rows(), 99, None));
    }

    #[test]
    fn damage_lets_nobody_in() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "w", &directory(), 99).unwrap();
        let whole = std::fs::read(home.path().join(FILE)).unwrap();
        assert!(read(home.path(), "another").1.unwrap().contains("of world w"));
        for at in (0..whole.len()).step_by(3) {
            let mut torn = whole.clone();
            torn[at] ^= 1;
            std::fs::write(home.path().join(FILE), &torn).unwrap();
            let (kept, warning) = read(home.path(), "w");
            // The head's numbers are no secret and no right; everything else is under the sum.
            let rows = kept.directory.rows();
            assert!(rows.is_empty() || rows == directory().rows(), "byte {at}");
            assert!(warning.is_some() || rows == directory().rows(), "byte {at}");
        }
        std::fs::write(home.path().join(FILE), &whole[..whole.len() / 2]).unwrap();
        assert!(read(home.path(), "w").0.directory.rows().is_empty());
    }
}
