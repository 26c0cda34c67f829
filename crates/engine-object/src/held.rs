//! What a place holds, for a reader that has the place and nothing else.
//!
//! ```text
//!  <place>/<name>/owner     two lines: the identity, and a note of its maker
//! ```
//!
//! Always: `owner` is written once, before the first commit; opening what is held makes its last writer
//! fail, as every opening does.
//! Not here: what is in the spaces.

use crate::failure::objects_failure;
use crate::location::Location;
use crate::store::{OPEN_PAUSE, OPEN_RETRIES_MAX};
use crate::waits::wait;
use crate::{ObjectConfig, ObjectEngine};
use base_engine::EngineError;
use base_objects::failure::explain;
use base_objects::object_store::path::Path as ObjectPath;
use base_objects::object_store::{Error, ObjectStore, ObjectStoreExt};
use base_objects::probe::only_new;
use base_objects::{Limited, Limits, Place};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The object that names the owner.
const OWNER: &str = "owner";
/// Engines looked at in one place.
const HELD_MAX: usize = 10_000;
/// How long looking may take.
const LOOK_DEADLINE: Duration = Duration::from_secs(120);

/// An engine's data in a place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Held {
    /// Whose it is: the identity it was made with.
    pub owner: String,
    /// The note it was made with.
    pub note: String,
    /// Where it is.
    pub url: String,
    /// How the place is opened.
    pub options: BTreeMap<String, String>,
}

/// One line, whatever it holds.
fn text_of(identity: &str, note: &str) -> String {
    format!("{}\n{}\n", identity.escape_default(), note.escape_default())
}

/// Writes whose it is, or compares.
pub(crate) async fn keep_owner(
    store: &dyn ObjectStore,
    place: &str,
    identity: &str,
    note: &str,
) -> Result<(), EngineError> {
    let path = ObjectPath::from(OWNER);
    let failed = |what: &str, error: &Error| objects_failure(&explain(what, place, error));
    let mut owner = None;
    for _ in 0..OPEN_RETRIES_MAX {
        match store.put_opts(&path, text_of(identity, note).into(), only_new()).await {
            Ok(_) => return Ok(()),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
            // Its answer may have been lost: what is there is read.
            Err(error) if base_objects::failure::is_transient(&error) => tokio::time::sleep(OPEN_PAUSE).await,
            Err(error) => return Err(failed("writing the owner", &error)),
        }
        match read_owner(store, &path).await {
            Ok((found, _)) => {
                owner = Some(found);
                break;
            }
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(failed("reading the owner", &error)),
        }
    }
    let owner = owner.ok_or_else(|| {
        EngineError::Io(format!("writing the owner at {place}: the store failed {OPEN_RETRIES_MAX} times; check it"))
    })?;
    if !identity.is_empty() && owner != identity.escape_default().to_string() {
        return Err(EngineError::WrongFormat(format!(
            "the data in {place} belongs to \"{owner}\", not to \"{}\"; give the engine a place of its own",
            identity.escape_default()
        )));
    }
    Ok(())
}

async fn read_owner(store: &dyn ObjectStore, path: &ObjectPath) -> Result<(String, String), Error> {
    let bytes = store.get(path).await?.bytes().await?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default().to_string();
    Ok((line(), line()))
}

/// The engines whose data is in a place, by owner. Nothing is written and nobody is disturbed.
pub fn held(url: &str, options: &BTreeMap<String, String>) -> Result<Vec<Held>, EngineError> {
    let place = Place::parse(url).map_err(|error| objects_failure(&error))?;
    if let Place::Directory(path) = &place {
        if !path.is_dir() {
            return Ok(Vec::new());
        }
    }
    let store = Limited::new(place.open(options).map_err(|error| objects_failure(&error))?, Limits::default());
    let (options, shown) = (options.clone(), place.to_string());
    let found = wait("looking at a place", LOOK_DEADLINE, async move {
        let failed = |error: Error| objects_failure(&explain("looking for engines", &shown, &error));
        let names = store.list_with_delimiter(None).await.map_err(failed)?;
        let mut found = Vec::new();
        for name in names.common_prefixes.iter().take(HELD_MAX) {
            let (owner, note) = match read_owner(&store, &name.clone().join(OWNER)).await {
                Ok(owner) => owner,
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(failed(error)),
            };
            let url = place.below(name.as_ref()).to_string();
            found.push(Held { owner, note, url, options: options.clone() });
        }
        Ok(found)
    });
    let mut found = found??;
    found.sort();
    Ok(found)
}

/// Opens what is held, as its writer, with an empty directory for the marks of being open.
pub fn open_held(directory: &Path, held: &Held, config: &ObjectConfig) -> Result<ObjectEngine, EngineError> {
    let location = Location::named(Place::parse(&held.url).map_err(|error| objects_failure(&error))?);
    // An owner that had to be escaped is not compared again.
    let identity = if held.owner.contains('\\') { String::new() } else { held.owner.clone() };
    let config = ObjectConfig { options: held.options.clone(), identity, ..config.clone() };
    crate::open_at(directory, &config, &location)
}
