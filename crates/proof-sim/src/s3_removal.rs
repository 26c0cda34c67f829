//! Single versions removed (`DeleteObject` with a version id): what a client may remove, and what became of it.
//!
//! A client removes only versions of its own that it has put over: another version of the key was acknowledged to it
//! behind, so the removal changes nothing that readers of the key see, and the checkers of keys need not know of it.
//!
//! Always: each version is removed by one client, once.
//! Not here: retries (`load`), whether the versions left are the right ones (`s3_versions`).

use base_types::action::Action;
use base_types::s3::{DeleteObject, S3Action};
use bytes::Bytes;
use proof_check::{Ending, Operation, Place};
use std::collections::BTreeMap;

/// Versions that a client remembers to be removable.
const REMOVABLE_MAX: usize = 8;

/// Whether a version was removed for sure; else nobody knows.
pub type Removals = BTreeMap<(Place, Bytes), bool>;

/// A version of a client's own.
#[derive(Clone, Debug)]
struct Own {
    key: Bytes,
    value: Bytes,
    version_id: String,
}

/// What one client knows of its versions.
#[derive(Default, Debug)]
pub struct Remover {
    /// The last of each key.
    last: BTreeMap<(Place, Bytes), Own>,
    removable: Vec<(Place, Own)>,
    /// The one that is being removed.
    removing: Option<(Place, Own)>,
}

impl Remover {
    /// A put of the client's was acknowledged with this version.
    pub fn put(&mut self, place: Place, operation: &Operation, version_id: Option<&String>) {
        let (Operation::Put { key, value } | Operation::CompareAndSet { key, value: Some(value), .. }) = operation
        else {
            return;
        };
        let Some(version_id) = version_id.cloned() else { return };
        let own = Own { key: key.clone(), value: value.clone(), version_id };
        let before = self.last.insert((place, key.clone()), own);
        if let Some(before) = before.filter(|_| self.removable.len() < REMOVABLE_MAX) {
            self.removable.push((place, before));
        }
    }

    /// Whether something can be removed.
    pub fn is_ready(&self) -> bool {
        !self.removable.is_empty()
    }

    /// The call that removes the oldest of them.
    pub fn next(&mut self, bucket_of: impl Fn(Place) -> Option<String>) -> Option<Action> {
        if self.removable.is_empty() {
            return None;
        }
        let (place, own) = self.removable.remove(0);
        let call = DeleteObject {
            bucket: bucket_of(place)?,
            key: String::from_utf8_lossy(&own.key).into_owned(),
            version_id: Some(own.version_id.clone()),
            ..DeleteObject::default()
        };
        self.removing = Some((place, own));
        Some(Action::S3(S3Action::from(call)))
    }

    /// Its removal has ended; a call that is none changes nothing.
    pub fn ended(&mut self, action: &Action, ending: Ending, removals: &mut Removals) {
        let removes = matches!(action, Action::S3(S3Action::DeleteObject(call)) if call.version_id.is_some());
        let Some((place, own)) = self.removing.take_if(|_| removes) else { return };
        if ending != Ending::Failed {
            removals.insert((place, own.value), ending == Ending::Ok);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3_load::place_of;

    #[test]
    fn only_what_was_put_over_is_removed() {
        let mut remover = Remover::default();
        let put = |key: &'static str, value: &'static str| Operation::Put { key: key.into(), value: value.into() };
        remover.put(place_of(0), &put("a", "1"), Some(&"v1".to_string()));
        remover.put(place_of(0), &put("b", "2"), Some(&"v2".to_string()));
        assert!(!remover.is_ready());
        remover.put(place_of(0), &put("a", "3"), Some(&"v3".to_string()));
        let action = remover.next(|_| Some("bucket".to_string())).unwrap();
        let mut removals = Removals::new();
        remover.ended(&action, Ending::Unknown, &mut removals);
        assert_eq!(removals, [((place_of(0), Bytes::from_static(b"1")), false)].into());
        assert!(remover.next(|_| None).is_none() && !remover.is_ready());
    }
}
