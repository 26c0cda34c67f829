//! Users, around the load: they are made before it. After it, every node is asked by tokens that were taken back and by such that
//! hold.
//!
//! Always: a node that was cut off, or was down, knows everything two seconds after it is in touch again; that it comes in touch is
//! waited for only so long.
//! Not here: what is made of each answer under load (`load/users.rs`), who is in touch (`world/access.rs`).

use super::{Answered, Run, LOOK_US, MAKE_US, SERVE_US};
use crate::load::people::Users;
use base_types::access::Caller;
use base_types::action::{Action, KvTarget, Request, Response};
use base_types::ErrorCode;
use bytes::Bytes;
use proof_check::access::Given;
use std::time::Duration;

/// So many tokens that were taken back, and grants that hold, are tried through each node: the latest.
const TRIED_MAX: usize = 6;
/// One try of them.
const TRY_MS: u64 = 2_000;

impl Run {
    /// Users come and go from now on, in worlds that want to know who asks.
    pub(super) fn make_users(&mut self) {
        if !self.world.plan.shape.access {
            return;
        }
        let users = Users::new(self.world.plan.seed, self.world.plan.load.users, &self.load.targets);
        self.load.users = Some(users);
        self.load.administer(&mut self.world);
        let until = self.world.now + MAKE_US;
        let is_there = |run: &Run| run.load.users.as_ref().is_none_or(Users::is_set_up);
        self.pump(until, is_there);
        if self.world.violations.is_empty() && !is_there(self) {
            return self.violate("set-up", "the first users are not made in time".into());
        }
        self.wait_for_touch();
    }

    /// Waits until every node knows what was acknowledged by now.
    fn wait_for_touch(&mut self) {
        let (since, until) = (self.world.now, self.world.now + SERVE_US);
        while let Some(node) = (0..self.world.nodes.len()).find(|node| self.world.touch.known_since(*node) < since) {
            if !self.world.violations.is_empty() {
                return;
            }
            if self.world.now >= until {
                let seconds = SERVE_US / 1_000_000;
                let message = format!("node {} is not in touch with the users' directory in {seconds} s", node + 1);
                return self.violate("liveness", message);
            }
            let pause = self.world.now + LOOK_US;
            self.pump(pause, |_| false);
        }
    }

    /// Every node has heard of everything.
    pub(super) fn users_are_known(&mut self) {
        if self.load.users.is_none() {
            return;
        }
        self.wait_for_touch();
        let (gone, held) = self.tried();
        for node in 0..self.world.nodes.len() {
            for credential in &gone {
                let action = Action::KvGet { target: self.any_target(), key: Bytes::from_static(b"Q") };
                if let Some(Ok(_)) = self.call_as(node, *credential, action) {
                    let message = format!("node {} takes token {credential}, which was taken back", node + 1);
                    return self.violate("access", message);
                }
            }
            for (credential, action) in &held {
                let Some(Err(failure)) = self.call_as(node, *credential, action.clone()) else { continue };
                let code = failure.refusal.code;
                let denials = [ErrorCode::Unauthenticated, ErrorCode::PermissionDenied, ErrorCode::PermissionsChanged];
                if denials.contains(&code) {
                    let message =
                        format!("node {} denies token {credential} {action:?}, which it may: {code}", node + 1);
                    return self.violate("access", message);
                }
            }
        }
    }

    fn any_target(&self) -> KvTarget {
        match self.load.targets.keyspaces.first() {
            Some(name) => KvTarget::Keyspace(name.clone()),
            None => KvTarget::Cluster(self.load.targets.clusters[0].clone()),
        }
    }

    /// Tokens that were taken back, and what others may do.
    fn tried(&self) -> (Vec<u64>, Vec<(u64, Action)>) {
        let Some(users) = &self.load.users else { return (Vec::new(), Vec::new()) };
        let book = &users.book;
        let gone = book.tokens.keys().rev().copied().filter(|id| book.is_gone(*id, self.world.now));
        let window = (self.world.now, self.world.now);
        let mut held = Vec::new();
        for grant in book.grants.iter().rev() {
            let target = match &grant.given {
                Given::Keys { keyspace: Some(name), .. } => KvTarget::Keyspace(name.clone()),
                Given::Cluster(name) => match name.parse() {
                    Ok(name) => KvTarget::Cluster(name),
                    Err(_) => continue,
                },
                _ => continue,
            };
            let key = match &grant.given {
                Given::Keys { prefix, .. } => prefix.clone(),
                _ => Bytes::from_static(b"Q"),
            };
            let action = Action::KvGet { target, key };
            let tokens = book.tokens.iter().filter(|(_, token)| token.user == grant.user);
            let mut sure = tokens.map(|(id, _)| *id).filter(|id| book.is_sure(*id, &action, window));
            held.extend(sure.next().map(|id| (id, action.clone())));
        }
        held.truncate(TRIED_MAX);
        (gone.take(TRIED_MAX).collect(), held)
    }

    fn call_as(&mut self, node: usize, credential: u64, action: Action) -> Option<Response> {
        let request = Request {
            action,
            consistency: None,
            read_consistency: None,
            deadline: Duration::from_millis(TRY_MS),
            request_id: None,
            after: None,
            expected_bucket_owner: None,
            caller: Caller::Identity { credential, decided_at: None },
        };
        let ticket = self.world.ask_as(node, request)?;
        self.control.insert(ticket, None);
        let until = self.world.now + TRY_MS * 1_000 + 1_000_000;
        self.pump(until, |run| run.control.get(&ticket).is_some_and(|slot| slot.is_some()));
        match self.control.remove(&ticket)?? {
            Answered::Response(response) => Some(*response),
            Answered::Lost => None,
        }
    }
}
