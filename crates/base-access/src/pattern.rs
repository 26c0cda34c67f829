//! Resources that a rule covers, and the resource that a request is about.
//!
//! ```text
//!   *                       everything
//!   kv/photos               the keyspace photos, all keys
//!   kv/photos/2024/         its keys that begin with 2024/
//!   kv/photos/*key:a        its key a alone
//!   kv/photos/*range:a*c    its keys from a on, up to c and without c; kv/photos/*range:a*  from a on
//!   kv/team-*               keyspaces whose names begin with team-
//!   bucket/b/logs/          objects of bucket b that begin with logs/
//!   cluster/*  node/*  account/<name>  security/<tenant>   redis/…  etcd/…
//! ```
//! Bytes of keys that are no printable text are written `%hh`, and so are `%` and `*`. So a `*` never begins a prefix, and builds that know no
//! single keys and ranges refuse them (docs/decisions/0089).
//!
//! Always: a pattern covers a scan only where it covers every key that the scan can reach (`tests::scans_stay_inside`).
//! Not here: verbs (verb.rs).

use base_types::mutant::{planted, Mutant};
use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest pattern in its text.
pub const PATTERN_BYTES_MAX: usize = 2_048;

/// Kinds of resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Kind {
    /// Keyspaces.
    Kv,
    /// S3 buckets.
    Bucket,
    /// Redis databases.
    Redis,
    /// etcd namespaces.
    Etcd,
    /// Clusters by their names: raw access and administration.
    Cluster,
    /// Nodes, and the world as a whole.
    Node,
    /// S3 accounts and their keys.
    Account,
    /// Users, roles and tokens of a tenant.
    Security,
}

impl Kind {
    /// Every kind.
    pub const ALL: &'static [Kind] =
        &[Kind::Kv, Kind::Bucket, Kind::Redis, Kind::Etcd, Kind::Cluster, Kind::Node, Kind::Account, Kind::Security];

    /// Its word in patterns.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Kv => "kv",
            Kind::Bucket => "bucket",
            Kind::Redis => "redis",
            Kind::Etcd => "etcd",
            Kind::Cluster => "cluster",
            Kind::Node => "node",
            Kind::Account => "account",
            Kind::Security => "security",
        }
    }
}

/// What a rule covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// `None`: every kind.
    kind: Option<Kind>,
    name: Name,
    span: KeySpan,
}

/// Keys next to each other: all of a resource, those with a prefix, a single one, or any range.
#[derive(Clone, PartialEq, Eq, Debug)]
struct KeySpan {
    /// The first key.
    from: Vec<u8>,
    /// After the last key; `None`: to the last one there is.
    end: Option<Vec<u8>>,
}

impl KeySpan {
    fn all() -> KeySpan {
        KeySpan { from: Vec::new(), end: None }
    }

    fn beginning_with(prefix: Vec<u8>) -> KeySpan {
        KeySpan { end: successor(&prefix), from: prefix }
    }

    fn one(key: Vec<u8>) -> KeySpan {
        let end = Some([&key[..], &[0]].concat());
        KeySpan { from: key, end }
    }

    /// What the keys that a request can reach lie in.
    fn reached(keys: Keys<'_>) -> Option<KeySpan> {
        match keys {
            Keys::Any => None,
            Keys::One(key) => Some(KeySpan::one(key.to_vec())),
            Keys::Range { prefix, from, end } => {
                let (within, asked) = (KeySpan::beginning_with(prefix.to_vec()), end.map(<[u8]>::to_vec));
                Some(within.cut(&KeySpan { from: from.to_vec(), end: asked }))
            }
        }
    }

    /// The part of it that lies in another; it may be empty.
    fn cut(&self, other: &KeySpan) -> KeySpan {
        let end = match (&self.end, &other.end) {
            (Some(own), Some(others)) => Some(own.min(others).clone()),
            (own, others) => own.as_ref().or(others.as_ref()).cloned(),
        };
        KeySpan { from: self.from.as_slice().max(&other.from).to_vec(), end }
    }

    fn has(&self, key: &[u8]) -> bool {
        key >= self.from.as_slice() && self.end.as_deref().is_none_or(|end| key < end)
    }

    fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.from)
    }

    fn covers(&self, keys: Keys<'_>) -> bool {
        // Most requests are about one key, and are decided without a copy of it.
        if let Keys::One(key) = keys {
            return self.has(key);
        }
        let Some(asked) = KeySpan::reached(keys) else { return true };
        let ends_inside = match (&asked.end, &self.end) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(asked), Some(end)) => asked <= end,
        };
        asked.from >= self.from && (ends_inside || planted(Mutant::ScanBeyondGrant))
    }

    /// Out of its text behind the name and `/`.
    fn parse(text: &str, whole: impl Fn() -> String) -> Result<KeySpan, PatternError> {
        let bytes = |text: &str| unescape(text).ok_or_else(|| PatternError::Escape(whole()));
        let star = |text: &str| text.contains('*').then(|| PatternError::Star(whole())).map_or(Ok(()), Err);
        if let Some(key) = text.strip_prefix(KEY_MARK) {
            star(key)?;
            return Ok(KeySpan::one(bytes(key)?));
        }
        let Some(range) = text.strip_prefix(RANGE_MARK) else {
            star(text)?;
            return Ok(KeySpan::beginning_with(bytes(text)?));
        };
        let (from, end) = range.split_once('*').ok_or_else(|| PatternError::Range(whole()))?;
        star(end)?;
        let end = if end.is_empty() { None } else { Some(bytes(end)?) };
        let span = KeySpan { from: bytes(from)?, end };
        if span.is_empty() {
            return Err(PatternError::Range(whole()));
        }
        Ok(span)
    }
}

/// What stands before a single key, and before the first key of a range.
const KEY_MARK: &str = "*key:";
const RANGE_MARK: &str = "*range:";

impl fmt::Display for KeySpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeySpan { from, end } = self;
        if *end == successor(from) {
            return f.write_str(&escaped(from));
        }
        match end {
            Some(end) if end.strip_suffix(&[0]) == Some(from) => write!(f, "{KEY_MARK}{}", escaped(from)),
            end => write!(f, "{RANGE_MARK}{}*{}", escaped(from), escaped(end.as_deref().unwrap_or_default())),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Name {
    Exactly(String),
    BeginsWith(String),
}

/// Which keys of a resource a request can reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys<'a> {
    /// One key.
    One(&'a [u8]),
    /// No key of its own: who may do it to any key may do it (to grant a lease, which keys are attached to later).
    Any,
    /// Those that begin with `prefix`, from `from` (inclusive) to `end` (exclusive; `None`: to the last one).
    Range {
        /// What they begin with.
        prefix: &'a [u8],
        /// The first key.
        from: &'a [u8],
        /// After the last key.
        end: Option<&'a [u8]>,
    },
}

impl<'a> Keys<'a> {
    /// The resource as a whole.
    pub const ALL: Keys<'static> = Keys::Range { prefix: b"", from: b"", end: None };

    /// All keys that begin so.
    pub fn beginning_with(prefix: &'a [u8]) -> Keys<'a> {
        Keys::Range { prefix, from: b"", end: None }
    }
}

/// What a request is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target<'a> {
    /// Of which kind.
    pub kind: Kind,
    /// Its name; `None`: all of the kind (a list of them).
    pub name: Option<&'a str>,
    /// Which of its keys.
    pub keys: Keys<'a>,
}

impl<'a> Target<'a> {
    /// A resource as a whole.
    pub fn whole(kind: Kind, name: &'a str) -> Target<'a> {
        Target { kind, name: Some(name), keys: Keys::ALL }
    }

    /// All resources of a kind.
    pub fn every(kind: Kind) -> Target<'a> {
        Target { kind, name: None, keys: Keys::ALL }
    }
}

impl fmt::Display for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.name.unwrap_or("*"))?;
        match self.keys {
            Keys::One(key) => write!(f, "/{}", shown(key)),
            Keys::Any => f.write_str(" (any key)"),
            Keys::Range { prefix: b"", from: b"", .. } => Ok(()),
            Keys::Range { prefix: b"", from, .. } => write!(f, " from {} on", shown(from)),
            Keys::Range { prefix, .. } => write!(f, "/{}…", shown(prefix)),
        }
    }
}

/// A key in a message: not all of a long one.
fn shown(key: &[u8]) -> String {
    const SHOWN_MAX: usize = 100;
    let text = key.escape_ascii().to_string();
    if text.len() > SHOWN_MAX {
        return format!("{}…", &text[..SHOWN_MAX]);
    }
    text
}

/// Why a text is no pattern.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PatternError {
    /// It is too long.
    #[error("a resource has at most {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// Its kind is none.
    #[error("'{0}' is no resource: it begins with kv/, bucket/, redis/, etcd/, cluster/, node/, account/ or security/, or is *")]
    Kind(String),
    /// Its name is empty or has `*` inside.
    #[error("'{0}' names no resource: behind the kind comes a name, the beginning of one and *, or * alone")]
    Name(String),
    /// A `*` where prefixes are meant anyway.
    #[error(
        "'{0}' has * in its key prefix: a prefix covers all keys that begin with it; write %2a for the byte itself, \
         *key:KEY for a single key, *range:FROM*END for a range"
    )]
    Star(String),
    /// A range without its mark, or without keys.
    #[error("'{0}' is no range of keys: write *range:FROM*END, where FROM is below END, or *range:FROM* for all keys from FROM on")]
    Range(String),
    /// A range or a single key of something else.
    #[error("'{0}' has a single key or a range; only kv has them, of others give a prefix")]
    Kv(String),
    /// A key prefix below names that are not fixed, or of a kind that has no keys.
    #[error("'{0}' has a key prefix; only kv, bucket, redis and etcd have keys, and the name must be a whole one")]
    Prefix(String),
    /// A bad escape.
    #[error("'{0}' has % without two hexadecimal digits")]
    Escape(String),
}

impl Pattern {
    /// Everything.
    pub fn everything() -> Pattern {
        Pattern { kind: None, name: Name::BeginsWith(String::new()), span: KeySpan::all() }
    }

    /// All of a kind.
    pub fn every(kind: Kind) -> Pattern {
        Pattern { kind: Some(kind), ..Pattern::everything() }
    }

    /// One resource by its name, all of it.
    pub fn named(kind: Kind, name: &str) -> Pattern {
        Pattern { kind: Some(kind), name: Name::Exactly(name.to_string()), span: KeySpan::all() }
    }

    /// Whether every key that the target can reach is covered.
    pub fn covers(&self, target: &Target<'_>) -> bool {
        self.names(target) && self.span.covers(target.keys)
    }

    /// Whether it is about the target's resource, whichever its keys.
    fn names(&self, target: &Target<'_>) -> bool {
        if self.kind.is_some_and(|kind| kind != target.kind) {
            return false;
        }
        match (&self.name, target.name) {
            (Name::BeginsWith(start), Some(name)) => name.starts_with(start.as_str()),
            (Name::BeginsWith(start), None) => start.is_empty(),
            (Name::Exactly(own), Some(name)) => own == name,
            (Name::Exactly(_), None) => false,
        }
    }

    /// Whether every key that the target can reach is covered by one of these or another: two ranges that meet cover a scan over both.
    pub fn cover_together<'p>(patterns: impl Iterator<Item = &'p Pattern>, target: &Target<'_>) -> bool {
        let named = patterns.filter(|pattern| pattern.names(target)).map(|pattern| &pattern.span);
        let mut spans: Vec<&KeySpan> = named.collect();
        let Some(asked) = KeySpan::reached(target.keys) else { return !spans.is_empty() };
        spans.sort_by(|one, other| one.from.cmp(&other.from));
        let mut reached = &asked.from;
        for span in spans {
            if span.from > *reached {
                return false;
            }
            match (&span.end, &asked.end) {
                (None, _) => return true,
                (Some(end), Some(asked)) if end >= asked => return true,
                (Some(end), _) => reached = reached.max(end),
            }
        }
        false
    }

    /// Whether it covers all that another covers.
    pub fn includes(&self, other: &Pattern) -> bool {
        // Without a kind are kinds that later builds have, too.
        if self.kind.is_some() && self.kind != other.kind {
            return false;
        }
        let name = match (&self.name, &other.name) {
            (Name::BeginsWith(start), Name::BeginsWith(others) | Name::Exactly(others)) => others.starts_with(start),
            (Name::Exactly(own), Name::Exactly(others)) => own == others,
            (Name::Exactly(_), Name::BeginsWith(_)) => false,
        };
        name && self.span.cut(&other.span) == other.span
    }

    /// Whether these together cover all that another covers: one of them does, or their keys meet.
    pub fn include_together<'p>(patterns: impl Iterator<Item = &'p Pattern> + Clone, other: &Pattern) -> bool {
        if patterns.clone().any(|pattern| pattern.includes(other)) {
            return true;
        }
        let (Some(kind), Name::Exactly(name)) = (other.kind, &other.name) else { return false };
        let keys = Keys::Range { prefix: b"", from: &other.span.from, end: other.span.end.as_deref() };
        Pattern::cover_together(patterns, &Target { kind, name: Some(name), keys })
    }

    /// Whether it covers any key of the resource of this name.
    pub fn touches(&self, kind: Kind, name: &str) -> bool {
        self.kind.is_none_or(|own| own == kind)
            && match &self.name {
                Name::BeginsWith(start) => name.starts_with(start.as_str()),
                Name::Exactly(own) => own == name,
            }
    }

    /// What both cover; `None`: nothing.
    pub fn and(&self, other: &Pattern) -> Option<Pattern> {
        let kind = match (self.kind, other.kind) {
            (Some(own), Some(others)) if own != others => return None,
            (own, others) => own.or(others),
        };
        let name = match (&self.name, &other.name) {
            (Name::Exactly(own), Name::Exactly(others)) => (own == others).then(|| self.name.clone())?,
            (Name::Exactly(own), Name::BeginsWith(start)) => own.starts_with(start).then(|| self.name.clone())?,
            (Name::BeginsWith(start), Name::Exactly(others)) => {
                others.starts_with(start).then(|| other.name.clone())?
            }
            (Name::BeginsWith(own), Name::BeginsWith(others)) if own.starts_with(others.as_str()) => self.name.clone(),
            (Name::BeginsWith(own), Name::BeginsWith(others)) => {
                others.starts_with(own.as_str()).then(|| other.name.clone())?
            }
        };
        let span = self.span.cut(&other.span);
        (!span.is_empty()).then_some(Pattern { kind, name, span })
    }
}

/// The least key behind all that begin with `prefix`; `None`: there is none.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

impl core::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        let whole = || text.escape_debug().to_string();
        if text == "*" {
            return Ok(Pattern::everything());
        }
        let (kind, rest) = text.split_once('/').ok_or_else(|| PatternError::Kind(whole()))?;
        let kind = Kind::ALL.iter().copied().find(|known| known.as_str() == kind);
        let kind = kind.ok_or_else(|| PatternError::Kind(whole()))?;
        // The names of clusters have slashes of their own, and clusters have no key prefixes.
        let (name, prefix) = match kind {
            Kind::Cluster => (rest, ""),
            _ => rest.split_once('/').unwrap_or((rest, "")),
        };
        let (start, open) = match name.strip_suffix('*') {
            Some(start) => (start, true),
            None => (name, false),
        };
        if start.contains('*') || (start.is_empty() && !open) {
            return Err(PatternError::Name(whole()));
        }
        let has_keys = matches!(kind, Kind::Kv | Kind::Bucket | Kind::Redis | Kind::Etcd);
        if !prefix.is_empty() && (open || !has_keys) {
            return Err(PatternError::Prefix(whole()));
        }
        let span = KeySpan::parse(prefix, whole)?;
        if kind != Kind::Kv && span.end != successor(&span.from) {
            return Err(PatternError::Kv(whole()));
        }
        let start = start.to_string();
        let name = if open { Name::BeginsWith(start) } else { Name::Exactly(start) };
        Ok(Pattern { kind: Some(kind), name, span })
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        if *first != b'%' {
            bytes.push(*first);
            rest = behind;
            continue;
        }
        let digits = core::str::from_utf8(behind.get(..2)?).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &behind[2..];
    }
    Some(bytes)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(kind) = self.kind else { return f.write_str("*") };
        match &self.name {
            Name::Exactly(name) => write!(f, "{}/{name}", kind.as_str())?,
            Name::BeginsWith(start) => write!(f, "{}/{start}*", kind.as_str())?,
        }
        match self.span == KeySpan::all() {
            true => Ok(()),
            false => write!(f, "/{}", self.span),
        }
    }
}

fn escaped(key: &[u8]) -> String {
    let mut text = String::new();
    for byte in key {
        match byte {
            b'%' | b'*' | 0..=0x20 | 0x7f..=0xff => text.push_str(&format!("%{byte:02x}")),
            byte => text.push(char::from(*byte)),
        }
    }
    text
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Pattern, D::Error> {
        String::deserialize(input)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> Pattern {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn key<'a>(name: &'a str, key: &'a [u8]) -> Target<'a> {
        Target { kind: Kind::Kv, name: Some(name), keys: Keys::One(key) }
    }

    #[test]
    fn names_and_prefixes_are_compared() {
        assert!(pattern("*").covers(&key("a", b"k")));
        assert!(pattern("kv/a").covers(&key("a", b"k")));
        assert!(!pattern("kv/a").covers(&key("ab", b"k")));
        assert!(pattern("kv/a*").covers(&key("ab", b"k")));
        assert!(!pattern("bucket/a").covers(&key("a", b"k")));
        assert!(pattern("kv/a/x/").covers(&key("a", b"x/1")));
        assert!(!pattern("kv/a/x/").covers(&key("a", b"x")));
        assert!(pattern("kv/*").covers(&Target::every(Kind::Kv)));
        assert!(!pattern("kv/a*").covers(&Target::every(Kind::Kv)));
        assert!(pattern("cluster/metadata/redis@x").covers(&Target::whole(Kind::Cluster, "metadata/redis@x")));
    }

    #[test]
    fn one_key_is_the_range_that_has_only_it() {
        let letters = [0, b'a', b'b', 0xff];
        let longer = |keys: &[Vec<u8>]| -> Vec<Vec<u8>> {
            keys.iter().flat_map(|key| letters.iter().map(move |letter| [&key[..], &[*letter]].concat())).collect()
        };
        let one = longer(&[Vec::new()]);
        let keys = [vec![Vec::new()], one.clone(), longer(&one)].concat();
        for (from, to) in keys.iter().flat_map(|from| keys.iter().map(move |to| (from, to))) {
            let span = |end| KeySpan { from: from.clone(), end };
            for own in
                [span(None), span(Some(to.clone())), KeySpan::one(to.clone()), KeySpan::beginning_with(to.clone())]
            {
                for key in &keys {
                    let end = [&key[..], &[0]].concat();
                    let range = Keys::Range { prefix: b"", from: key, end: Some(&end) };
                    assert_eq!(own.covers(Keys::One(key)), own.covers(range), "{own:?} {key:?}");
                }
            }
        }
    }

    #[test]
    fn scans_stay_inside() {
        let scan = |from, end| Target { kind: Kind::Kv, name: Some("a"), keys: Keys::Range { prefix: b"", from, end } };
        let own = pattern("kv/a/x/");
        assert!(own.covers(&scan(b"x/", Some(b"x0"))));
        assert!(own.covers(&scan(b"x/5", Some(b"x/9"))));
        assert!(!own.covers(&scan(b"x/", Some(b"x1"))));
        assert!(!own.covers(&scan(b"x/", None)));
        assert!(!own.covers(&scan(b"", Some(b"x0"))));
        assert!(!own.covers(&Target::whole(Kind::Kv, "a")));
        assert!(pattern("kv/a/%ff").covers(&scan(b"\xff1", None)));
    }

    #[test]
    fn single_keys_and_ranges_are_exact() {
        let one = pattern("kv/a/*key:x");
        assert!(one.covers(&key("a", b"x")));
        assert!(!one.covers(&key("a", b"x\0")) && !one.covers(&key("a", b"xy")) && !one.covers(&key("a", b"")));
        let scan = |from, end| Target { kind: Kind::Kv, name: Some("a"), keys: Keys::Range { prefix: b"", from, end } };
        assert!(one.covers(&scan(b"x", Some(b"x\0"))));
        assert!(!one.covers(&scan(b"x", Some(b"y"))) && !one.covers(&scan(b"x", None)));
        let range = pattern("kv/a/*range:b*d");
        assert!(range.covers(&key("a", b"b")) && range.covers(&key("a", b"cz")));
        assert!(!range.covers(&key("a", b"a\xff")) && !range.covers(&key("a", b"d")));
        assert!(range.covers(&scan(b"b", Some(b"d"))) && !range.covers(&scan(b"b", Some(b"d\0"))));
        assert!(range.covers(&Target { kind: Kind::Kv, name: Some("a"), keys: Keys::beginning_with(b"c") }));
        assert!(!range.covers(&Target { kind: Kind::Kv, name: Some("a"), keys: Keys::beginning_with(b"d") }));
        let from = pattern("kv/a/*range:b*");
        assert!(from.covers(&scan(b"b", None)) && !from.covers(&scan(b"a", None)));
        assert_eq!(pattern("kv/a/*range:*d").to_string(), "kv/a/*range:*d");
        assert_eq!(pattern("kv/a/*key:*".replace(":*", ":%2a").as_str()).to_string(), "kv/a/*key:%2a");
        // A range that is one of the others is written as that.
        assert_eq!(pattern("kv/a/*range:x/*x0").to_string(), "kv/a/x/");
        assert_eq!(pattern("kv/a/*range:x*x%00").to_string(), "kv/a/*key:x");
        assert_eq!(pattern("kv/a/*range:*").to_string(), "kv/a");
    }

    #[test]
    fn what_both_cover() {
        let both = |one: &str, other: &str| pattern(one).and(&pattern(other)).map(|both| both.to_string());
        assert_eq!(both("*", "kv/a/x"), Some("kv/a/x".into()));
        assert_eq!(both("kv/a*", "kv/ab*"), Some("kv/ab*".into()));
        assert_eq!(both("kv/a/x", "kv/a/xy"), Some("kv/a/xy".into()));
        assert_eq!(both("kv/a", "bucket/a"), None);
        assert_eq!(both("kv/a/x", "kv/a/y"), None);
        assert_eq!(both("kv/*", "kv/a"), Some("kv/a".into()));
        assert_eq!(both("kv/a/*range:b*f", "kv/a/*range:d*"), Some("kv/a/*range:d*f".into()));
        assert_eq!(both("kv/a/*range:b*f", "kv/a/c"), Some("kv/a/c".into()));
        assert_eq!(both("kv/a/*range:b*f", "kv/a/*key:f"), None);
        assert_eq!(both("kv/a/x", "kv/a/*key:x"), Some("kv/a/*key:x".into()));
        assert_eq!(both("*", "kv/a/*key:x"), Some("kv/a/*key:x".into()));
    }

    #[test]
    fn bad_texts_are_refused() {
        for (text, part) in [
            ("", "is no resource"),
            ("kv", "is no resource"),
            ("sql/x", "is no resource"),
            ("kv/", "names no resource"),
            ("kv/a*b", "names no resource"),
            ("kv/a/*", "has * in its key prefix"),
            ("kv/a/b*", "has * in its key prefix"),
            ("kv/a/*key:b*", "has * in its key prefix"),
            ("kv/a/*range:b*c*", "has * in its key prefix"),
            ("kv/a/*range:b", "is no range of keys"),
            ("kv/a/*range:b*b", "is no range of keys"),
            ("kv/a/*range:c*b", "is no range of keys"),
            ("kv/a*/*key:b", "has a key prefix"),
            ("node/1/*key:b", "has a key prefix"),
            ("bucket/a/*key:b", "only kv has them"),
            ("redis/a/*range:b*d", "only kv has them"),
            ("kv/a/*key:%zz", "has % without"),
            ("kv/a*/x", "has a key prefix"),
            ("node/1/x", "has a key prefix"),
            ("kv/a/%zz", "has % without"),
            ("kv/a/%+1", "has % without"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(format!("kv/{}", "a".repeat(3_000)).parse::<Pattern>(), Err(PatternError::TooLong));
    }

    proptest! {
        #[test]
        fn texts_read_back(prefix in proptest::collection::vec(any::<u8>(), 0..20), open in any::<bool>()) {
            let name = if open { Name::BeginsWith("a".into()) } else { Name::Exactly("a".into()) };
            let span = if open { KeySpan::all() } else { KeySpan::beginning_with(prefix) };
            let own = Pattern { kind: Some(Kind::Kv), name, span };
            prop_assert_eq!(pattern(&own.to_string()), own);
        }

        #[test]
        fn ranges_read_back(
            from in proptest::collection::vec(any::<u8>(), 0..4),
            end in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..4)),
        ) {
            let span = KeySpan { from, end };
            prop_assume!(!span.is_empty());
            let own = Pattern { kind: Some(Kind::Kv), name: Name::Exactly("a".into()), span };
            prop_assert_eq!(pattern(&own.to_string()), own);
        }

        /// What several cover together reaches no key that none of them covers.
        #[test]
        fn together_is_no_more_than_each(
            spans in proptest::collection::vec(
                (proptest::collection::vec(0_u8..3, 0..3), proptest::option::of(proptest::collection::vec(0_u8..3, 0..3))), 0..4),
            from in proptest::collection::vec(0_u8..3, 0..3),
            end in proptest::option::of(proptest::collection::vec(0_u8..3, 0..3)),
            probe in proptest::collection::vec(0_u8..3, 0..4),
        ) {
            let span = |(from, end)| Pattern { kind: None, name: Name::Exactly("a".into()), span: KeySpan { from, end } };
            let own: Vec<Pattern> = spans.into_iter().map(span).collect();
            let at = |keys| Target { kind: Kind::Kv, name: Some("a"), keys };
            let asked = at(Keys::Range { prefix: b"", from: &from, end: end.as_deref() });
            let inside = probe >= from && end.as_ref().is_none_or(|end| &probe < end);
            let together = Pattern::cover_together(own.iter(), &asked);
            prop_assert!(together || !own.iter().any(|one| one.covers(&asked) && inside));
            if together && inside {
                prop_assert!(own.iter().any(|one| one.covers(&at(Keys::One(&probe)))));
            }
        }

        /// A scan that is allowed reaches no key whose reading is not.
        #[test]
        fn a_scan_reaches_no_more_than_reads(
            own_from in proptest::collection::vec(0_u8..3, 0..4),
            own_end in proptest::option::of(proptest::collection::vec(0_u8..3, 0..4)),
            asked in proptest::collection::vec(0_u8..3, 0..3),
            from in proptest::collection::vec(0_u8..3, 0..4),
            end in proptest::option::of(proptest::collection::vec(0_u8..3, 0..4)),
            probe in proptest::collection::vec(0_u8..3, 0..5),
        ) {
            let own = KeySpan { from: own_from, end: own_end };
            let keys = Keys::Range { prefix: &asked, from: &from, end: end.as_deref() };
            let inside = probe.starts_with(&asked) && probe >= from && end.as_ref().is_none_or(|end| &probe < end);
            if own.covers(keys) && inside {
                prop_assert!(own.covers(Keys::One(&probe)));
            }
        }
    }
}
