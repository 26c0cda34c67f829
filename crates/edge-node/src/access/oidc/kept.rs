//! `hive-oidc-keys.json`: the keys that each issuer gave last, for a node that starts while an issuer does not answer
//! (docs/formats/access.md).
//!
//! ```text
//! {"format":1,"sum":"<xxh3 of the next line>"}
//! {"https://login.example.org":{"given_ms":…,"document":"{\"keys\":[…]}"}}
//! ```
//!
//! Always: written whole and synced after each fetch, mode 0600 by the process's mask; it says when an issuer gave its keys, so a restart
//! makes them no younger (`tests::kept_keys_are_no_younger`); a file that is damaged, too long or of another format counts for nothing
//! and is said so, and the next fetch writes it again (`tests::damage_is_refused_and_written_over`).
//! Not here: how long keys count (oidc.rs), what a key is (keys.rs).

use super::fetch::DOCUMENT_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The file in the data directory.
pub const FILE: &str = "hive-oidc-keys.json";
const FORMAT: u32 = 1;
/// The most issuers in it; those of node.toml are fewer.
const ISSUERS_MAX: usize = 16;
/// A longer file is none: each document as JSON's text, and the rest.
const BYTES_MAX: u64 = (ISSUERS_MAX as u64 * 2 + 1) * DOCUMENT_BYTES_MAX as u64;

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    sum: String,
}

/// What an issuer gave.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Given {
    /// When that was, Unix milliseconds.
    pub given_ms: u64,
    /// Its keys as it wrote them.
    pub document: String,
}

/// The file, and what is in it.
#[derive(Default)]
pub struct Kept {
    data: PathBuf,
    given: Mutex<BTreeMap<String, Given>>,
}

fn sum_of(line: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(line.as_bytes()))
}

impl Kept {
    /// What is kept in this data directory for these issuers; and why nothing is, where a file is there.
    pub fn open(data: &Path, issuers: &[&str]) -> (Kept, Option<String>) {
        let path = data.join(FILE);
        let (mut given, warning) = match read(&path) {
            Ok(given) => (given, None),
            Err(reason) => {
                let remedy = "users of an OIDC issuer get in once it gives its keys; the file is written again then";
                (BTreeMap::new(), Some(format!("{} is not read: {reason}; {remedy}", path.display())))
            }
        };
        given.retain(|issuer, _| issuers.contains(&issuer.as_str()));
        (Kept { data: data.into(), given: Mutex::new(given) }, warning)
    }

    /// What this issuer gave last.
    pub fn of(&self, issuer: &str) -> Option<Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).get(issuer).cloned()
    }

    /// Keeps what an issuer gave now.
    pub fn keep(&self, issuer: &str, given: Given) -> std::io::Result<()> {
        let mut all = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < ISSUERS_MAX || all.contains_key(issuer) {
            all.insert(issuer.into(), given);
        }
        let line = serde_json::to_string(&*all)?;
        let head = serde_json::to_string(&Head { format: FORMAT, sum: sum_of(&line) })?;
        edge_disk::files::write_whole(&self.data, FILE, format!("{head}\n{line}\n").as_bytes())
    }
}

fn read(path: &Path) -> Result<BTreeMap<String, Given>, String> {
    use std::io::Read;
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    parse(&text)
}

/// What a file says.
pub fn parse(text: &str) -> Result<BTreeMap<String, Given>, String> {
    let (head, line) = text.split_once('\n').ok_or("it has no second line")?;
    let head: Head = serde_json::from_str(head).map_err(|error| error.to_string())?;
    if head.format != FORMAT {
        return Err(format!("it has format {}, this build knows {FORMAT}", head.format));
    }
    let line = line.trim_end_matches('\n');
    if head.sum != sum_of(line) {
        return Err("it is damaged: its sum is another".into());
    }
    let given: BTreeMap<String, Given> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match given.len() <= ISSUERS_MAX && given.values().all(|given| given.document.len() <= DOCUMENT_BYTES_MAX) {
        true => Ok(given),
        false => Err("it has more issuers, or longer keys, than this build takes".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://corp.example";

    fn given(given_ms: u64) -> Given {
        Given { given_ms, document: r#"{"keys":[]}"#.into() }
    }

    #[test]
    fn what_is_kept_is_read() {
        let home = tempfile::tempdir().unwrap();
        let (kept, warning) = Kept::open(home.path(), &[ISSUER]);
        assert_eq!((kept.of(ISSUER), warning), (None, None));
        kept.keep(ISSUER, given(7)).unwrap();
        kept.keep("https://other.example", given(8)).unwrap();
        let (kept, warning) = Kept::open(home.path(), &[ISSUER]);
        assert_eq!((kept.of(ISSUER), warning), (Some(given(7)), None));
        assert_eq!(kept.of("https://other.example"), None, "an issuer that node.toml does not name any more");
        for at in 0..3 * ISSUERS_MAX {
            kept.keep(&format!("https://{at}.example"), given(9)).unwrap();
        }
        let text = std::fs::read_to_string(home.path().join(FILE)).unwrap();
        assert_eq!(parse(&text).unwrap().len(), ISSUERS_MAX);
    }

    #[test]
    fn damage_is_refused_and_written_over() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(FILE);
        Kept::open(home.path(), &[ISSUER]).0.keep(ISSUER, given(7)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut damaged: Vec<Vec<u8>> = (0..whole.len() - 1).map(|length| whole[..length].to_vec()).collect();
        damaged.extend((0..whole.len() - 1).map(|at| {
            let mut other = whole.clone();
            other[at] ^= 0x11;
            other
        }));
        let deep = "[".repeat(100_000);
        damaged.push(format!("{{\"format\":1,\"sum\":\"{}\"}}\n{deep}\n", sum_of(&deep)).into_bytes());
        damaged.push(b"{\"format\":2,\"sum\":\"\"}\n{}\n".to_vec());
        for bytes in damaged {
            std::fs::write(&path, &bytes).unwrap();
            let (kept, warning) = Kept::open(home.path(), &[ISSUER]);
            assert!(kept.of(ISSUER).is_none(), "{bytes:?}");
            assert!(warning.is_some_and(|text| text.len() < 1_024), "{bytes:?}");
        }
        let (kept, _) = Kept::open(home.path(), &[ISSUER]);
        kept.keep(ISSUER, given(9)).unwrap();
        assert_eq!(Kept::open(home.path(), &[ISSUER]).0.of(ISSUER), Some(given(9)));
    }
}
