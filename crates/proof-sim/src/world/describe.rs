//! An event in words, for a trace.

use crate::trace::line::{About, Kind, Line};
use base_types::action::{Action, KvTarget};
use base_types::codec::Reader;
use base_types::ClusterId;
use bytes::Bytes;
use core_cluster::api::LocalKind;
use core_cluster::describe_payload;
use core_node::api::Event;
use core_node::frame::Item;

pub(super) fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Timer => "timer",
        Event::Request { .. } => "request",
        Event::Cancel { .. } => "cancel",
        Event::Frame { .. } => "frame",
        Event::PeerUp { .. } => "peer_up",
        Event::PeerDown { .. } => "peer_down",
        Event::Mail { .. } => "mail",
        Event::LogWritten { .. } => "log_written",
        Event::LogSegmentReady { .. } => "segment_ready",
        Event::LogSegmentFailed { .. } => "segment_failed",
        Event::LogFailed { .. } => "log_failed",
        Event::EngineDone { .. } => "engine_done",
        Event::Machine { .. } => "machine",
        Event::Clock { .. } => "clock",
        Event::Certificate { .. } => "certificate",
        Event::Hold { .. } => "hold",
        Event::WorldReborn { .. } => "world_reborn",
        Event::DiskFull { .. } => "disk_full",
        Event::Drained { .. } => "drained",
        Event::FormatLevel { .. } => "format_level",
        Event::Directory { .. } => "directory",
        Event::DirectoryWanted => "directory_wanted",
    }
}

pub(super) fn event_number(event: &Event) -> u64 {
    match event {
        Event::Frame { from, frame } => xxhash_rust::xxh3::xxh3_64_with_seed(frame, from.0),
        Event::Mail { from, mail } => xxhash_rust::xxh3::xxh3_64_with_seed(&mail.frame, u64::from(from.0)),
        Event::Request { ticket, .. } | Event::Cancel { ticket } => ticket.0,
        Event::PeerUp { node } | Event::PeerDown { node } => node.0,
        Event::LogWritten { batch } => batch.0,
        Event::LogSegmentReady { segment } | Event::LogSegmentFailed { segment } => segment.0,
        Event::EngineDone { job, .. } => *job,
        _ => 0,
    }
}

/// What a core takes, for a reader: a line for each thing that a frame says.
pub(super) fn event_lines(event: &Event, name: impl Fn(ClusterId) -> About) -> Vec<Line> {
    let line = |text: String| Line::new(Kind::Turn, text);
    match event {
        Event::Frame { from, frame } => {
            let peer = (from.0 as usize).saturating_sub(1);
            let lines = frame_lines(frame, &name).into_iter();
            lines.map(|line| Line { text: format!("{from:?} says {}", line.text), ..line }.peer(peer)).collect()
        }
        Event::Mail { from, mail } => {
            let lines = frame_lines(&mail.frame, &name).into_iter();
            lines.map(|line| Line { text: format!("lane {from} says {}", line.text), ..line }).collect()
        }
        Event::Request { request, .. } => {
            vec![line(format!("a client asks {:?}", request.action)).about(target(&request.action))]
        }
        Event::Timer => vec![line("timer".to_string()).routine(true)],
        Event::LogWritten { batch } => vec![line(format!("log batch {} is durable", batch.0)).routine(true)],
        Event::LogSegmentReady { segment } => vec![line(format!("segment {} is ready", segment.0)).routine(true)],
        Event::EngineDone { job, result: Ok(_) } => vec![line(format!("engine job {job} is done")).routine(true)],
        Event::Machine { .. } | Event::Clock { .. } => vec![line(format!("{event:?}")).routine(true)],
        other => vec![line(format!("{other:?}"))],
    }
}

/// A message between lanes alone, which come without the frames of nodes (lane_machine.rs).
fn lane_line(frame: &Bytes, name: impl Fn(ClusterId) -> About) -> Option<Line> {
    let mut input = Reader::new(frame.clone());
    let cluster = ClusterId(input.u64("cluster").ok()?);
    input.u32("generation").ok()?;
    let said = describe_payload(&input.rest());
    Some(Line::new(Kind::Turn, said.text).routine(said.routine).about(Some(name(cluster))))
}

fn frame_lines(frame: &Bytes, name: impl Fn(ClusterId) -> About) -> Vec<Line> {
    let line = |text: String| Line::new(Kind::Turn, text);
    let items = match core_node::frame::decode(frame.clone()) {
        Ok(frame) => frame.items,
        Err(error) => {
            let of_lane = lane_line(frame, &name);
            return vec![of_lane.unwrap_or_else(|| line(format!("{} bytes that are no frame: {error}", frame.len())))];
        }
    };
    let of_item = |item: &Item| match item {
        Item::Peer { cluster, payload, .. } => {
            let said = describe_payload(payload);
            line(said.text).routine(said.routine).about(Some(name(*cluster)))
        }
        Item::Forward { ticket, cluster, kind, .. } => {
            let what = match kind {
                LocalKind::Write { backend, command, .. } => format!("write of {backend:?}, {} bytes", command.len()),
                LocalKind::Read { backend, query, .. } => format!("read of {backend:?}, {} bytes", query.len()),
                LocalKind::Admin(command) => format!("{command:?}"),
            };
            line(format!("Forward {ticket:?}: {what}")).about(Some(name(*cluster)))
        }
        Item::ForwardReply { ticket, outcome, .. } => line(format!("ForwardReply {ticket:?}: {outcome:?}")),
        Item::CreateReplica { spec, .. } => line(format!("{item:?}")).about(Some(name(spec.cluster))),
        Item::DestroyReplica { cluster, .. } | Item::Survey { cluster, .. } | Item::UnknownCluster { cluster, .. } => {
            line(format!("{item:?}")).about(Some(name(*cluster)))
        }
        Item::ReplicaNews { cluster, leader, .. } => {
            line(format!("ReplicaNews, leader {leader:?}")).routine(true).about(Some(name(*cluster)))
        }
        Item::Heartbeat { .. } | Item::HeartbeatReply { .. } | Item::MapNews { .. } | Item::LaneNews { .. } => {
            let text = format!("{item:?}");
            let word = text.split([' ', '{']).next().unwrap_or_default();
            line(format!("{word} of nodes")).routine(true)
        }
        other => line(format!("{other:?}")),
    };
    items.iter().map(of_item).collect()
}

/// What a request is about.
fn target(action: &Action) -> Option<About> {
    match action {
        Action::KvGet { target, .. }
        | Action::KvPut { target, .. }
        | Action::KvDelete { target, .. }
        | Action::KvScan { target, .. }
        | Action::KvBatch { target, .. }
        | Action::KvCompareAndSet { target, .. }
        | Action::Redis { target, .. }
        | Action::RedisCall { target, .. } => Some(About::named(&match target {
            KvTarget::Cluster(name) => name.as_str().to_string(),
            KvTarget::Keyspace(name) => name.clone(),
        })),
        _ => None,
    }
}
