//! Identities. Each is its own type, so that an index cannot pass for a count or a node for a replica.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, concat!($prefix, "{}"), self.0) }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{}", self.0) }
        }
    };
}

id!(
    /// A node: one process with one data directory. From its configuration; its certificate carries it.
    NodeId(u64), "n"
);
id!(
    /// One node's data directory, drawn at random when the directory is made. A node that comes
    /// back with another disk id has lost everything it ever promised.
    DiskId(u64), "d"
);
id!(
    /// One start of a node, drawn at random at each start.
    BootId(u64), "b"
);
id!(
    /// One Raft group in one life: a cluster deleted and created again under its name has another id.
    ClusterId(u64), "c"
);
id!(
    /// How often a cluster's name has been created; 1 the first time.
    Generation(u32), "g"
);
id!(
    /// One member of one cluster: the Raft paper's server id. Never given twice in a cluster, so a
    /// node that lost its disk comes back under a new one and can never vote as the old one.
    ReplicaId(u64), "r"
);
id!(
    /// A core of a node: one log, the clusters that hash to it, one state machine `Core`.
    LaneId(u16), "l"
);
id!(
    /// A Raft term (Raft paper, 5.1).
    Term(u64), "t"
);
id!(
    /// A position in a cluster's Raft log; the first entry has 1.
    LogIndex(u64), "i"
);
id!(
    /// A part of an engine that belongs to one replica (all backends of it) or to the lane's catalog.
    SpaceId(u64), "s"
);
id!(
    /// One of a keyspace's fixed number of virtual partitions.
    PartitionId(u16), "p"
);
id!(
    /// Distinguishes a retry from a new request: equal ids apply once. The first sender draws it at random and marks
    /// itself in it (`request_id.rs`).
    RequestId(u128), "q"
);
id!(
    /// Ties an answer to its question inside one core; meaningless elsewhere.
    Ticket(u64), "k"
);

/// The lane of a node with `lane_count` lanes on which a cluster lives. Every node computes it alike.
pub fn lane_of(cluster: ClusterId, lane_count: u16) -> LaneId {
    let mixed = xxhash_rust::xxh3::xxh3_64(&cluster.0.to_le_bytes());
    LaneId((mixed % u64::from(lane_count.max(1))) as u16)
}

/// The lane that runs a node's own affairs (node map, formation, heartbeats).
pub const LANE_ZERO: LaneId = LaneId(0);
