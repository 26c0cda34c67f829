//! Cluster names, `backend/backend@anything` (Hive paper, 2.1), and the backends they may name.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The longest cluster name, in bytes.
pub const CLUSTER_NAME_BYTES_MAX: usize = 512;
/// The most backends one cluster may have.
pub const CLUSTER_BACKENDS_MAX: usize = 8;

/// The replicated state machines Hive has. The number is the byte used on disk and wire: never reuse one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum BackendKind {
    /// The node map and elections of members.
    Allocator = 1,
    /// Plain ordered key-value pairs.
    Metadata = 2,
    /// Redis-like commands, above all set-if-not-exists.
    Redis = 3,
    /// References to other clusters, and keyspaces.
    Reference = 4,
    /// S3 multipart uploads.
    Multipart = 5,
    /// S3: which shard holds which keys of a bucket.
    ShardReference = 6,
    /// S3: the objects of a range of keys.
    Shard = 7,
    /// Keys with versions, transactions, and all of it at any stamp that is kept.
    Versioned = 8,
}

impl BackendKind {
    /// Every backend.
    pub const ALL: [BackendKind; 8] = [
        Self::Allocator,
        Self::Metadata,
        Self::Redis,
        Self::Reference,
        Self::Multipart,
        Self::ShardReference,
        Self::Shard,
        Self::Versioned,
    ];

    /// The name used in cluster names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::Metadata => "metadata",
            Self::Redis => "redis",
            Self::Reference => "reference",
            Self::Multipart => "multipart",
            Self::ShardReference => "shard_reference",
            Self::Shard => "shard",
            Self::Versioned => "versioned",
        }
    }

    /// From its byte on disk or wire.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a text is no cluster name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// No `@`.
    #[error("cluster name '{0}' has no '@'; write backend/backend@anything, for example metadata@users")]
    NoAt(String),
    /// Nothing behind the `@`.
    #[error("cluster name '{0}' has nothing after '@'; write a name there, for example metadata@users")]
    EmptyTail(String),
    /// Too long.
    #[error("cluster name is {0} bytes long; give at most {CLUSTER_NAME_BYTES_MAX}")]
    TooLong(usize),
    /// A control character or a space.
    #[error("cluster name holds a control character or a space; take it out")]
    BadCharacter,
    /// A backend that does not exist.
    #[error("cluster name '{name}' names an unknown backend '{backend}'; known are allocator, metadata, redis, reference, multipart, shard_reference, shard, versioned")]
    UnknownBackend {
        /// The whole name.
        name: String,
        /// The part that is no backend.
        backend: String,
    },
    /// The same backend twice, or too many.
    #[error("cluster name '{0}' names a backend twice; name each once")]
    RepeatedBackend(String),
}

/// A checked cluster name. Copies share it: requests carry it from hand to hand.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(Arc<Parts>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Parts {
    text: String,
    backends: Vec<BackendKind>,
}

impl ClusterName {
    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// The backends in the order they are named.
    pub fn backends(&self) -> &[BackendKind] {
        &self.0.backends
    }

    /// Whether the cluster has this backend.
    pub fn has(&self, backend: BackendKind) -> bool {
        self.0.backends.contains(&backend)
    }

    /// What stands behind the `@`.
    pub fn tail(&self) -> &str {
        self.0.text.split_once('@').map_or("", |(_, tail)| tail)
    }

    /// The global cluster (Hive paper, 2.6).
    pub fn world() -> ClusterName {
        "allocator/reference@world".parse().expect("a constant name")
    }

    /// A region's level 0 cluster (Hive paper, 2.6).
    pub fn regional(region: &str) -> Result<ClusterName, NameError> {
        alloc::format!("reference@region-{region}").parse()
    }

    /// Whether the nodes' configuration says who its members are: the global cluster and the regions'.
    pub fn is_level_zero(&self) -> bool {
        self.as_str() == "allocator/reference@world" || self.as_str().starts_with("reference@region-")
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.len() > CLUSTER_NAME_BYTES_MAX {
            return Err(NameError::TooLong(text.len()));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(NameError::BadCharacter);
        }
        let (head, tail) = text.split_once('@').ok_or_else(|| NameError::NoAt(text.to_string()))?;
        if tail.is_empty() {
            return Err(NameError::EmptyTail(text.to_string()));
        }
        let mut backends: Vec<BackendKind> = Vec::new();
        for part in head.split('/') {
            let kind = BackendKind::ALL
                .into_iter()
                .find(|kind| kind.name() == part)
                .ok_or_else(|| NameError::UnknownBackend { name: text.to_string(), backend: part.to_string() })?;
            if backends.contains(&kind) {
                return Err(NameError::RepeatedBackend(text.to_string()));
            }
            backends.push(kind);
        }
        Ok(ClusterName(Arc::new(Parts { text: text.to_string(), backends })))
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_refuse() {
        let world: ClusterName = "allocator/reference@world".parse().unwrap();
        assert_eq!(world.backends(), &[BackendKind::Allocator, BackendKind::Reference]);
        assert_eq!(world.tail(), "world");
        assert!(matches!("world".parse::<ClusterName>(), Err(NameError::NoAt(_))));
        assert!(matches!("metadata@".parse::<ClusterName>(), Err(NameError::EmptyTail(_))));
        assert!(matches!("sql@x".parse::<ClusterName>(), Err(NameError::UnknownBackend { .. })));
        assert!(matches!("redis/redis@x".parse::<ClusterName>(), Err(NameError::RepeatedBackend(_))));
        assert!(matches!("redis@a b".parse::<ClusterName>(), Err(NameError::BadCharacter)));
        let long = alloc::format!("redis@{}", "x".repeat(600));
        assert!(matches!(long.parse::<ClusterName>(), Err(NameError::TooLong(606))));
    }
}
