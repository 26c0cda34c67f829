//! Files that are there whole or not at all: written beside, synced, renamed, their directory synced.

use crate::BackupError;
use ring::digest::{digest, SHA256};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

/// What a file is called before it has its name.
pub const TEMPORARY: &str = ".tmp";

/// Writes a file so that a crash leaves the old one or the new one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    let temporary = Path::new(&name);
    let written = File::create(temporary).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.map_err(|error| BackupError::file(temporary, error))?;
    fs::rename(temporary, path).map_err(|error| BackupError::file(path, error))?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes names in a directory durable.
pub fn sync_folder(folder: &Path) -> Result<(), BackupError> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| BackupError::file(folder, error))
}

/// A file's bytes, at most so many.
pub fn read_whole(path: &Path, most: u64) -> Result<Vec<u8>, BackupError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| BackupError::file(path, error))?;
    match bytes.len() as u64 > most {
        true => Err(BackupError::damaged(path.display().to_string(), format!("it is longer than {most} bytes"))),
        false => Ok(bytes),
    }
}

/// SHA-256, in hex as `sha256sum` prints it.
pub fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Bytes in hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
