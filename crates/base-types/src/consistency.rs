//! The acknowledgements of a write and the two kinds of read (Hive paper, 2.3; `s3` is ours, decision 0063).

use core::fmt;
use core::str::FromStr;

/// What must have happened before a write is acknowledged. All follow one order, the cluster's log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum WriteConsistency {
    /// The entry is in the leader's memory.
    Hopeful = 0,
    /// The entry is synced in the leader's log.
    Eventual = 1,
    /// The entry is synced by a majority, committed, and applied by the leader.
    #[default]
    Strong = 2,
    /// As strong, and synced by every member.
    Absolute = 3,
    /// As strong, and in the bucket of a member that keeps its replica in one. Says nothing of the other members:
    /// it stands behind `absolute` here, and promises another thing.
    S3 = 4,
}

/// Who may answer a read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum ReadConsistency {
    /// Any member, from what it has applied.
    Eventual = 0,
    /// The leader, after it has made sure that it still is the leader.
    #[default]
    Strong = 1,
}

/// A level's name that is none of the known ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown level; writes know hopeful, eventual, strong, absolute, s3; reads know eventual, strong")]
pub struct UnknownLevel;

impl WriteConsistency {
    /// All levels, as they came to be.
    pub const ALL: [WriteConsistency; 5] = [Self::Hopeful, Self::Eventual, Self::Strong, Self::Absolute, Self::S3];

    /// The name used in rules, requests and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hopeful => "hopeful",
            Self::Eventual => "eventual",
            Self::Strong => "strong",
            Self::Absolute => "absolute",
            Self::S3 => "s3",
        }
    }

    /// From its byte on the wire.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

impl ReadConsistency {
    /// The name used in rules, requests and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eventual => "eventual",
            Self::Strong => "strong",
        }
    }

    /// From its byte on the wire.
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::Eventual, Self::Strong].get(usize::from(byte)).copied()
    }
}

impl FromStr for WriteConsistency {
    type Err = UnknownLevel;
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or(UnknownLevel)
    }
}

impl FromStr for ReadConsistency {
    type Err = UnknownLevel;
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        [Self::Eventual, Self::Strong].into_iter().find(|level| level.name() == text).ok_or(UnknownLevel)
    }
}

impl fmt::Display for WriteConsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ReadConsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
