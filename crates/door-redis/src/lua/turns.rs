//! Scripts of a user and a thread that declare the same key run one after the other.
//!
//! By design: a script is run again where others change what it saw, so scripts that count in the same key at the same time would have each
//! other run again and again. Here they wait instead; between nodes they try.
//! Always: keys are taken in their order, so that no two wait for each other.
//! Held by: `turns_are_taken_in_order_and_given_back`.
//! Not here: commands that are no scripts, which wait for nobody.

use super::limits::SCRIPT_TURNS_MAX;
use crate::database::Session;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// A user's key of a keyspace's database: nobody waits for a script of another user, who may not even be allowed what it declares.
type Place = (String, String, u8, Bytes);

/// The keys for which scripts run.
#[derive(Default)]
pub(crate) struct Turns(RefCell<HashMap<Place, Arc<Mutex<()>>>>);

/// A script's turn for its keys, until it is dropped.
pub(crate) struct Turn {
    turns: Rc<Turns>,
    places: Vec<Place>,
    guards: Vec<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until no other script of this user and this thread runs for one of these keys.
    pub async fn take(self: &Rc<Turns>, session: &Session, database: u8, keys: &[Bytes]) -> Turn {
        let place = |key: &Bytes| (session.keyspace.clone(), session.user.clone(), database, key.clone());
        let mut places: Vec<Place> = keys.iter().take(SCRIPT_TURNS_MAX).map(place).collect();
        places.sort();
        places.dedup();
        let mut turn = Turn { turns: self.clone(), places: Vec::new(), guards: Vec::new() };
        for place in places {
            let lock = self.0.borrow_mut().entry(place.clone()).or_default().clone();
            turn.places.push(place);
            turn.guards.push(lock.lock_owned().await);
        }
        turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.guards.clear();
        let mut turns = self.turns.0.borrow_mut();
        for place in &self.places {
            // Who waits has a share of it.
            if turns.get(place).is_some_and(|lock| Arc::strong_count(lock) == 1) {
                turns.remove(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_are_taken_in_order_and_given_back() {
        let turns = Rc::new(Turns::default());
        let user = |user: &str| Session {
            caller: base_types::access::Caller::Anyone,
            user: user.into(),
            keyspace: "k".into(),
        };
        let (ann, ben) = (user("ann"), user("ben"));
        let (a, b) = (Bytes::from_static(b"a"), Bytes::from_static(b"b"));
        let first = turns.take(&ann, 0, &[a.clone(), b.clone(), a.clone()]).await;
        let other =
            (turns.take(&ann, 1, std::slice::from_ref(&a)).await, turns.take(&ben, 0, std::slice::from_ref(&a)).await);
        let keys = [b, a];
        let both = turns.take(&ann, 0, &keys);
        tokio::pin!(both);
        let waits = tokio::time::timeout(std::time::Duration::from_millis(20), &mut both).await;
        assert!(waits.is_err(), "the first has not ended");
        drop(first);
        drop(both.await);
        drop(other);
        assert!(turns.0.borrow().is_empty());
    }
}
