//! A cluster of one member, and short ways to ask it.

use crate::contract::ApplyContext;
use crate::reply::decode_reply;
use crate::testing::MapSpace;
use crate::versioned::*;
use base_types::codec::Encode;
use base_types::{BackendKind, Generation, LogIndex, Refusal};
use bytes::Bytes;

pub fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn one(key: &str) -> Span {
    Span::One { key: text(key) }
}

pub fn range(start: &str, end: &str) -> Span {
    Span::Range { start: text(start), end: text(end) }
}

pub fn all() -> Span {
    Span::From { start: Bytes::new() }
}

pub fn read(span: Span, at: u64) -> Read {
    Read { span, at, limit: 0, keys_only: false, count: false, count_only: false, filter: Filter::default() }
}

pub fn put(key: &str, value: &str) -> Operation {
    leased(key, value, 0)
}

pub fn leased(key: &str, value: &str, lease: u64) -> Operation {
    let (key, value) = (text(key), text(value));
    Operation::Put(Put { key, value, lease, previous: false, keep_value: false, keep_lease: false })
}

pub fn delete(span: Span) -> Operation {
    Operation::Delete { span, previous: false }
}

pub fn when(span: Span, check: Check) -> Condition {
    Condition { span, check }
}

/// A cluster of one member.
#[derive(Clone)]
pub struct Bed {
    pub space: MapSpace,
    pub now_ms: u64,
}

impl Default for Bed {
    /// At stamp 0, so that stamps count the test's commits. A real cluster begins at [`STAMP_FIRST`].
    fn default() -> Bed {
        let mut space = MapSpace::default();
        let meta = super::super::rows::Meta { stamp: 0, ..Default::default() };
        crate::SpaceWrite::put(&mut space, Bytes::from_static(b"m"), meta.row());
        Bed { space, now_ms: 0 }
    }
}

impl Bed {
    /// Applies a command as it comes out of the log. A refusal must leave nothing, and everything must hold after it.
    pub fn tell(&mut self, command: &Command) -> Result<Reply, Refusal> {
        let (before, command) = (self.space.clone(), command.to_bytes());
        let at = ApplyContext { life: Generation(1), index: LogIndex(1), position: 0, cluster_time_ms: self.now_ms };
        let valid = crate::table::validate(BackendKind::Versioned, &command);
        let reply = crate::table::apply(BackendKind::Versioned, at, &mut self.space, &command).unwrap();
        let reply = decode_reply::<Reply>(reply);
        assert!(valid.is_ok() || reply.is_err(), "refused before the log, and applied");
        assert!(reply.is_ok() || self.space == before, "a refused command changed something: {reply:?}");
        crate::table::check_invariants(BackendKind::Versioned, &self.space).unwrap().unwrap();
        reply
    }

    pub fn ask(&self, query: &Query) -> Result<Reply, Refusal> {
        decode_reply(crate::table::query(BackendKind::Versioned, self.now_ms, &self.space, &query.to_bytes()).unwrap())
    }

    pub fn commit(&mut self, then: Vec<Operation>) -> Result<u64, Refusal> {
        self.transact(Vec::new(), then, Vec::new()).map(|(stamp, _)| stamp)
    }

    pub fn transact(
        &mut self,
        conditions: Vec<Condition>,
        then: Vec<Operation>,
        otherwise: Vec<Operation>,
    ) -> Result<(u64, Committed), Refusal> {
        let transaction = Transaction { conditions, then, otherwise };
        match self.tell(&Command::Commit { transaction })? {
            Reply::Committed { stamp, committed, .. } => Ok((stamp, committed)),
            other => panic!("{other:?}"),
        }
    }

    pub fn page(&self, read: Read, pin: u64) -> Result<Page, Refusal> {
        match self.ask(&Query::Read { read, pin })? {
            Reply::Page { page, .. } => Ok(page),
            other => panic!("{other:?}"),
        }
    }

    /// Keys and values at a stamp, as one text.
    pub fn seen(&self, at: u64) -> Result<String, Refusal> {
        let page = self.page(read(all(), at), 0)?;
        assert_eq!(page.next, None);
        let shown = |pair: &Pair| {
            format!("{}={}", String::from_utf8_lossy(&pair.key), String::from_utf8_lossy(&pair.row.value))
        };
        Ok(page.rows.iter().map(shown).collect::<Vec<_>>().join(" "))
    }

    /// All changes after a position, in pages of `limit`.
    pub fn changes(&self, after: Position, limit: u32) -> Result<Vec<Change>, Refusal> {
        let (mut found, mut after) = (Vec::new(), after);
        loop {
            let query = Query::Changes { span: all(), after, limit, before: true, pin: 0 };
            let Reply::Changes { changes, reached, more } = self.ask(&query)? else { panic!() };
            assert!(changes.iter().all(|change| change.at > after && change.at <= reached));
            found.extend(changes);
            if !more {
                return Ok(found);
            }
            assert!(reached > after, "a page that is not the last moves on");
            after = reached;
        }
    }

    pub fn info(&self) -> Info {
        match self.ask(&Query::Describe) {
            Ok(Reply::Info { info }) => info,
            other => panic!("{other:?}"),
        }
    }

    /// What a new member receives: every row, and nothing else.
    pub fn restored(&self) -> Bed {
        let mut space = MapSpace::default();
        for (key, row) in &self.space.rows {
            space.rows.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(row));
        }
        Bed { space, now_ms: self.now_ms }
    }
}

#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, Refusal>, code: &str) -> Refusal {
    let refusal = result.unwrap_err();
    assert_eq!(refusal.code.as_str(), code, "{refusal}");
    refusal
}
