//! The byte form of the cluster layer's plain types inside frames: operations, outcomes, members,
//! replica specifications.
//!
//! Always: every reader is bounded (`MEMBERS_MAX`, and what the frame itself holds) and never panics;
//! an unknown tag is an error. Held by: `damage_never_panics`, `peer_frame`. Not here: the frame around them (`frame.rs`), peers' Raft messages
//! (opaque here, core-cluster decodes them).

use base_types::access::Authority;
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{
    BackendKind, ClusterId, ClusterName, DiskId, Generation, LogIndex, NodeId, OrderedAt, ReadConsistency, Refusal,
    ReplicaId, RequestId, Term, WriteConsistency,
};
use core_cluster::api::{
    AdminCommand, ClusterDescription, ClusterVerification, LocalKind, LocalOutcome, Member, MemberVerification,
    ReplicaSpec, Verified,
};

/// The most members a list in a frame may name.
pub const MEMBERS_MAX: usize = 128;

type Decoded<T> = Result<T, DecodeError>;

/// A list of members.
pub fn write_members(out: &mut Writer, members: &[Member]) {
    out.varint(members.len() as u64);
    for member in members {
        write_member(out, member);
    }
}

fn write_member(out: &mut Writer, member: &Member) {
    out.u64(member.replica.0).u64(member.node.0).u64(member.disk.0).bool(member.learner);
}

fn read_member(input: &mut Reader) -> Decoded<Member> {
    Ok(Member {
        replica: ReplicaId(input.u64("member replica")?),
        node: NodeId(input.u64("member node")?),
        disk: DiskId(input.u64("member disk")?),
        learner: input.bool("member learner")?,
    })
}

fn member_count(input: &mut Reader) -> Decoded<usize> {
    let count = input.count("members")?;
    if count > MEMBERS_MAX {
        return Err(DecodeError::TooLarge("members"));
    }
    Ok(count)
}

/// The counterpart of [`write_members`].
pub fn read_members(input: &mut Reader) -> Decoded<Vec<Member>> {
    let count = member_count(input)?;
    (0..count).map(|_| read_member(input)).collect()
}

/// A cluster name.
pub fn write_name(out: &mut Writer, name: &ClusterName) {
    out.string(name.as_str());
}

/// The counterpart of [`write_name`]; a text that is no cluster name is an error.
pub fn read_name(input: &mut Reader) -> Decoded<ClusterName> {
    input.string("cluster name")?.parse().map_err(|_| DecodeError::Unknown("cluster name"))
}

fn write_backend(out: &mut Writer, backend: BackendKind) {
    out.u8(backend as u8);
}

fn read_backend(input: &mut Reader) -> Decoded<BackendKind> {
    BackendKind::from_byte(input.u8("backend")?).ok_or(DecodeError::Unknown("backend"))
}

fn read_write_level(input: &mut Reader) -> Decoded<WriteConsistency> {
    WriteConsistency::from_byte(input.u8("write level")?).ok_or(DecodeError::Unknown("write level"))
}

fn read_read_level(input: &mut Reader) -> Decoded<ReadConsistency> {
    ReadConsistency::from_byte(input.u8("read level")?).ok_or(DecodeError::Unknown("read level"))
}

/// What a node must know to hold a replica.
pub fn write_spec(out: &mut Writer, spec: &ReplicaSpec) {
    out.u64(spec.cluster.0).u32(spec.generation.0);
    write_name(out, &spec.name);
    out.string(&spec.rule).string(&spec.engine).u8(spec.consistency as u8).u8(spec.read_consistency as u8);
    out.u64(spec.replica.0);
    write_members(out, &spec.initial_members);
}

/// The counterpart of [`write_spec`].
pub fn read_spec(input: &mut Reader) -> Decoded<ReplicaSpec> {
    Ok(ReplicaSpec {
        cluster: ClusterId(input.u64("cluster")?),
        generation: Generation(input.u32("generation")?),
        name: read_name(input)?,
        rule: input.string("rule")?.into(),
        engine: input.string("engine")?.into(),
        consistency: read_write_level(input)?,
        read_consistency: read_read_level(input)?,
        replica: ReplicaId(input.u64("replica")?),
        initial_members: read_members(input)?.into(),
    })
}

/// For whom an operation is done. Whether anything was written: nothing says that nobody was asked who they are.
pub fn write_authority(out: &mut Writer, authority: Authority) -> bool {
    match authority {
        Authority::Anyone => return false,
        Authority::Node => out.u8(1),
        Authority::Decided { credential, epoch } => out.u8(2).u64(credential).varint(epoch),
    };
    true
}

/// The counterpart of [`write_authority`] where something was written.
pub fn read_authority(input: &mut Reader) -> Decoded<Authority> {
    Ok(match input.u8("authority")? {
        1 => Authority::Node,
        2 => Authority::Decided { credential: input.u64("credential")?, epoch: input.varint("directory epoch")? },
        _ => return Err(DecodeError::Unknown("authority")),
    })
}

/// An operation's kind.
pub fn write_kind(out: &mut Writer, kind: &LocalKind) {
    match kind {
        LocalKind::Write { backend, command, consistency, request_id, cluster_time_ms } => {
            write_backend(out.u8(1), *backend);
            out.option(*consistency, |out, level| {
                out.u8(level as u8);
            });
            out.u128(request_id.0).varint(*cluster_time_ms).bytes(command);
        }
        LocalKind::Read { backend, query, consistency } => {
            write_backend(out.u8(2), *backend);
            out.option(*consistency, |out, level| {
                out.u8(level as u8);
            });
            out.bytes(query);
        }
        LocalKind::Admin(command) => write_admin(out.u8(3), command),
    }
}

/// The counterpart of [`write_kind`].
pub fn read_kind(input: &mut Reader) -> Decoded<LocalKind> {
    Ok(match input.u8("operation kind")? {
        1 => LocalKind::Write {
            backend: read_backend(input)?,
            consistency: input.option("level", read_write_level)?,
            request_id: RequestId(input.u128("request id")?),
            cluster_time_ms: input.varint("cluster time")?,
            command: input.bytes("command")?,
        },
        2 => LocalKind::Read {
            backend: read_backend(input)?,
            consistency: input.option("level", read_read_level)?,
            query: input.bytes("query")?,
        },
        3 => LocalKind::Admin(read_admin(input)?),
        _ => return Err(DecodeError::Unknown("operation kind")),
    })
}

fn write_admin(out: &mut Writer, command: &AdminCommand) {
    match command {
        AdminCommand::AddMember { node, disk } => {
            out.u8(1).u64(node.0).u64(disk.0);
        }
        AdminCommand::RemoveMember { node } => {
            out.u8(2).u64(node.0);
        }
        AdminCommand::ReplaceDisk { node, disk } => {
            out.u8(3).u64(node.0).u64(disk.0);
        }
        AdminCommand::TransferLeader { node } => {
            out.u8(4).u64(node.0);
        }
        AdminCommand::SetDefaultConsistency { consistency, read_consistency } => {
            out.u8(5)
                .option(*consistency, |out, level| {
                    out.u8(level as u8);
                })
                .option(*read_consistency, |out, level| {
                    out.u8(level as u8);
                });
        }
        AdminCommand::Describe => {
            out.u8(6);
        }
        AdminCommand::Verify { run } => {
            out.u8(8).option(*run, |out, run| {
                out.u64(run);
            });
        }
        AdminCommand::ReplaceMember { from, node, disk } => {
            out.u8(7).u64(from.0).u64(node.0).u64(disk.0);
        }
        AdminCommand::SkipEntry { index } => {
            out.u8(11).u64(index.0);
        }
        AdminCommand::RenewMember { node, replica } => {
            out.u8(9).u64(node.0).u64(replica.0);
        }
        AdminCommand::SetEngine { engine } => {
            out.u8(10).string(engine);
        }
    }
}

fn read_admin(input: &mut Reader) -> Decoded<AdminCommand> {
    Ok(match input.u8("admin command")? {
        1 => AdminCommand::AddMember { node: NodeId(input.u64("node")?), disk: DiskId(input.u64("disk")?) },
        2 => AdminCommand::RemoveMember { node: NodeId(input.u64("node")?) },
        3 => AdminCommand::ReplaceDisk { node: NodeId(input.u64("node")?), disk: DiskId(input.u64("disk")?) },
        4 => AdminCommand::TransferLeader { node: NodeId(input.u64("node")?) },
        5 => AdminCommand::SetDefaultConsistency {
            consistency: input.option("level", read_write_level)?,
            read_consistency: input.option("level", read_read_level)?,
        },
        6 => AdminCommand::Describe,
        7 => AdminCommand::ReplaceMember {
            from: NodeId(input.u64("from")?),
            node: NodeId(input.u64("node")?),
            disk: DiskId(input.u64("disk")?),
        },
        9 => AdminCommand::RenewMember { node: NodeId(input.u64("node")?), replica: ReplicaId(input.u64("replica")?) },
        11 => AdminCommand::SkipEntry { index: LogIndex(input.u64("index")?) },
        10 => AdminCommand::SetEngine { engine: input.string("engine")? },
        8 => AdminCommand::Verify { run: input.option("run", |input| input.u64("run"))? },
        _ => return Err(DecodeError::Unknown("admin command")),
    })
}

/// How an operation ended.
pub fn write_outcome(out: &mut Writer, outcome: &LocalOutcome) {
    match outcome {
        LocalOutcome::Written { reply, at, level, cluster_time_ms } => {
            at.encode(out.u8(1).bytes(reply));
            out.u8(*level as u8).varint(*cluster_time_ms);
        }
        LocalOutcome::Read { reply, at, level, cluster_time_ms } => {
            at.encode(out.u8(2).bytes(reply));
            out.u8(*level as u8).varint(*cluster_time_ms);
        }
        LocalOutcome::Described(description) => write_description(out.u8(3), description),
        LocalOutcome::Verified(report) => write_verification(out.u8(11), report),
        LocalOutcome::AdminDone { at } => at.encode(out.u8(4)),
        LocalOutcome::CommittedNotAbsolute { reply, at, missing } => {
            at.encode(out.u8(5).bytes(reply));
            out.varint(missing.len() as u64);
            for node in missing {
                out.u64(node.0);
            }
        }
        LocalOutcome::NotLeader { leader, term, members } => {
            out.u8(6)
                .option(*leader, |out, node| {
                    out.u64(node.0);
                })
                .varint(term.0);
            write_members(out, members);
        }
        LocalOutcome::NoSuchCluster => {
            out.u8(7);
        }
        LocalOutcome::StaleRoute { cluster_time_ms } => {
            out.u8(8).varint(*cluster_time_ms);
        }
        LocalOutcome::Refused(refusal) => refusal.encode(out.u8(9)),
        LocalOutcome::Unknown { message } => {
            out.u8(10).string(message);
        }
        LocalOutcome::CommittedNotKept { reply, at, kept } => {
            at.encode(out.u8(12).bytes(reply));
            out.varint(kept.0);
        }
    }
}

/// The counterpart of [`write_outcome`].
pub fn read_outcome(input: &mut Reader) -> Decoded<LocalOutcome> {
    Ok(match input.u8("outcome")? {
        1 => LocalOutcome::Written {
            reply: input.bytes("reply")?,
            at: OrderedAt::decode(input)?,
            level: read_write_level(input)?,
            cluster_time_ms: input.varint("cluster time")?,
        },
        2 => LocalOutcome::Read {
            reply: input.bytes("reply")?,
            at: OrderedAt::decode(input)?,
            level: read_read_level(input)?,
            cluster_time_ms: input.varint("cluster time")?,
        },
        3 => LocalOutcome::Described(read_description(input)?),
        4 => LocalOutcome::AdminDone { at: OrderedAt::decode(input)? },
        5 => LocalOutcome::CommittedNotAbsolute {
            reply: input.bytes("reply")?,
            at: OrderedAt::decode(input)?,
            missing: {
                let count = member_count(input)?;
                (0..count).map(|_| input.u64("missing node").map(NodeId)).collect::<Decoded<_>>()?
            },
        },
        6 => LocalOutcome::NotLeader {
            leader: input.option("leader", |input| input.u64("leader").map(NodeId))?,
            term: Term(input.varint("term")?),
            members: read_members(input)?,
        },
        7 => LocalOutcome::NoSuchCluster,
        8 => LocalOutcome::StaleRoute { cluster_time_ms: input.varint("cluster time")? },
        9 => LocalOutcome::Refused(Refusal::decode(input)?),
        10 => LocalOutcome::Unknown { message: input.string("message")? },
        11 => LocalOutcome::Verified(Box::new(read_verification(input)?)),
        12 => LocalOutcome::CommittedNotKept {
            reply: input.bytes("reply")?,
            at: OrderedAt::decode(input)?,
            kept: LogIndex(input.varint("kept")?),
        },
        _ => return Err(DecodeError::Unknown("outcome")),
    })
}

fn write_verification(out: &mut Writer, report: &ClusterVerification) {
    out.u64(report.cluster.0).u32(report.generation.0);
    write_name(out, &report.name);
    out.u64(report.run).bool(report.done).varint(report.index.0).varint(report.members.len() as u64);
    for one in &report.members {
        write_member(out, &one.member);
        one.told.encode(out);
    }
}

fn read_verification(input: &mut Reader) -> Decoded<ClusterVerification> {
    Ok(ClusterVerification {
        cluster: ClusterId(input.u64("cluster")?),
        generation: Generation(input.u32("generation")?),
        name: read_name(input)?,
        run: input.u64("run")?,
        done: input.bool("done")?,
        index: LogIndex(input.varint("index")?),
        members: {
            let count = member_count(input)?;
            let one = |input: &mut Reader| {
                Ok(MemberVerification { member: read_member(input)?, told: Verified::decode(input)? })
            };
            (0..count).map(|_| one(input)).collect::<Decoded<_>>()?
        },
    })
}

fn write_description(out: &mut Writer, description: &ClusterDescription) {
    out.u64(description.cluster.0).u32(description.generation.0);
    write_name(out, &description.name);
    out.string(&description.rule).string(&description.engine).u64(description.engine_since.0);
    out.option(description.leader, |out, node| {
        out.u64(node.0);
    });
    out.varint(description.term.0).varint(description.commit.0).varint(description.applied.0);
    out.u8(description.consistency as u8).u8(description.read_consistency as u8);
    out.varint(description.members.len() as u64);
    for (member, matched) in &description.members {
        write_member(out, member);
        out.varint(matched.0);
    }
    out.varint(description.kept.len() as u64);
    for (node, index) in &description.kept {
        out.u64(node.0).varint(index.0);
    }
    out.bool(description.quiesced).varint(description.cluster_time_ms);
}

fn read_description(input: &mut Reader) -> Decoded<ClusterDescription> {
    Ok(ClusterDescription {
        cluster: ClusterId(input.u64("cluster")?),
        generation: Generation(input.u32("generation")?),
        name: read_name(input)?,
        rule: input.string("rule")?,
        engine: input.string("engine")?,
        engine_since: ReplicaId(input.u64("engine since")?),
        leader: input.option("leader", |input| input.u64("leader").map(NodeId))?,
        term: Term(input.varint("term")?),
        commit: LogIndex(input.varint("commit")?),
        applied: LogIndex(input.varint("applied")?),
        consistency: read_write_level(input)?,
        read_consistency: read_read_level(input)?,
        members: {
            let count = member_count(input)?;
            (0..count).map(|_| Ok((read_member(input)?, LogIndex(input.varint("matched")?)))).collect::<Decoded<_>>()?
        },
        kept: {
            let count = member_count(input)?;
            (0..count)
                .map(|_| Ok((NodeId(input.u64("tail")?), LogIndex(input.varint("kept")?))))
                .collect::<Decoded<_>>()?
        },
        quiesced: input.bool("quiesced")?,
        cluster_time_ms: input.varint("cluster time")?,
    })
}
