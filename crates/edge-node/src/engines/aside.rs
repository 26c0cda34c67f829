//! Setting a damaged engine aside, so that what it held is rebuilt from the other members, as after a lost disk.
//!
//! ```text
//!   a write finds damage ─▶ <engine>.damaged says what, the process ends ─┐
//!   opening finds damage ──────────────────────────────────────────────────┴─▶ <engine>.damaged-<seconds>, a new one
//! ```
//!
//! Always: nothing is deleted; an engine of somebody else, or of a newer form, is never touched (`WrongFormat`); an error
//! of the system (`Io`) sets nothing aside, for it says nothing of what lies on the disk.
//! Held by: `a_damaged_engine_is_set_aside_and_made_anew`.
//! Not here: what becomes of the replicas (core-cluster: a log that begins behind an empty engine is a damaged replica,
//! which is replaced under a new id; one whose log is whole applies it again).

use base_engine::EngineError;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of what was found that are kept.
const FOUND_BYTES_MAX: usize = 4 << 10;

fn marker(engine: &Path) -> PathBuf {
    engine.with_extension("damaged")
}

fn sync_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), |parent| std::fs::File::open(parent)?.sync_all())
}

/// Notes beside an engine that it is damaged: it is set aside before it is opened again.
pub fn mark(engine: &Path, found: &str) {
    let found: String = found.chars().take(FOUND_BYTES_MAX).collect();
    let noted = std::fs::write(marker(engine), found).and_then(|()| sync_parent(engine));
    if let Err(error) = noted {
        tracing::error!("{}: cannot note that the engine is damaged: {error}", marker(engine).display());
    }
}

/// Opens an engine; a damaged one is set aside and recreated.
pub fn open_or_set_aside<T>(engine: &Path, open: impl Fn(&Path) -> Result<T, EngineError>) -> Result<T, String> {
    if let Ok(found) = std::fs::read_to_string(marker(engine)) {
        set_aside(engine, &found)?;
    }
    match open(engine) {
        Err(EngineError::Corrupt(found)) => {
            set_aside(engine, &found)?;
            open(engine).map_err(|error| error.to_string())
        }
        opened => opened.map_err(|error| error.to_string()),
    }
}

fn set_aside(engine: &Path, found: &str) -> Result<(), String> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut to = engine.with_extension(format!("damaged-{seconds}"));
    for again in 1..u32::MAX {
        if !to.exists() {
            break;
        }
        to = engine.with_extension(format!("damaged-{seconds}-{again}"));
    }
    let failed = |error: std::io::Error| {
        format!("engine {} is damaged ({found}) and cannot be set aside as {}: {error}", engine.display(), to.display())
    };
    match std::fs::rename(engine, &to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        moved => moved.map_err(failed)?,
    }
    // In this order: with the marker left behind, an engine that is not there is set aside once more, which does nothing.
    sync_parent(engine).map_err(failed)?;
    match std::fs::remove_file(marker(engine)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => sync_parent(engine).map_err(failed)?,
    }
    crate::data::make_directory(engine).map_err(failed)?;
    tracing::error!(
        "engine {} is damaged ({found}); it is set aside as {} and its replicas are rebuilt from the other members; \
         remove it when they are, and check this disk and memory",
        engine.display(),
        to.display()
    );
    Ok(())
}
