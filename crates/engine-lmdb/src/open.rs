//! Opening an environment: what is found is judged, then mapped, then its marker is read.
//!
//!   Nothing ──make──▶ marker, ENGINE ──▶ open
//!   Data, short ──lengthen──▶ whole check ──▶ open        (else: Corrupt)
//!   Data, not ours, empty ──▶ a making cut short: made again
//!   Data, not ours, filled, no marker ──▶ WrongFormat, untouched
//!   marker of version 1 ──▶ fences are made, marker and ENGINE of version 2
//!   damaged roll ──▶ recreated
//!
//! Always: a directory that is refused keeps every byte it had.
//! Held by: `directories_of_others_are_refused_untouched`, `newer_formats_and_other_identities_are_refused_untouched`.
//! Not here: reading the file's head (`directory.rs`), reads and writes.

use crate::directory::{self, Found, DATA_FILE, LOCK_FILE};
use crate::environment::Environment;
use crate::failure::{lmdb_failure, path_failure};
use crate::fenced;
use crate::format::{self, DATABASES_MAX, FORMAT_VERSION, IDENTITY_KEY, META_DATABASE, SPACES_DATABASE, VERSION_KEY};
use crate::format::{FENCES_DATABASE, VERSION_WITHOUT_FENCES};
use crate::{LmdbConfig, View};
use base_engine::fences::{FencedView, Roll};
use base_engine::EngineError;
use heed::types::Bytes as RawBytes;
use heed::{AnyTls, CommitOrAbort, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls};
use std::path::Path;

/// Readers at once: snapshots, and visits within visits.
const READERS_MAX: u32 = 1024;
/// The map is a multiple of this on every machine we know.
const MAP_ALIGNMENT: usize = 65_536;

/// Opens or makes the environment of a directory.
pub fn open(directory: &Path, config: &LmdbConfig) -> Result<Environment, EngineError> {
    std::fs::create_dir_all(directory).map_err(|error| path_failure(directory, &error))?;
    let found = directory::inspect(directory)?;
    let had_lock = directory.join(LOCK_FILE).exists();
    if found == Found::Nothing {
        directory::remove_unwritten(directory)?;
    }
    if let Found::Data { ours: true, short: true, pages, page_bytes, .. } = found {
        directory::lengthen(directory, pages * page_bytes)?;
    }
    if let Found::Data { ours: false, short: true, .. } = found {
        let path = directory.join(DATA_FILE);
        return Err(EngineError::WrongFormat(format!(
            "{} is shorter than its head says and not marked as ours",
            path.display()
        )));
    }
    let env = map(directory, config)?;
    let environment = match attach(&env, directory, config, &found) {
        Ok(environment) => environment,
        Err(error) => {
            drop(env);
            if !had_lock {
                let _ = std::fs::remove_file(directory.join(LOCK_FILE)); // Leave it as it was found.
            }
            return Err(error);
        }
    };
    if matches!(found, Found::Data { short: true, .. }) {
        crate::verify::whole(&environment)?;
    }
    env.clear_stale_readers().map_err(|error| lmdb_failure("clearing stale readers", error))?;
    Ok(environment)
}

/// Maps the file. No write map: a stray pointer must not reach the file. No skipping of page
/// clearing (`NO_MEM_INIT`): heap memory, secrets included, would reach the disk.
fn map(directory: &Path, config: &LmdbConfig) -> Result<Env<WithoutTls>, EngineError> {
    let map_bytes = usize::try_from(config.map_bytes_max).unwrap_or(usize::MAX) / MAP_ALIGNMENT * MAP_ALIGNMENT;
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(map_bytes.max(MAP_ALIGNMENT)).max_dbs(DATABASES_MAX).max_readers(READERS_MAX);
    // SAFETY: the file is ours alone (an edge-node holds the data directory's lock) and is changed by
    // LMDB only; its length was checked against its meta page. The flag only turns off read-ahead:
    // reads are points and short ranges. What a changed file could still do: docs/engines/lmdb.md.
    let env = unsafe { options.flags(EnvFlags::NO_READ_AHEAD).open(directory) };
    env.map_err(|error| lmdb_failure(&format!("opening {}", directory.display()), error))
}

fn attach(
    env: &Env<WithoutTls>,
    directory: &Path,
    config: &LmdbConfig,
    found: &Found,
) -> Result<Environment, EngineError> {
    if let Some(environment) = attach_existing(env)? {
        let version = check_marker(&environment, directory, config)?;
        if version == Some(VERSION_WITHOUT_FENCES) {
            let environment = with_fences(env, &environment)?;
            directory::write_engine_file(directory)?;
            return Ok(environment);
        }
        if !matches!(found, Found::Data { ours: true, .. }) && version.is_some() {
            directory::write_engine_file(directory)?; // The making was cut short before its last step.
        }
        if version.is_some() {
            let environment = attach_fences(env, environment)?;
            repair_roll(&environment)?;
            return Ok(environment);
        }
    }
    match found {
        Found::Nothing | Found::Data { ours: false, entries: 0, .. } => make(env, directory, config),
        Found::Data { ours: false, .. } => Err(EngineError::WrongFormat(format!(
            "{} holds an LMDB file of another program; give the engine an empty directory",
            directory.display()
        ))),
        Found::Data { ours: true, .. } => Err(EngineError::Corrupt(format!(
            "{} has lost the format marker inside its file; rebuild the replica",
            directory.display()
        ))),
    }
}

/// The two databases that every version has, if both are there; in the place of the third stands the first.
fn attach_existing(env: &Env<WithoutTls>) -> Result<Option<Environment>, EngineError> {
    let failed = |error: heed::Error| lmdb_failure("opening the databases", error);
    let reader = env.read_txn().map_err(failed)?;
    let opened = env.open_databases_and_commit(reader, |opener, reader| -> Result<_, heed::Error> {
        let spaces = opener.open_database::<RawBytes, RawBytes>(reader, Some(SPACES_DATABASE))?;
        let meta = opener.open_database::<RawBytes, RawBytes>(reader, Some(META_DATABASE))?;
        Ok(CommitOrAbort::<_, ()>::Commit((spaces, meta)))
    });
    match opened.map_err(failed)? {
        CommitOrAbort::Commit((Some(spaces), Some(meta))) => {
            Ok(Some(Environment { env: env.clone(), spaces, meta, fences: spaces }))
        }
        _ => Ok(None),
    }
}

/// The third database of an environment whose marker says that it is there.
fn attach_fences(env: &Env<WithoutTls>, environment: Environment) -> Result<Environment, EngineError> {
    let failed = |error: heed::Error| lmdb_failure("opening the databases", error);
    let reader = env.read_txn().map_err(failed)?;
    let opened = env.open_databases_and_commit(reader, |opener, reader| -> Result<_, heed::Error> {
        let fences = opener.open_database::<RawBytes, RawBytes>(reader, Some(FENCES_DATABASE))?;
        Ok(CommitOrAbort::<_, ()>::Commit(fences))
    });
    match opened.map_err(failed)? {
        CommitOrAbort::Commit(Some(fences)) => Ok(Environment { fences, ..environment }),
        _ => Err(EngineError::Corrupt("the database of fences is lost; rebuild the replica".into())),
    }
}

/// An environment of the version before fences gets them: all is read once. Cut short, it is begun again.
fn with_fences(env: &Env<WithoutTls>, environment: &Environment) -> Result<Environment, EngineError> {
    let failed = |error: heed::Error| lmdb_failure("making fences", error);
    let writer = env.write_txn().map_err(failed)?;
    let made = env.create_databases_and_commit(writer, |opener, writer| -> Result<_, heed::Error> {
        let fences = opener.create_database::<RawBytes, RawBytes>(writer, Some(FENCES_DATABASE))?;
        Ok(CommitOrAbort::<_, ()>::Commit(fences))
    });
    let environment = Environment { fences: made.map_err(failed)?.unwrap_commit(), ..environment.clone() };
    let mut writer = env.write_txn().map_err(failed)?;
    fenced::make_all(&environment, &mut writer)?;
    let version = format::sealed(VERSION_KEY, &FORMAT_VERSION.to_le_bytes());
    environment.meta.put(&mut writer, VERSION_KEY, &version).map_err(failed)?;
    writer.commit().map_err(failed)?;
    Ok(environment)
}

/// A damaged roll is made of what is found: it only says which spaces are not empty.
fn repair_roll(environment: &Environment) -> Result<(), EngineError> {
    let failed = |error: heed::Error| lmdb_failure("making the roll of spaces", error);
    {
        let reader = environment.env.read_txn().map_err(failed)?;
        match (View { environment, reader: &reader }).roll() {
            Err(EngineError::Corrupt(_)) => {}
            other => return other.map(drop),
        }
    }
    let mut writer = environment.env.write_txn().map_err(failed)?;
    let roll = fenced::found_roll(environment, &writer)?;
    fenced::put_roll(environment, &mut writer, &roll)?;
    writer.commit().map_err(failed)
}

/// The version of the marker, if there is one; an error if it is not one we may write under.
fn check_marker(environment: &Environment, directory: &Path, config: &LmdbConfig) -> Result<Option<u32>, EngineError> {
    let reader = environment.env.read_txn().map_err(|error| lmdb_failure("reading the format marker", error))?;
    let Some(version) = read_meta(environment, &reader, VERSION_KEY)? else { return Ok(None) };
    let version = version.try_into().map(u32::from_le_bytes).map_err(|_| {
        EngineError::Corrupt(format!("the format marker in {} is not 4 bytes long", directory.display()))
    })?;
    if version == 0 || version > FORMAT_VERSION {
        return Err(directory::newer_format(directory, version));
    }
    let identity = read_meta(environment, &reader, IDENTITY_KEY)?.unwrap_or_default();
    if !config.identity.is_empty() && identity != config.identity.as_bytes() {
        return Err(EngineError::WrongFormat(format!(
            "{} belongs to \"{}\", not to \"{}\"; restore the right directory or give an empty one",
            directory.display(),
            String::from_utf8_lossy(&identity).escape_debug(),
            config.identity.escape_debug()
        )));
    }
    Ok(Some(version))
}

fn read_meta(
    environment: &Environment,
    reader: &RoTxn<'_, AnyTls>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, EngineError> {
    let stored = environment.meta.get(reader, key).map_err(|error| lmdb_failure("reading the format marker", error))?;
    stored.map(|stored| format::unseal(key, stored).map(<[u8]>::to_vec)).transpose()
}

fn make(env: &Env<WithoutTls>, directory: &Path, config: &LmdbConfig) -> Result<Environment, EngineError> {
    let failed = |error: heed::Error| lmdb_failure("making the databases", error);
    let writer = env.write_txn().map_err(failed)?;
    let made = env.create_databases_and_commit(writer, |opener, writer| -> Result<_, heed::Error> {
        let spaces = opener.create_database::<RawBytes, RawBytes>(writer, Some(SPACES_DATABASE))?;
        let meta = opener.create_database::<RawBytes, RawBytes>(writer, Some(META_DATABASE))?;
        let version = FORMAT_VERSION.to_le_bytes();
        meta.put(writer, VERSION_KEY, &format::sealed(VERSION_KEY, &version))?;
        meta.put(writer, IDENTITY_KEY, &format::sealed(IDENTITY_KEY, config.identity.as_bytes()))?;
        let fences = opener.create_database::<RawBytes, RawBytes>(writer, Some(FENCES_DATABASE))?;
        meta.put(writer, format::ROLL_KEY, &format::sealed(format::ROLL_KEY, &Roll::default().encode()))?;
        Ok(CommitOrAbort::<_, ()>::Commit((spaces, meta, fences)))
    });
    let (spaces, meta, fences) = made.map_err(failed)?.unwrap_commit();
    directory::sync_directory(directory)?;
    directory::write_engine_file(directory)?;
    Ok(Environment { env: env.clone(), spaces, meta, fences })
}
