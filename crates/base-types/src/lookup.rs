//! A hash table that can be asked and not walked: what it answers hangs on what was put into it, never on the order of
//! its buckets, so core crates may have one (members must agree, and a seed must come to the same again).
//!
//! Keys are hashed with keys of this process, since clients may choose them. Not here: anything ordered (`BTreeMap`).

#![allow(clippy::disallowed_types, reason = "the one table whose order nobody can see")]

// The rest of this crate makes do without: hashing with keys of this process needs it.
extern crate std;

use core::hash::Hash;
use std::collections::HashMap;

/// The table.
#[derive(Clone, Debug)]
pub struct Lookup<K, V>(HashMap<K, V>);

impl<K, V> Default for Lookup<K, V> {
    fn default() -> Self {
        Lookup(HashMap::new())
    }
}

impl<K: Eq + Hash, V> Lookup<K, V> {
    /// What is there under a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    /// Puts it there; what was there before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Takes it out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }
}
