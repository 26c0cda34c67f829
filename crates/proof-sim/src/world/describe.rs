//! An event in words, for a trace.

use core_node::api::Event;

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

pub(super) fn event_line(event: &Event) -> String {
    match event {
        Event::Frame { from, frame } => format!("frame of {from:?}, {} bytes", frame.len()),
        Event::Mail { from, mail } => format!("mail of {from:?}, {} bytes", mail.frame.len()),
        Event::Request { ticket, request, .. } => format!("{ticket:?} {:?}", request.action),
        other => format!("{other:?}"),
    }
}
