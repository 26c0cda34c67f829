//! What lies in an engine's directory, looked at before LMDB maps it: a damaged file that LMDB would
//! trust ends the process with SIGBUS, and a foreign one would be written into.
//!
//!   ENGINE     one line of text, written last when a directory is made: which engine, which format
//!   data.mdb   LMDB's file
//!   lock.mdb   LMDB's readers and writer; recreated at each opening
//!
//! Always: nothing is changed here before the directory is known to be ours.
//! Held by: `directories_of_others_are_refused_untouched`.
//! Not here: the marker inside the environment (`open.rs`).

use crate::failure::path_failure;
use crate::format::FORMAT_VERSION;
use base_engine::EngineError;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// LMDB's data file.
pub const DATA_FILE: &str = "data.mdb";
/// LMDB's lock file.
pub const LOCK_FILE: &str = "lock.mdb";
/// Says whose directory it is.
pub const ENGINE_FILE: &str = "ENGINE";
const ENGINE_FILE_NEW: &str = "ENGINE.new";
const ENGINE_LINE: &str = "hive engine lmdb format ";
/// `lost+found`: the directory may be a mount point.
const FILES_ALLOWED: [&str; 5] = [DATA_FILE, LOCK_FILE, ENGINE_FILE, ENGINE_FILE_NEW, "lost+found"];
/// An `ENGINE` file longer than this is not ours.
const ENGINE_FILE_BYTES_MAX: u64 = 256;

const PAGE_HEADER_BYTES: usize = 16;
const META_BYTES: usize = 136;
const META_PAGE_FLAG: u16 = 0x08;
const LMDB_MAGIC: u32 = 0xBEEF_C0DE;
const LMDB_VERSION: u32 = 1;
const PAGE_BYTES_MIN: u32 = 512;
const PAGE_BYTES_MAX: u32 = 65_536;
/// LMDB's number for "no page": an empty tree's root.
const NO_PAGE: u64 = u64::MAX;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing yet, or a making that a crash cut short.
    Nothing,
    /// An LMDB file. `ours`: `ENGINE` names this engine. `short`: the file ends before its last page,
    /// which LMDB allows if the pages missing are free ones.
    Data { ours: bool, entries: u64, pages: u64, page_bytes: u64, short: bool },
}

/// The fields of a meta page that matter here.
#[derive(Clone, Copy, Debug)]
struct MetaPage {
    page_bytes: u32,
    roots: [u64; 2],
    main_entries: u64,
    last_page: u64,
    transaction: u64,
}

/// Looks at a directory without changing it.
pub fn inspect(directory: &Path) -> Result<Found, EngineError> {
    refuse_foreign_files(directory)?;
    let ours = read_engine_file(directory)?;
    let data = directory.join(DATA_FILE);
    let bytes = match fs::metadata(&data) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Err(EngineError::WrongFormat(format!("{} is no file", data.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(path_failure(&data, &error)),
    };
    if bytes == 0 {
        return if ours {
            Err(EngineError::Corrupt(format!(
                "{} is missing or empty, but {ENGINE_FILE} says it was filled; rebuild the replica",
                data.display()
            )))
        } else {
            Ok(Found::Nothing)
        };
    }
    inspect_data(&data, bytes, ours)
}

fn inspect_data(data: &Path, bytes: u64, ours: bool) -> Result<Found, EngineError> {
    let file = File::open(data).map_err(|error| path_failure(data, &error))?;
    let mut head = Vec::new();
    file.take(2 * u64::from(PAGE_BYTES_MAX)).read_to_end(&mut head).map_err(|error| path_failure(data, &error))?;
    if !ours && head.iter().all(|byte| *byte == 0) && head.len() as u64 == bytes {
        return Ok(Found::Nothing); // Made, never written: LMDB writes both meta pages at once.
    }
    let damaged = |what: String| {
        let path = data.display();
        if ours {
            EngineError::Corrupt(format!("{path}: {what}; rebuild the replica"))
        } else {
            EngineError::WrongFormat(format!(
                "{path}: {what}; it is not the file of this engine, give the engine an empty directory"
            ))
        }
    };
    let meta = newest_meta(&head).map_err(damaged)?;
    let pages = meta.last_page.checked_add(1).filter(|pages| pages.checked_mul(u64::from(meta.page_bytes)).is_some());
    let pages = pages.ok_or_else(|| damaged(format!("last page {} is impossible", meta.last_page)))?;
    for root in meta.roots {
        if root != NO_PAGE && root >= pages {
            return Err(damaged(format!("a tree's root is page {root}, behind the last page {}", meta.last_page)));
        }
    }
    let page_bytes = u64::from(meta.page_bytes);
    Ok(Found::Data { ours, entries: meta.main_entries, pages, page_bytes, short: bytes < pages * page_bytes })
}

/// The meta page LMDB will use: of the two, the one of the later transaction.
fn newest_meta(head: &[u8]) -> Result<MetaPage, String> {
    let first = read_meta(head, 0)?;
    let second = read_meta(head, first.page_bytes as usize)?;
    if first.page_bytes != second.page_bytes {
        return Err(format!(
            "its two meta pages disagree on the page size: {} and {}",
            first.page_bytes, second.page_bytes
        ));
    }
    Ok(if second.transaction > first.transaction { second } else { first })
}

fn read_meta(head: &[u8], offset: usize) -> Result<MetaPage, String> {
    let page = head.get(offset..).and_then(|rest| rest.get(..PAGE_HEADER_BYTES + META_BYTES));
    let page = page.ok_or_else(|| format!("ends inside the meta page at offset {offset}"))?;
    let u16_at = |at: usize| u16::from_ne_bytes([page[at], page[at + 1]]);
    let u32_at = |at: usize| u32::from_ne_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    if u32_at(16) != LMDB_MAGIC || u16_at(10) & META_PAGE_FLAG == 0 {
        return Err(format!("offset {}: expected LMDB's magic {LMDB_MAGIC:#x}, found {:#x}", offset + 16, u32_at(16)));
    }
    if u32_at(20) != LMDB_VERSION {
        return Err(format!("offset {}: expected LMDB data version {LMDB_VERSION}, found {}", offset + 20, u32_at(20)));
    }
    let page_bytes = u32_at(40);
    if !page_bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes) {
        return Err(format!("offset {}: a page size of {page_bytes} is impossible", offset + 40));
    }
    Ok(MetaPage {
        page_bytes,
        roots: [u64_at(80), u64_at(128)],
        main_entries: u64_at(120),
        last_page: u64_at(136),
        transaction: u64_at(144),
    })
}

fn refuse_foreign_files(directory: &Path) -> Result<(), EngineError> {
    let listing = fs::read_dir(directory).map_err(|error| path_failure(directory, &error))?;
    for entry in listing {
        let entry = entry.map_err(|error| path_failure(directory, &error))?;
        let name = entry.file_name();
        if !FILES_ALLOWED.iter().any(|allowed| name == *allowed) {
            return Err(EngineError::WrongFormat(format!(
                "{} holds {name:?}, which is no file of engine lmdb; give the engine a directory of its own",
                directory.display()
            )));
        }
    }
    Ok(())
}

/// Whether `ENGINE` is there; an error if it names something else.
fn read_engine_file(directory: &Path) -> Result<bool, EngineError> {
    let path = directory.join(ENGINE_FILE);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(path_failure(&path, &error)),
    };
    let mut text = Vec::new();
    file.take(ENGINE_FILE_BYTES_MAX).read_to_end(&mut text).map_err(|error| path_failure(&path, &error))?;
    let text = String::from_utf8_lossy(&text);
    let version = text.strip_prefix(ENGINE_LINE).and_then(|rest| rest.trim_end().parse::<u32>().ok());
    match version {
        Some(version) if version <= FORMAT_VERSION && version > 0 => Ok(true),
        Some(version) => Err(newer_format(directory, version)),
        None => Err(EngineError::WrongFormat(format!(
            "{} says \"{}\", not \"{ENGINE_LINE}{FORMAT_VERSION}\"; the directory belongs to something else",
            path.display(),
            text.trim_end().escape_debug()
        ))),
    }
}

/// The refusal of a format of a later release.
pub fn newer_format(directory: &Path, version: u32) -> EngineError {
    EngineError::WrongFormat(format!(
        "{} has lmdb engine format {version}, this program reads up to {FORMAT_VERSION}; start it with the newer release",
        directory.display()
    ))
}

/// Removes a data file that was made but never written: LMDB takes zeroes for damage.
pub fn remove_unwritten(directory: &Path) -> Result<(), EngineError> {
    let path = directory.join(DATA_FILE);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(path_failure(&path, &error)),
        _ => Ok(()),
    }
}

/// Makes the file as long as its meta page says, so that no read of the map runs past its end.
pub fn lengthen(directory: &Path, bytes: u64) -> Result<(), EngineError> {
    let path = directory.join(DATA_FILE);
    let lengthened = File::options().write(true).open(&path).and_then(|file| file.set_len(bytes));
    lengthened.map_err(|error| path_failure(&path, &error))
}

/// Writes `ENGINE`: whole or not at all.
pub fn write_engine_file(directory: &Path) -> Result<(), EngineError> {
    let (new, path): (PathBuf, PathBuf) = (directory.join(ENGINE_FILE_NEW), directory.join(ENGINE_FILE));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(format!("{ENGINE_LINE}{FORMAT_VERSION}\n").as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, &path)).map_err(|error| path_failure(&path, &error))?;
    sync_directory(directory)
}

/// Makes the names in a directory durable.
pub fn sync_directory(directory: &Path) -> Result<(), EngineError> {
    File::open(directory).and_then(|handle| handle.sync_all()).map_err(|error| path_failure(directory, &error))
}
