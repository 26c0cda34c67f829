//! Tries a place before anything is entrusted to it.
//!
//! ```text
//! hive-probe-<id>     written only if absent, then once more (which must be refused), read, removed
//! ```
//!
//! Always: a store that answers a second conditional write with success is refused: two writers would
//! both believe theirs is there.
//! Held by: `a_store_without_conditions_is_refused`.
//! Not here: what is kept there.

use crate::failure::{explain, ObjectsError};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

/// Options of a write that must be the first of its name.
pub fn only_new() -> PutOptions {
    PutOptions { mode: PutMode::Create, ..PutOptions::default() }
}

/// Lists, writes, writes again, reads and removes; `id` keeps two that do so at once apart.
pub async fn probe(store: &dyn ObjectStore, place: &str, id: &str) -> Result<(), ObjectsError> {
    let path = Path::from(format!("hive-probe-{id}"));
    let mut names = store.list(None);
    if let Some(Err(error)) = names.next().await {
        return Err(explain("listing objects", place, &error));
    }
    // What an earlier one left.
    match store.delete(&path).await {
        Ok(()) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(explain("removing an object", place, &error)),
    }
    let first = store.put_opts(&path, id.to_owned().into(), only_new()).await;
    first.map_err(|error| explain("writing an object if it is absent", place, &error))?;
    match store.put_opts(&path, "second".into(), only_new()).await {
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
        Err(error) => return Err(explain("writing an object that is there", place, &error)),
        Ok(_) => {
            let _ = store.delete(&path).await;
            return Err(ObjectsError::Refused(format!(
                "{place} wrote over an object that was to be written only if absent, so two writers could both believe theirs is there; use a store that knows If-None-Match"
            )));
        }
    }
    let read = match store.get(&path).await {
        Ok(got) => got.bytes().await,
        Err(error) => Err(error),
    };
    let read = read.map_err(|error| explain("reading an object", place, &error))?;
    store.delete(&path).await.map_err(|error| explain("removing an object", place, &error))?;
    match read == id.as_bytes() {
        true => Ok(()),
        false => Err(ObjectsError::Refused(format!(
            "{place} gave other bytes back than were just written; nothing can be kept there"
        ))),
    }
}
