//! Which keyspaces are plain: learned once, and again where a keyspace refuses what is asked of its kind.
//!
//! Always: it holds at most `KINDS_MAX` names.
//! Held by: `names_are_forgotten_when_there_are_too_many`.
//! Not here: the question itself (database.rs).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Keyspaces whose kind is remembered.
const KINDS_MAX: usize = 1_024;

/// What is known of keyspaces: whether each is plain.
#[derive(Default)]
pub struct Kinds(Mutex<HashMap<String, bool>>);

impl Kinds {
    pub fn is_plain(&self, keyspace: &str) -> Option<bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(keyspace).copied()
    }

    pub fn learn(&self, keyspace: &str, plain: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KINDS_MAX {
            known.clear();
        }
        known.insert(keyspace.to_owned(), plain);
    }

    /// It may have been deleted and created again.
    pub fn forget(&self, keyspace: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(keyspace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forgotten_when_there_are_too_many() {
        let kinds = Kinds::default();
        for number in 0..=KINDS_MAX {
            kinds.learn(&number.to_string(), number % 2 == 0);
        }
        assert_eq!(kinds.is_plain("0"), None);
        assert_eq!(kinds.is_plain(&KINDS_MAX.to_string()), Some(true));
        kinds.forget(&KINDS_MAX.to_string());
        assert_eq!(kinds.is_plain(&KINDS_MAX.to_string()), None);
    }
}
