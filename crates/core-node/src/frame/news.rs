//! What lanes say of themselves to lane zero, and a node of a replica to another node, with its bytes.
//!
//! Always: lists are bounded before anything is allocated for them.
//! Held by: `damage_never_panics`, `peer_frame`.
//! Not here: who asks, and what follows (membership/health.rs, membership/status.rs, routing/location.rs).

use crate::wire;
use base_types::action::{QuorumInfo, StatusInfo};
use base_types::codec::{DecodeError, Reader, Writer};
use base_types::{ClusterId, Generation, NodeId};

/// What a lane reports of itself in a round.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LaneHealth {
    /// Clients' clusters with a replica here, and those among them whose leader can be reached.
    pub held: u32,
    pub served: u32,
    /// Some of the others.
    pub unserved: Vec<String>,
    /// How long its log write has been under way, or took.
    pub log_write_ms: u32,
    pub degraded: Vec<String>,
}

/// What a lane reports to lane zero of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LaneGauges {
    pub replicas: u32,
    pub leaders: u32,
    pub quiesced: u32,
    /// Every level 0 cluster that belongs on the lane is there.
    pub formed: bool,
    /// For the status; at most `LANE_WARNINGS_MAX`.
    pub warnings: Vec<String>,
}

/// A replica as its node reports it to who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    pub cluster: ClusterId,
    pub generation: Generation,
    pub leader: Option<NodeId>,
}

/// A lane's health between lanes.
pub fn write_lane_health(out: &mut Writer, health: &LaneHealth) {
    out.u32(health.held).u32(health.served).u32(health.log_write_ms);
    write_texts(out, &health.unserved);
    write_texts(out, &health.degraded);
}

/// The counterpart of [`write_lane_health`].
pub fn read_lane_health(input: &mut Reader) -> Result<LaneHealth, DecodeError> {
    Ok(LaneHealth {
        held: input.u32("clusters held")?,
        served: input.u32("clusters served")?,
        log_write_ms: input.u32("log write")?,
        unserved: read_texts(input)?,
        degraded: read_texts(input)?,
    })
}

/// A status between lanes.
pub fn write_status(out: &mut Writer, status: &StatusInfo) {
    out.string(&status.world).u64(status.node.0).bool(status.ready).u32(status.nodes_up).u32(status.nodes_total);
    out.u32(status.clusters).u32(status.leaders).u32(status.quiesced);
    out.u32(status.log_write_ms).u64(status.certificate_expires_ms);
    out.option(status.config_cluster.as_ref(), |out, name| {
        out.string(name.as_str());
    });
    write_texts(out, &status.warnings);
    write_texts(out, &status.not_ready);
    write_texts(out, &status.degraded);
    out.varint(status.quorum.len() as u64);
    for quorum in &status.quorum {
        wire::write_name(out, &quorum.cluster);
        out.bool(quorum.answers);
    }
}

/// The counterpart of [`write_status`].
pub fn read_status(input: &mut Reader) -> Result<StatusInfo, DecodeError> {
    Ok(StatusInfo {
        world: input.string("world")?,
        node: NodeId(input.u64("node")?),
        ready: input.bool("ready")?,
        nodes_up: input.u32("nodes up")?,
        nodes_total: input.u32("nodes")?,
        clusters: input.u32("clusters")?,
        leaders: input.u32("leaders")?,
        quiesced: input.u32("quiesced")?,
        log_write_ms: input.u32("log write")?,
        certificate_expires_ms: input.u64("certificate expires")?,
        config_cluster: input.option("configuration cluster", wire::read_name)?,
        warnings: read_texts(input)?,
        not_ready: read_texts(input)?,
        degraded: read_texts(input)?,
        quorum: read_quorum(input)?,
    })
}

fn read_quorum(input: &mut Reader) -> Result<Vec<QuorumInfo>, DecodeError> {
    let count = input.count("clusters that answer")?;
    if count > super::LIST_MAX {
        return Err(DecodeError::TooLarge("clusters that answer"));
    }
    (0..count).map(|_| Ok(QuorumInfo { cluster: wire::read_name(input)?, answers: input.bool("answers")? })).collect()
}

/// Texts of a frame, bounded.
pub fn write_texts(out: &mut Writer, texts: &[String]) {
    out.varint(texts.len() as u64);
    texts.iter().for_each(|text| {
        out.string(text);
    });
}

/// The counterpart of [`write_texts`].
pub fn read_texts(input: &mut Reader) -> Result<Vec<String>, DecodeError> {
    let count = input.count("texts")?;
    if count > super::LIST_MAX {
        return Err(DecodeError::TooLarge("texts"));
    }
    (0..count).map(|_| input.string("text")).collect()
}
