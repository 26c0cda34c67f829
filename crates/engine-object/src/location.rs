//! Where an engine's objects are, and the file in its directory that says so.
//!
//! Always: a directory made for one place is not opened with another: the data would seem to be gone.
//! Held by: `a_second_open_of_a_directory_waits_for_the_first`, `another_engines_directory_is_refused`.
//! Not here: what is in the place (`store.rs`).

use crate::failure::objects_failure;
use crate::ObjectConfig;
use base_engine::stored::failure::path_failure;
use base_engine::stored::Directory;
use base_engine::EngineError;
use base_objects::Place;
use std::io::Write;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// The file that names the place.
const LOCATION_FILE: &str = "location";
/// Where objects are if the configuration names no place.
const OWN_DIRECTORY: &str = "objects";
/// Everything that may lie in the directory besides what `Directory` keeps there.
pub const FILES: [&str; 2] = [LOCATION_FILE, OWN_DIRECTORY];
/// Characters of an identity that show in names; a hash of the whole follows.
const SHOWN_MAX: usize = 80;

/// A place and its name as configured.
pub struct Location(Place);

impl Location {
    /// The place that a configuration names for a directory.
    pub fn of(directory: &Path, config: &ObjectConfig) -> Result<Location, EngineError> {
        if config.url.is_empty() {
            return Ok(Location(Place::Directory(absolute(directory)?.join(OWN_DIRECTORY))));
        }
        let place = Place::parse(&config.url).map_err(|error| objects_failure(&error))?;
        Ok(Location(place.below(&owner_name(&config.identity))))
    }

    /// That place, with any owner.
    pub fn named(place: Place) -> Location {
        Location(place)
    }

    /// The place.
    pub fn place(&self) -> &Place {
        &self.0
    }

    /// The directory beneath, if it is one.
    pub fn disk(&self) -> Option<&Path> {
        match &self.0 {
            Place::Directory(path) => Some(path),
            _ => None,
        }
    }

    /// Compares with what the directory was made for, or writes it down.
    pub fn keep(&self, directory: &Directory) -> Result<(), EngineError> {
        let path = directory.path().join(LOCATION_FILE);
        if !directory.is_made() {
            let written = std::fs::File::create(&path).and_then(|mut file| {
                file.write_all(self.line().as_bytes())?;
                file.sync_all()
            });
            return written.map_err(|error| path_failure(&path, &error));
        }
        let found = std::fs::read_to_string(&path).map_err(|error| path_failure(&path, &error))?;
        if found.trim_end() != self.line().trim_end() {
            return Err(EngineError::WrongFormat(format!(
                "the data of {} is in {}, not in {}; set engine.object.url back, or give the engine an empty directory",
                directory.path().display(),
                found.trim_end().escape_debug(),
                self
            )));
        }
        Ok(())
    }

    /// Relative where it is the directory's own: that may be moved.
    fn line(&self) -> String {
        match &self.0 {
            Place::Directory(path) if path.ends_with(OWN_DIRECTORY) => format!("{OWN_DIRECTORY}\n"),
            place => format!("{place}\n"),
        }
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn absolute(path: &Path) -> Result<std::path::PathBuf, EngineError> {
    std::path::absolute(path).map_err(|error| path_failure(path, &error))
}

/// An identity as a name of objects: readable, and different for different ones.
fn owner_name(identity: &str) -> String {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let shown: String = identity.chars().take(SHOWN_MAX).map(|c| if known(c) { c } else { '-' }).collect();
    format!("{shown}-{:016x}", xxh3_64(identity.as_bytes())).trim_start_matches('-').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_owners_differ_and_are_no_paths() {
        let names = ["world a/../b lane 1", "world a/../b lane 2", "", "ü"].map(owner_name);
        for (at, name) in names.iter().enumerate() {
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')), "{name}");
            assert!(!names[..at].contains(name));
        }
    }
}
