//! `hive-members.json`: who the members of the level 0 clusters are, as this node last heard, so that it finds them again when
//! those that are configured are gone (docs/decisions/0040-members-of-level-zero-change.md).
//!
//! ```text
//! {"format":1,"clusters":[{"cluster":1,"generation":1,"index":1234,"members":[{"replica":1,"node":1,"disk":…,"learner":false,"address":"…"}]}]}
//! ```
//!
//! Always: written whole and synced; a file that is missing, of another format or damaged is no memory, which the configured
//! lists stand in for, and is said so. Held by: `what_is_written_is_read_and_damage_is_no_memory`. Not here: what an announcement means (core-node).

use base_types::{ClusterId, DiskId, Generation, LogIndex, NodeId, ReplicaId};
use core_cluster::api::Member;
use core_node::api::Announcement;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file in the data directory.
pub const FILE: &str = "hive-members.json";
const FORMAT: u32 = 1;
/// A longer file is none.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Remembered {
    format: u32,
    clusters: Vec<OneCluster>,
}

#[derive(Serialize, Deserialize)]
struct OneCluster {
    cluster: u64,
    /// Absent in files of builds before clusters of level 0 were recovered.
    #[serde(default = "first_life")]
    generation: u32,
    index: u64,
    members: Vec<OneMember>,
}

fn first_life() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
struct OneMember {
    replica: u64,
    node: u64,
    disk: u64,
    learner: bool,
    address: String,
}

/// What was remembered in this data directory; and why nothing is, where a file is there.
pub fn read(data: &Path) -> (Vec<Announcement>, Option<String>) {
    match read_file(&data.join(FILE)) {
        Ok(announcements) => (announcements, None),
        Err(reason) => {
            let path = data.join(FILE).display().to_string();
            let remedy = "the configured members are asked instead; it is written anew when one answers";
            (Vec::new(), Some(format!("{path} is not read: {reason}; {remedy}")))
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<Announcement>, String> {
    use std::io::Read;
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let mut text = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut text).map_err(|error| error.to_string())?;
    let remembered: Remembered = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if remembered.format != FORMAT {
        return Err(format!("it has format {}, this build knows {FORMAT}", remembered.format));
    }
    let member = |member: OneMember| {
        let OneMember { replica, node, disk, learner, address } = member;
        (Member { replica: ReplicaId(replica), node: NodeId(node), disk: DiskId(disk), learner }, address)
    };
    let cluster = |one: OneCluster| Announcement {
        cluster: ClusterId(one.cluster),
        generation: Generation(one.generation),
        index: LogIndex(one.index),
        members: one.members.into_iter().map(member).collect(),
    };
    Ok(remembered.clusters.into_iter().map(cluster).collect())
}

/// Keeps these in place of what was there.
pub fn write(data: &Path, announcements: &[Announcement]) -> std::io::Result<()> {
    let member = |(member, address): &(Member, String)| OneMember {
        replica: member.replica.0,
        node: member.node.0,
        disk: member.disk.0,
        learner: member.learner,
        address: address.clone(),
    };
    let cluster = |one: &Announcement| OneCluster {
        cluster: one.cluster.0,
        generation: one.generation.0,
        index: one.index.0,
        members: one.members.iter().map(member).collect(),
    };
    let remembered = Remembered { format: FORMAT, clusters: announcements.iter().map(cluster).collect() };
    let mut text = serde_json::to_vec(&remembered)?;
    text.push(b'\n');
    edge_disk::files::write_whole(data, FILE, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_no_memory() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()), (Vec::new(), None));
        let member = Member { replica: ReplicaId(4), node: NodeId(2), disk: DiskId(u64::MAX), learner: false };
        let told = vec![Announcement {
            cluster: ClusterId(1),
            generation: Generation(1_795_000_000),
            index: LogIndex(77),
            members: vec![(member, "10.0.0.2:7601".into())],
        }];
        write(directory.path(), &told).unwrap();
        let written = std::fs::read(directory.path().join(FILE)).unwrap();
        crate::testing::golden::check("data-directory", FILE, &written);
        assert_eq!(read(directory.path()), (told, None));
        std::fs::write(directory.path().join(FILE), "{\"format\":2,\"clusters\":[]}").unwrap();
        let newer = read(directory.path()).1.unwrap();
        assert!(
            newer.contains("it has format 2, this build knows 1; the configured members are asked instead"),
            "{newer}"
        );
        for damaged in ["", "{", "{\"format\":2,\"clusters\":[]}"] {
            std::fs::write(directory.path().join(FILE), damaged).unwrap();
            let (none, why) = read(directory.path());
            assert!(none.is_empty() && why.unwrap().contains("hive-members.json is not read"));
        }
    }
}
