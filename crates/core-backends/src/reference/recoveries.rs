//! Clusters that lost their majority for good and began a new life on one survivor (decision 0044).
//!
//! ```text
//!   r name 0 ended generation (big-endian)   Recovery
//! ```
//!
//! Always: a life begins once, on one survivor; what a recovery found stays readable as long as its cluster lives, and as long
//! as data of the ended life is kept anywhere.
//! Held by: `a_life_begins_on_one_survivor_only`, `recoveries_whose_data_is_kept_are_not_forgotten`.
//! Not here: choosing the survivor (core-node), its replica (core-cluster, lane/recovery.rs).

use super::*;
use base_types::codec::DecodeError;
use base_types::{ErrorCode, Survivor};

const RECOVERY: u8 = b'r';
/// The first byte of a recovery's record.
const FORMAT: u8 = 1;
/// Recoveries kept of one cluster; the oldest of which no data is kept makes room.
pub const RECOVERIES_MAX: usize = 8;

/// A life of a cluster that ended without its majority.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    pub name: ClusterName,
    pub cluster: ClusterId,
    /// The life that ended; the next one began on the survivor.
    pub ended: Generation,
    pub survivor: ClusterMember,
    /// When, by the clock of the node that was asked for it, which that was, and where (Unix milliseconds).
    pub unix_ms: u64,
    pub by: NodeId,
    /// What each node that answered held.
    pub told: Vec<Survivor>,
    /// Members of the ended life whose data is kept until it is discarded, if they come back.
    pub held: Vec<ClusterMember>,
    /// The cluster has not yet as many members again as its rule wants.
    pub open: bool,
}

impl Recovery {
    /// The life that began.
    pub fn begun(&self) -> Generation {
        Generation(self.ended.0 + 1)
    }
}

impl Encode for Recovery {
    fn encode(&self, out: &mut Writer) {
        out.u8(FORMAT).string(self.name.as_str()).u64(self.cluster.0).u32(self.ended.0);
        self.survivor.encode(out);
        out.u64(self.unix_ms).u64(self.by.0);
        wire::put_list(out, &self.told);
        wire::put_list(out, &self.held);
        out.bool(self.open);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let format = input.u8("recovery format")?;
        if format != FORMAT {
            return Err(DecodeError::version("recovery record", format, FORMAT));
        }
        Ok(Recovery {
            name: wire::name(input)?,
            cluster: ClusterId(input.u64("cluster")?),
            ended: wire::generation(input)?,
            survivor: ClusterMember::decode(input)?,
            unix_ms: input.u64("time")?,
            by: NodeId(input.u64("node")?),
            told: wire::list(input, "survivors", MEMBERS_MAX)?,
            held: wire::list(input, "held", MEMBERS_MAX)?,
            open: input.bool("open")?,
        })
    }
}

fn row(name: &ClusterName, ended: Generation) -> Bytes {
    key(RECOVERY, &[name.as_str().as_bytes(), &[0], &ended.0.to_be_bytes()])
}

fn of_name(name: &ClusterName) -> Bytes {
    key(RECOVERY, &[name.as_str().as_bytes(), &[0]])
}

fn read_recovery(bytes: Bytes) -> Result<Recovery, EngineError> {
    Recovery::from_bytes(bytes).map_err(|error| corrupt_row("recovery", error))
}

pub(super) fn check(recovery: &Recovery) -> Result<(), Refusal> {
    let members = recovery.held.len().max(recovery.told.len());
    if members > MEMBERS_MAX || recovery.held.iter().any(|member| member.node == recovery.survivor.node) {
        let message = format!(
            "the recovery of cluster '{}' names {members} members, or its survivor among those that are not; at most {MEMBERS_MAX} are taken",
            recovery.name
        );
        return Err(Refusal::new(ErrorCode::TooManyMembers, message));
    }
    Ok(())
}

/// The next life of a cluster begins on its survivor. Repeated, it is done already.
pub(super) fn recover(space: &mut dyn SpaceWrite, recovery: Recovery) -> Outcome {
    let name = recovery.name.clone();
    let Some(mut record) = read(space, &name)? else { return Ok(Err(unknown(&name))) };
    if record.generation == recovery.begun() {
        let begun = space.get(&row(&name, recovery.ended))?.map(read_recovery).transpose()?;
        if begun.is_some_and(|begun| begun.survivor == recovery.survivor) {
            return Ok(Ok(Reply::Record { record }));
        }
    }
    if record.generation != recovery.ended || record.cluster != recovery.cluster {
        return Ok(Err(wrong_generation(&name, record.generation, recovery.ended)));
    }
    if record.state != ClusterState::Active {
        let message = format!("cluster '{name}' is {:?}; only one that served is recovered", record.state);
        return Ok(Err(Refusal::new(ErrorCode::NotInState, message)));
    }
    if let Err(refusal) = make_room(space, &name)? {
        return Ok(Err(refusal));
    }
    space.put(row(&name, recovery.ended), recovery.to_bytes());
    record.generation = recovery.begun();
    record.members = vec![ClusterMember { learner: false, ..recovery.survivor }];
    set_number(space, key(GENERATION, &[name.as_str().as_bytes()]), record.generation.0.into());
    write(space, &mut record);
    Ok(Ok(Reply::Record { record }))
}

/// Keeps the recovery of a cluster that no record is of. Repeated, it is done already.
pub(super) fn note(space: &mut dyn SpaceWrite, recovery: Recovery) -> Outcome {
    let at = row(&recovery.name, recovery.ended);
    let known = space.get(&at)?.map(read_recovery).transpose()?;
    let recovery = match known {
        Some(known) => known,
        None => {
            if let Err(refusal) = make_room(space, &recovery.name)? {
                return Ok(Err(refusal));
            }
            space.put(at, recovery.to_bytes());
            recovery
        }
    };
    Ok(Ok(Reply::Recoveries { recoveries: vec![recovery], more: false }))
}

fn make_room(space: &mut dyn SpaceWrite, name: &ClusterName) -> Result<Result<(), Refusal>, EngineError> {
    let (rows, _) = prefix_page(space, &of_name(name), None, RECOVERIES_MAX)?;
    if rows.len() < RECOVERIES_MAX {
        return Ok(Ok(()));
    }
    for (oldest, bytes) in rows {
        if read_recovery(bytes)?.held.is_empty() {
            space.delete(oldest);
            return Ok(Ok(()));
        }
    }
    let message = format!(
        "cluster '{name}' was recovered {RECOVERIES_MAX} times and data of all its ended lives is kept; `hive ctl recover` lists it: discard some"
    );
    Ok(Err(Refusal::new(ErrorCode::TooManyRecoveries, message)))
}

/// Data of an ended life was discarded on a node, or the cluster has its members again.
pub(super) fn settle(
    space: &mut dyn SpaceWrite,
    name: &ClusterName,
    ended: Generation,
    discarded: Option<NodeId>,
    whole: bool,
) -> Outcome {
    let at = row(name, ended);
    let Some(bytes) = space.get(&at)? else {
        let message =
            format!("life {ended} of cluster '{name}' was not recovered; `hive ctl recover` lists those that were");
        return Ok(Err(Refusal::new(ErrorCode::UnknownRecovery, message)));
    };
    let mut recovery = read_recovery(bytes)?;
    recovery.held.retain(|member| Some(member.node) != discarded);
    recovery.open &= !whole;
    space.put(at, recovery.to_bytes());
    Ok(Ok(Reply::Recoveries { recoveries: vec![recovery], more: false }))
}

/// Its cluster is gone, and with it all its lives.
pub(super) fn forget(space: &mut dyn SpaceWrite, name: &ClusterName) -> Result<(), EngineError> {
    let (rows, _) = prefix_page(space, &of_name(name), None, RECOVERIES_MAX)?;
    rows.into_iter().for_each(|(at, _)| space.delete(at));
    Ok(())
}

/// Recoveries of all clusters, or of one, by name and life.
pub(super) fn list(
    space: &dyn SpaceRead,
    name: Option<&ClusterName>,
    start_after: Option<&(ClusterName, Generation)>,
    limit: u32,
) -> Result<Reply, EngineError> {
    let prefix = name.map_or_else(|| key(RECOVERY, &[]), of_name);
    let after = start_after.map(|(name, ended)| row(name, *ended));
    let (rows, more) = prefix_page(space, &prefix, after.as_deref(), page_limit(limit))?;
    let recoveries = rows.into_iter().map(|(_, bytes)| read_recovery(bytes)).collect::<Result<_, _>>()?;
    Ok(Reply::Recoveries { recoveries, more })
}

/// Which life the cluster has now, if this one ended by a recovery and the cluster lives.
pub(super) fn ended_by(
    space: &dyn SpaceRead,
    name: &ClusterName,
    generation: Generation,
) -> Result<Option<Generation>, EngineError> {
    if space.get(&row(name, generation))?.is_none() {
        return Ok(None);
    }
    Ok(read(space, name)?.map(|record| record.generation).filter(|now| *now > generation))
}
