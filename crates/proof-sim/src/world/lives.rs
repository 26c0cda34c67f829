//! Starts, deaths and pauses of nodes.
//!
//! Always: every start and every death is a new life, and nothing meant for another life arrives.
//! Not here: why a node dies (`faults`).

use super::disks::run_job;
use super::{Answered, Due, World};
use crate::clock::Clock;
use crate::disk::SimDisk;
use crate::excuses::Excuse;
use crate::host::{LaneHost, Node};
use crate::plan::{Plan, SimTuning};
use crate::random::Random;
use crate::trace::line::{Kind, Line};
use base_types::{BackendKind, BootId, DiskId, FormatLevel, LaneId, NodeId, Tick, Ticket};
use core_cluster::api::RequestIdTerms;
use core_node::api::{
    AccessConfig, Event, Keep, NodeConfig, S3Config, Tuning, FREED_AGE_MS, LOG_STALL_MS, SCRUB_BYTES_PER_SECOND,
};
use core_placement::Labels;
use proof_check::Violation;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// What wall clocks say when a world begins.
const WALL_CLOCK_MS: u64 = 1_700_000_000_000;
/// A region's cluster has three members, or one where there are fewer nodes.
const REGION_MEMBERS_MAX: usize = 3;

impl World {
    /// The process ends. With `down_us` it comes back by itself. `told`: its connections are reset.
    pub fn kill(&mut self, node: usize, down_us: Option<u64>, told: bool) {
        if self.nodes[node].running {
            self.trace.say(self.now, || Line::new(Kind::Life, "dies").node(node));
            self.trace.note(self.now, "die", &[node as u64]);
            self.bury(node);
            for peer in 0..self.nodes.len() {
                let cut = self.network.is_cut(node, peer);
                if peer != node && told && !cut {
                    self.disconnect(node, peer);
                }
            }
        }
        if let Some(down_us) = down_us {
            let life = self.nodes[node].life;
            self.schedule(self.now + down_us, Due::Start { node, life });
        }
    }

    pub(super) fn bury(&mut self, node: usize) {
        self.count_life(node);
        let now = self.now;
        let mut ended = Vec::new();
        let host = &mut self.nodes[node];
        host.running = false;
        host.down_since = now;
        host.life += 1;
        host.armed = None;
        host.paused_until = 0;
        // Every fourth world's marks are as young as can be (decision 0141): what was durable once must be there at each start.
        let marks_follow = self.plan.seed % 4 == 1;
        for (number, lane) in host.lanes.iter_mut().enumerate() {
            if let Some(machine) = lane.machine.take().filter(|_| marks_follow) {
                lane.disk.reached = lane.disk.reached.max(machine.durable_batch());
            }
            lane.inbox.clear();
            lane.busy_until = 0;
            lane.turn_due = false;
            lane.wake_at = u64::MAX;
            lane.disk.crash(&mut self.random.disk);
            // What the engine was writing is there or it is not.
            if let Some(job) = lane.job_running.take().filter(|_| self.random.disk.per_mille(500)) {
                drop(run_job(lane, &job.work));
                ended.push(number);
            }
            lane.jobs.clear();
        }
        ended.into_iter().for_each(|lane| self.note_kept(node, lane));
        let lost: Vec<Ticket> =
            self.waiting.iter().filter(|(_, (asked, _))| *asked == node).map(|(ticket, _)| *ticket).collect();
        for ticket in lost {
            self.waiting.remove(&ticket);
            self.answers.push_back((ticket, Answered::Lost));
        }
    }

    pub(super) fn start(&mut self, node: usize, life: u64) {
        let host = &self.nodes[node];
        if host.running || host.life != life || host.held_down > 0 {
            return;
        }
        // Nobody's old connection survives a start.
        for peer in 0..self.nodes.len() {
            if peer != node {
                self.disconnect(node, peer);
            }
        }
        let boot = BootId(self.random.host.draw());
        let seed = self.random.host.draw();
        let host = &mut self.nodes[node];
        host.life += 1;
        host.running = true;
        host.disk_failed = false;
        host.clock = Clock::new(self.now, host.clock.local_at(self.now).0);
        self.trace.note(self.now, "start", &[node as u64]);
        self.trace.say(self.now, || {
            let line = Line::new(Kind::Life, "starts; it was down").node(node);
            line.lasted(self.now - self.nodes[node].down_since)
        });
        for lane in 0..self.nodes[node].lanes.len() {
            let config = self.config(node, lane, boot, seed);
            if !self.open_lane(node, lane, config) {
                return;
            }
        }
        super::levels::check_level_at_start(self, node);
        self.check_logs(node);
        self.tell_wall_clock(node);
        super::access::deliver(self, node);
        // One life in four is on a machine that has no CPU to spare.
        let load = if seed.is_multiple_of(4) { 1_000 } else { 0 };
        for lane in 0..self.nodes[node].lanes.len() {
            self.post(node, lane, Event::Machine { load, disk: 0 });
        }
    }

    /// Sends a node's cores its wall clock, in worlds where nodes receive one.
    pub fn tell_wall_clock(&mut self, node: usize) {
        if !self.plan.shape.wall_clock || !self.nodes[node].running {
            return;
        }
        let unix_ms = (WALL_CLOCK_MS + self.now / 1_000).saturating_add_signed(self.nodes[node].wall_off_ms);
        for lane in 0..self.nodes[node].lanes.len() {
            self.post(node, lane, Event::Clock { unix_ms });
        }
    }

    /// The members of a node's regional cluster, if regions have one: an odd number of its region's first nodes.
    fn region_members(&self, node: usize) -> Vec<u64> {
        let region = &self.network.regions;
        let all: Vec<u64> =
            (0..self.nodes.len()).filter(|of| region[*of] == region[node]).map(|of| of as u64).collect();
        let count = match all.len() {
            _ if !self.plan.shape.regional => 0,
            0..=2 => 1,
            _ => REGION_MEMBERS_MAX,
        };
        all.into_iter().take(count).collect()
    }

    pub(super) fn open_lane(&mut self, node: usize, lane: usize, config: NodeConfig) -> bool {
        let local = self.nodes[node].clock.local_at(self.now);
        let host = &mut self.nodes[node].lanes[lane];
        let engine: std::sync::Arc<dyn base_engine::Engine> = host.engine.clone();
        match self.opener.open(config, vec![engine], &mut host.disk, local) {
            Ok((machine, effects)) => {
                let wake = machine.next_wake();
                host.disk.reached = host.disk.reached.max(machine.durable_batch());
                host.machine = Some(machine);
                let life = self.nodes[node].life;
                self.carry_out(node, lane, effects, false);
                if self.is_alive(node, life) {
                    self.schedule_wake(node, lane, wake);
                    self.post(node, lane, Event::Timer);
                }
                self.is_alive(node, life)
            }
            Err(message) => {
                self.refuse_start(node, &message);
                false
            }
        }
    }

    /// A node whose disk was damaged may refuse to start: its operator gives it an empty one.
    pub(super) fn refuse_start(&mut self, node: usize, message: &str) {
        self.trace.say(self.now, || Line::new(Kind::Life, format!("refuses to start: {message}")).node(node));
        self.probe("start_refused");
        if super::levels::is_too_old(self, node) {
            return;
        }
        let life = self.nodes[node].life;
        match self.nodes[node].disk_suspect {
            true => self.excuses.used(Excuse::RefusedStart, (node as u64, life)),
            false => {
                let message = format!("node {} refuses to start although its disk was well: {message}", node + 1);
                self.violate(Violation::new("start", message, vec![]));
            }
        }
        self.kill(node, Some(500_000), false);
        self.wipe(node);
    }

    /// An empty disk under a new name.
    pub fn wipe(&mut self, node: usize) {
        self.nodes[node].disk_id = DiskId(self.random.host.draw());
        self.nodes[node].wiped = true;
        (self.nodes[node].disk_lied, self.nodes[node].disk_suspect) = (false, false);
        self.part_bucket(node);
        for lane in &mut self.nodes[node].lanes {
            lane.disk = SimDisk::default();
            lane.engine = std::sync::Arc::new(engine_memory::MemoryEngine::new());
        }
        self.nodes[node].images.clear();
        self.nodes[node].remembered.clear();
        super::access::empty(self, node);
        self.nodes[node].level = FormatLevel::FIRST;
    }

    pub(super) fn resume(&mut self, node: usize) {
        if self.nodes[node].paused_until <= self.now {
            self.nodes[node].paused_until = 0;
            self.nodes[node].disturbed_at = self.now;
        }
    }

    /// Rare orders are for the time of load: a world that is healed must be let.
    fn buggify_until(&self, node: usize) -> Tick {
        match self.plan.tuning.buggify {
            true => {
                self.nodes[node].clock.local_at(self.now)
                    + Duration::from_micros(self.load_ends_at.saturating_sub(self.now))
            }
            false => Tick(0),
        }
    }

    pub(super) fn config(&self, node: usize, lane: usize, boot: BootId, seed: u64) -> NodeConfig {
        let host = &self.nodes[node];
        let address = |number: u64| (NodeId(number + 1), format!("n{}:7601", number + 1));
        NodeConfig {
            incarnation: 0,
            superseded_by: 0,
            level: host.level,
            level_max: host.level_max,
            world: "sim".to_string(),
            node: host.id,
            disk: host.disk_id,
            log_reached: host.lanes[lane].disk.reached,
            boot,
            lane: LaneId(lane as u16),
            lane_count: host.lanes.len() as u16,
            labels: host.labels.clone(),
            peer_address: format!("n{}:7601", host.id),
            http_address: format!("n{}:7101", host.id),
            doors: Vec::new(),
            world_members: (0..self.plan.shape.world_members).map(address).collect(),
            region_members: self.region_members(node).into_iter().map(address).collect(),
            remembered: host.remembered.clone(),
            default_engine: "memory".to_string(),
            engines: vec!["memory".to_string()],
            version: "sim".to_string(),
            tuning: core_tuning(
                &self.plan.tuning,
                self.plan.load.deadline_ms,
                self.buggify_until(node),
                self.is_tail(node),
            ),
            // Alike for all lanes, as the real host has it: the core makes of it one for each lane.
            seed,
            s3: S3Config {
                split_keys: self.plan.tuning.split_keys,
                split_writes: self.plan.tuning.split_writes,
                freed_age_ms: match self.plan.tuning.freed_age_ms {
                    0 => FREED_AGE_MS,
                    drawn => drawn,
                },
                ..S3Config::for_world(self.plan.shape.world_members as usize)
            },
            access: AccessConfig { required: self.plan.shape.access, ..AccessConfig::default() },
        }
    }
}

pub(super) fn new_node((number, chassis): (u64, u64), region: u64, plan: &Plan, random: &mut Random) -> Node {
    let lanes = plan.shape.lanes;
    Node {
        id: NodeId(number + 1),
        labels: Labels {
            region: format!("region-{}", region + 1),
            az: format!("{}", chassis + 1),
            rack: "1".to_string(),
            chassis: format!("c{}", chassis + 1),
        },
        disk_id: DiskId(random.draw()),
        life: 0,
        running: false,
        down_since: 0,
        paused_until: 0,
        disturbed_at: 0,
        clock: Clock::new(0, 1_000_000 + random.below(1 << 40)),
        wall_off_ms: 0,
        lanes: (0..lanes).map(|_| LaneHost::new(plan.tuning.event_us)).collect(),
        cores: vec![0; usize::from(lanes)],
        armed: None,
        stalled_until: 0,
        stalled_since: 0,
        slow_disk_us: 0,
        wiped: false,
        disk_lied: false,
        disk_suspect: false,
        disk_failed: false,
        images: VecDeque::new(),
        held_down: 0,
        level: FormatLevel::FIRST,
        level_max: FormatLevel::FIRST,
        rolled_back: false,
        remembered: Vec::new(),
        directory: Arc::default(),
    }
}

/// Clients come again with the deadlines that they have: no longer ones, so that ids are forgotten within a world's life.
fn request_ids(window_ms: u64, deadline_ms: u64) -> RequestIdTerms {
    let deadline_ms = if window_ms > 0 { deadline_ms } else { 0 };
    RequestIdTerms { window_ms, deadline_ms, ..RequestIdTerms::default() }
}

fn core_tuning(tuning: &SimTuning, deadline_ms: u64, buggify_until: Tick, tail: bool) -> Tuning {
    Tuning {
        tick_ms: tuning.tick_ms,
        heartbeat_ticks: tuning.heartbeat_ticks,
        election_ticks: tuning.election_ticks,
        quiesce_after_ticks: tuning.quiesce_after_ticks,
        read_leases: tuning.read_leases,
        log_stall_elections: 1,
        slow_request_ms: 1_000,
        log_stall_ms: LOG_STALL_MS,
        flush_bytes: tuning.flush_bytes,
        flush_after_ms: tuning.flush_after_ms,
        log_keep_bytes: tuning.log_keep_bytes,
        snapshot_chunk_bytes: tuning.snapshot_chunk_bytes,
        node_heartbeat_ms: tuning.node_heartbeat_ms,
        node_down_ms: tuning.node_down_ms,
        replace_after_ms: tuning.replace_after_ms,
        scrub_bytes_per_second: if tuning.scrub_round_ms > 0 { SCRUB_BYTES_PER_SECOND } else { 0 },
        scrub_round_ms: tuning.scrub_round_ms,
        label_spaces: tail,
        tail_engine: tail.then(|| "memory".into()),
        buggify_until,
        witness: Some(BackendKind::Shard),
        keep: match tuning.keep_ms {
            0 => Keep::default(),
            drawn => Keep { closed_ms: drawn, narrow_after_ms: drawn },
        },
        request_ids: request_ids(tuning.request_id_window_ms, deadline_ms),
        log: core_log::LogConfig {
            segment_bytes: tuning.segment_bytes,
            spare_segments: tuning.spare_segments,
            batch_bytes_max: tuning.batch_bytes_max,
            segments_soft_max: tuning.segments_soft_max,
            seal_after: std::time::Duration::from_millis(tuning.seal_after_ms),
        },
    }
}
