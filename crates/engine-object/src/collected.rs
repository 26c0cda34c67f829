//! Keeps objects that nothing names any more while a reader may still be in them.
//!
//! SlateDB judges garbage by the age of an object, and removes an old one the moment merging has replaced
//! it; a walk that began before would lose it underneath.
//!
//! By design: an object goes only [`KEPT`] after it was first seen to be garbage.
//! Not here: what is garbage (SlateDB).

use async_trait::async_trait;
use slatedb::{GcFilter, ObjectMetadata};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longer than any one walk: a snapshot's greatest age by default.
pub const KEPT: Duration = Duration::from_secs(600);
/// Objects remembered; those beyond it are met again the next time.
const REMEMBERED_MAX: usize = 100_000;

/// When objects were first seen to be garbage.
#[derive(Default)]
pub struct Kept(Mutex<HashMap<String, Instant>>);

impl Kept {
    fn allowed(&self, candidates: HashSet<ObjectMetadata>, now: Instant) -> HashSet<ObjectMetadata> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner); // Entries are whole.
        let mut allowed = HashSet::new();
        for candidate in candidates {
            let name = candidate.location.to_string();
            match seen.get(&name) {
                Some(first) if now.duration_since(*first) >= KEPT => {
                    seen.remove(&name);
                    allowed.insert(candidate);
                }
                Some(_) => {}
                None if seen.len() < REMEMBERED_MAX => {
                    seen.insert(name, now);
                }
                None => {}
            }
        }
        allowed
    }
}

#[async_trait]
impl GcFilter for Kept {
    async fn filter(&self, candidates: HashSet<ObjectMetadata>) -> HashSet<ObjectMetadata> {
        self.allowed(candidates, Instant::now())
    }
}
