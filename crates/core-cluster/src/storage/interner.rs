//! What most replicas of a lane have in common (rule, engine, members, configuration), held once for all of them.
//!
//! At most `KEPT_MAX` values of a kind are searched, when a replica is made or its members change. Other values are held by
//! their replica alone. No behaviour depends on whether a value is shared.
//! Not here: what is shared within one replica (meta.rs).

use crate::api::{Member, ReplicaSpec};
use crate::meta::ClusterMeta;
use core_raft::Membership;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Values of a kind that are remembered; one more takes the place of the oldest.
const KEPT_MAX: usize = 16;

/// See the file's head.
#[derive(Default)]
pub struct Interner {
    texts: Kept<Arc<str>>,
    members: Kept<Arc<[Member]>>,
    memberships: Kept<Rc<Membership>>,
}

impl Interner {
    /// Has a new replica share what is known already.
    pub fn share_spec(&mut self, spec: &mut ReplicaSpec) {
        self.texts.share(&mut spec.rule);
        self.texts.share(&mut spec.engine);
        self.members.share(&mut spec.initial_members);
    }

    /// Has a replica whose members are new share what is known already.
    pub fn share_meta(&mut self, meta: &mut ClusterMeta) {
        self.members.share(&mut meta.members);
        self.memberships.share(&mut meta.membership);
    }
}

/// The values of one kind, the latest last.
struct Kept<T>(VecDeque<T>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept(VecDeque::new())
    }
}

impl<T: Clone + PartialEq> Kept<T> {
    fn share(&mut self, value: &mut T) {
        if let Some(known) = self.0.iter().find(|known| *known == value) {
            *value = known.clone();
            return;
        }
        if self.0.len() == KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_few_are_kept() {
        let mut kept = Kept::default();
        let (mut first, mut second): (Arc<str>, Arc<str>) = ("size=3".into(), "size=3".into());
        kept.share(&mut first);
        kept.share(&mut second);
        assert!(Arc::ptr_eq(&first, &second));
        for size in 0..2 * KEPT_MAX {
            kept.share(&mut format!("size=3 exclude={size}").into());
        }
        assert_eq!(kept.0.len(), KEPT_MAX);
        let mut third: Arc<str> = "size=3".into();
        kept.share(&mut third);
        assert!(!Arc::ptr_eq(&first, &third));
    }
}
