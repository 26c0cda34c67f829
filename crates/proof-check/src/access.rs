//! Who might do what at which moment, kept from what an administrator asked and received, and whether answers keep to it.
//!
//! ```text
//!   asked ──given──▶ it holds ──taking──taken──▶ it does not         between asked and given, taking and taken: nobody knows
//!   an answer of a node whose copy is as new as `known`: done ⇒ it may have held in known..now; denied ⇒ it was not sure to
//! ```
//!
//! Always: a doubt counts for the system. What one token may do is one grant's: no operation needs two. Nothing here is taken
//! from base-access, so that a mistake there is none here.
//! Held by: `what_was_taken_back_before_it_was_known_is_not_done`, `what_was_allowed_all_along_is_not_denied`.
//! Not here: how new a node's copy must be at a moment (proof-sim, `world/access.rs`).

use base_types::action::{Action, BatchStep, KvTarget};
use base_types::ErrorCode;
use bytes::Bytes;
use std::collections::BTreeMap;

/// When something was given and taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// It was asked for; it may hold from then on.
    pub asked: u64,
    /// That was acknowledged; it holds.
    pub given: Option<u64>,
    /// It was asked to be taken back; it may not hold any more.
    pub taking: Option<u64>,
    /// That was acknowledged; it does not hold.
    pub taken: Option<u64>,
}

impl Span {
    /// Asked for at this moment.
    pub fn asked(now: u64) -> Span {
        Span { asked: now, ..Span::default() }
    }

    /// The part of a window in which it may have held.
    fn may_hold(&self, (from, to): (u64, u64)) -> Option<(u64, u64)> {
        let window = (self.asked.max(from), self.taken.unwrap_or(u64::MAX).min(to));
        (window.0 <= window.1).then_some(window)
    }

    /// It held at every moment of a window.
    fn holds_through(&self, (from, to): (u64, u64)) -> bool {
        self.given.is_some_and(|given| given <= from) && self.taking.is_none_or(|taking| taking > to)
    }

    /// It may have changed in a window.
    fn may_change(&self, (from, to): (u64, u64)) -> bool {
        let overlaps = |began: u64, ended: Option<u64>| began <= to && ended.is_none_or(|ended| ended >= from);
        overlaps(self.asked, self.given) || self.taking.is_some_and(|taking| overlaps(taking, self.taken))
    }
}

/// What a grant covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Given {
    /// Everything.
    All,
    /// Data of keyspaces.
    Keys {
        /// Which; absent: of every one.
        keyspace: Option<String>,
        /// What the keys begin with.
        prefix: Bytes,
        /// Puts and deletes, too.
        writes: bool,
    },
    /// Everything of a cluster by its name.
    Cluster(String),
}

/// A role that a user has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Whose.
    pub user: usize,
    /// What it covers.
    pub given: Given,
    /// When.
    pub span: Span,
}

/// A token of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// Whose.
    pub user: usize,
    /// When.
    pub span: Span,
}

/// All of it.
#[derive(Default, Debug)]
pub struct AccessBook {
    /// By the ids of credentials.
    pub tokens: BTreeMap<u64, Token>,
    /// In the order in which they were asked for.
    pub grants: Vec<Grant>,
}

/// What an action reaches.
struct Reach<'a> {
    target: &'a KvTarget,
    /// Each range of keys: from the first, to before the last (`None`: to the end).
    ranges: Vec<(Bytes, Option<Bytes>)>,
    writes: bool,
}

impl Reach<'_> {
    fn of(action: &Action) -> Option<Reach<'_>> {
        let one = |key: &Bytes| (key.clone(), Some([key, &b"\0"[..]].concat().into()));
        let (target, ranges, writes) = match action {
            Action::KvGet { target, key } => (target, vec![one(key)], false),
            Action::KvPut { target, key, .. }
            | Action::KvDelete { target, key }
            | Action::KvCompareAndSet { target, key, .. } => (target, vec![one(key)], true),
            Action::KvBatch { target, steps } => {
                let keys = steps.iter().map(|step| match step {
                    BatchStep::Put { key, .. } | BatchStep::Delete { key } => one(key),
                });
                (target, keys.collect(), true)
            }
            Action::KvScan { target, prefix, start_after, end, reverse, .. } => {
                (target, vec![scanned(prefix, start_after.as_ref(), end.as_ref(), *reverse)], false)
            }
            _ => return None,
        };
        Some(Reach { target, ranges, writes })
    }

    fn is_within(&self, given: &Given) -> bool {
        match (given, self.target) {
            (Given::All, _) => true,
            (Given::Cluster(name), KvTarget::Cluster(asked)) => asked.as_str() == name,
            (Given::Keys { keyspace, prefix, writes }, KvTarget::Keyspace(asked)) => {
                let limit = after(prefix);
                let inside = |(from, to): &(Bytes, Option<Bytes>)| {
                    let ends = match (to, &limit) {
                        (_, None) => true,
                        (None, Some(_)) => false,
                        (Some(to), Some(limit)) => to <= limit,
                    };
                    from >= prefix && ends
                };
                keyspace.as_ref().is_none_or(|name| name == asked)
                    && (*writes || !self.writes)
                    && self.ranges.iter().all(inside)
            }
            _ => false,
        }
    }
}

/// The keys that a scan can reach.
fn scanned(prefix: &Bytes, start_after: Option<&Bytes>, end: Option<&Bytes>, reverse: bool) -> (Bytes, Option<Bytes>) {
    let least = |one: Option<Bytes>, other: Option<Bytes>| one.into_iter().chain(other).min();
    let end = least(end.cloned(), after(prefix));
    match (reverse, start_after) {
        (false, Some(start)) => (start.clone().max(prefix.clone()), end),
        (true, Some(start)) => (prefix.clone(), least(end, Some(start.clone()))),
        (_, None) => (prefix.clone(), end),
    }
}

/// The first key that comes after all that begin so; `None`: none does.
fn after(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut limit = prefix[..=last].to_vec();
    limit[last] += 1;
    Some(limit.into())
}

impl AccessBook {
    fn of_user(&self, user: usize) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(move |grant| grant.user == user)
    }

    /// What is wrong with this action's having been done, by nodes that knew all that was acknowledged before `known`.
    pub fn check_done(&self, credential: u64, action: &Action, (known, now): (u64, u64)) -> Option<String> {
        let Some(token) = self.tokens.get(&credential) else {
            return Some("it was done for a token that was never made".into());
        };
        let Some(window) = token.span.may_hold((known, now)) else {
            return Some(format!("it was done for a token that was taken back: {:?}, known since {known}", token.span));
        };
        let reach = Reach::of(action);
        let covers = |grant: &&Grant| match &reach {
            Some(reach) => reach.is_within(&grant.given),
            None => grant.given == Given::All,
        };
        let mut covering = self.of_user(token.user).filter(covers);
        if covering.any(|grant| grant.span.may_hold(window).is_some()) {
            return None;
        }
        Some(format!("it was done, and no grant of user {} may have covered it in {window:?}", token.user))
    }

    /// A key that a listing showed, and that no grant may have covered.
    pub fn check_shown<'a>(
        &self,
        credential: u64,
        target: &KvTarget,
        mut keys: impl Iterator<Item = &'a Bytes>,
        window: (u64, u64),
    ) -> Option<String> {
        let token = self.tokens.get(&credential)?;
        let is_covered = |key: &Bytes| {
            let read = Action::KvGet { target: target.clone(), key: key.clone() };
            let mut grants = self.of_user(token.user).filter(|grant| grant.span.may_hold(window).is_some());
            grants.any(|grant| Reach::of(&read).is_some_and(|reach| reach.is_within(&grant.given)))
        };
        let key = keys.find(|key| !is_covered(key))?;
        Some(format!("the listing shows {key:?}, which no grant of user {} may have covered", token.user))
    }

    /// Whether this was allowed at every moment of a window.
    pub fn is_sure(&self, credential: u64, action: &Action, window: (u64, u64)) -> bool {
        let Some(token) = self.tokens.get(&credential) else { return false };
        let reach = Reach::of(action);
        let covers = |grant: &Grant| {
            grant.given == Given::All || reach.as_ref().is_some_and(|reach| reach.is_within(&grant.given))
        };
        token.span.holds_through(window)
            && self.of_user(token.user).any(|grant| covers(grant) && grant.span.holds_through(window))
    }

    /// Whether a token was taken back, surely, before a moment.
    pub fn is_gone(&self, credential: u64, by: u64) -> bool {
        self.tokens.get(&credential).is_none_or(|token| token.span.taken.is_some_and(|taken| taken <= by))
    }

    /// What is wrong with this action's having been denied, by a node that knew all that was acknowledged before `known`.
    pub fn check_denied(
        &self,
        credential: u64,
        action: &Action,
        code: ErrorCode,
        window: (u64, u64),
    ) -> Option<String> {
        match code {
            ErrorCode::Unauthenticated | ErrorCode::PermissionDenied => self
                .is_sure(credential, action, window)
                .then(|| format!("{code}, although it was allowed from {} to {}", window.0, window.1)),
            ErrorCode::PermissionsChanged => {
                let user = self.tokens.get(&credential).map(|token| token.user)?;
                let tokens = self.tokens.values().filter(|token| token.user == user).map(|token| token.span);
                let mut spans = tokens.chain(self.of_user(user).map(|grant| grant.span));
                let changed = spans.any(|span| span.may_change(window));
                (!changed).then(|| format!("{code}, although nothing of user {user} changed in {window:?}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: u64 = 7;

    fn keyspace() -> KvTarget {
        KvTarget::Keyspace("a".into())
    }

    fn get(key: &'static str) -> Action {
        Action::KvGet { target: keyspace(), key: key.into() }
    }

    fn put(key: &'static str) -> Action {
        Action::KvPut { target: keyspace(), key: key.into(), value: "v".into() }
    }

    fn scan(prefix: &'static str, after: Option<&'static str>, end: Option<&'static str>, reverse: bool) -> Action {
        Action::KvScan {
            target: keyspace(),
            prefix: prefix.into(),
            start_after: after.map(Bytes::from),
            end: end.map(Bytes::from),
            limit: 10,
            reverse,
            keys_only: false,
        }
    }

    fn keys(writes: bool) -> Given {
        Given::Keys { keyspace: Some("a".into()), prefix: "x/".into(), writes }
    }

    /// A token and one grant, both of user 1, asked for at 10, given at 20, asked back at 80, taken at 90.
    fn book(given: Given) -> AccessBook {
        let span = Span { asked: 10, given: Some(20), taking: Some(80), taken: Some(90) };
        let mut book = AccessBook::default();
        book.tokens.insert(TOKEN, Token { user: 1, span: Span { taking: None, taken: None, ..span } });
        book.grants.push(Grant { user: 1, given, span });
        book
    }

    #[test]
    fn what_was_taken_back_before_it_was_known_is_not_done() {
        let mut book = book(keys(true));
        for (window, well) in [((0, 9), false), ((0, 10), true), ((85, 200), true), ((91, 200), false)] {
            assert_eq!(book.check_done(TOKEN, &put("x/1"), window).is_none(), well, "{window:?}");
        }
        assert!(book.check_done(8, &put("x/1"), (30, 40)).is_some(), "a token that nobody made");
        assert!(book.check_done(TOKEN, &put("y"), (30, 40)).is_some());
        if let Some(token) = book.tokens.get_mut(&TOKEN) {
            token.span.taken = Some(25);
        }
        assert!(book.check_done(TOKEN, &put("x/1"), (20, 40)).is_none());
        assert!(book.check_done(TOKEN, &put("x/1"), (30, 40)).is_some());
        assert!(book.is_gone(TOKEN, 25) && !book.is_gone(TOKEN, 24));
    }

    #[test]
    fn one_grant_covers_all_of_it() {
        let (reads, writes) = (book(keys(false)), book(keys(true)));
        let done = |book: &AccessBook, action: &Action| book.check_done(TOKEN, action, (30, 40)).is_none();
        assert!(done(&reads, &get("x/1")) && !done(&reads, &put("x/1")) && done(&writes, &put("x/1")));
        assert!(
            done(&reads, &scan("x/", None, None, false)) && done(&reads, &scan("", Some("x/1"), Some("x/9"), false))
        );
        assert!(
            !done(&reads, &scan("", Some("x/1"), None, false)) && !done(&reads, &scan("", Some("x/1"), None, true))
        );
        assert!(
            !done(&reads, &scan("", Some("x/1"), Some("y"), false)) && !done(&reads, &scan("x", None, None, false))
        );
        let cluster = |name: &str| Action::KvGet { target: KvTarget::Cluster(name.parse().unwrap()), key: "k".into() };
        assert!(!done(&book(Given::Keys { keyspace: None, prefix: "".into(), writes: true }), &cluster("metadata@a")));
        let operator = book(Given::Cluster("metadata@a".into()));
        assert!(done(&operator, &cluster("metadata@a")) && !done(&operator, &cluster("metadata@b")));
        assert!(!done(&operator, &Action::ListNodes) && done(&book(Given::All), &Action::ListNodes));
    }

    #[test]
    fn a_listing_ends_where_grants_end() {
        let book = book(keys(false));
        let shown = |shown: &[&'static str]| {
            let keys: Vec<Bytes> = shown.iter().copied().map(Bytes::from).collect();
            book.check_shown(TOKEN, &keyspace(), keys.iter(), (30, 40))
        };
        assert!(shown(&["x/1", "x/2"]).is_none());
        assert!(shown(&["x/1", "y"]).is_some());
    }

    #[test]
    fn what_was_allowed_all_along_is_not_denied() {
        let book = book(keys(true));
        let denied = |code, window| book.check_denied(TOKEN, &put("x/1"), code, window).is_some();
        assert!(denied(ErrorCode::PermissionDenied, (30, 70)) && denied(ErrorCode::Unauthenticated, (20, 79)));
        assert!(!denied(ErrorCode::PermissionDenied, (19, 70)) && !denied(ErrorCode::PermissionDenied, (30, 80)));
        assert!(denied(ErrorCode::PermissionsChanged, (30, 70)));
        assert!(!denied(ErrorCode::PermissionsChanged, (85, 99)) && !denied(ErrorCode::PermissionsChanged, (15, 30)));
        assert!(denied(ErrorCode::PermissionsChanged, (91, 99)));
        let other = book.check_denied(TOKEN, &put("y"), ErrorCode::PermissionDenied, (30, 70));
        assert!(other.is_none() && !denied(ErrorCode::Conflict, (30, 70)));
    }
}
