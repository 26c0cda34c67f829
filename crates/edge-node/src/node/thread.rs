//! One core thread: its runtime, its lanes, its listeners.
//!
//! By design: everything on it is single-threaded (a LocalSet); it ends when all its lanes have.

use super::{Shared, StartError};
use crate::clients::Entrance;
use crate::disk::{self, LogDirectory, LogDiskOptions, LogWriter, Report};
use crate::http::{HttpDoor, HttpState};
use crate::lane::door::LaneDoor;
use crate::lane::engine::EngineThread;
use crate::lane::{LaneHost, LaneState, MAIL_KEPT_MAX};
use crate::mailbox::{Outgoing, Receiver};
use crate::peers::accept::{AcceptState, Acceptor, LaneRoute};
use crate::peers::PeerSet;
use base_engine::Engine;
use base_types::LaneId;
use core_node::api::{Effects, Event};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::LocalSet;

/// What a thread is made with.
pub struct Plan {
    pub index: usize,
    pub threads: usize,
    pub lanes: Vec<(LaneId, Receiver<Event>)>,
    pub http: TcpListener,
    pub peer: TcpListener,
    /// Requests of doors on threads of their own.
    pub letters: tokio::sync::mpsc::Receiver<crate::cores::Letter>,
    pub shared: Arc<Shared>,
    /// Told once: this thread serves, or cannot.
    pub opened: std::sync::mpsc::Sender<Result<(), StartError>>,
}

/// Runs a thread to its end.
pub fn run(plan: Plan, stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) {
    pin(plan.index, plan.threads, plan.shared.config.first_core);
    crate::memory::core_begins(plan.index);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let name = format!("hive-core-{}", plan.index);
            let _ = plan.opened.send(Err(StartError::Thread { name, reason: error.to_string() }));
            return;
        }
    };
    let local = LocalSet::new();
    runtime.block_on(local.run_until(serve(plan, stop, drain)));
    // What is left (connections that did not end in time) is dropped here; name lookups are not waited for.
    drop(local);
    runtime.shutdown_timeout(Duration::from_millis(100));
}

/// To the core that is named, or to one of its own where there is one for each; else a node is left to the scheduler, for
/// it may share its machine.
fn pin(index: usize, threads: usize, first: Option<usize>) {
    let Some(cores) = core_affinity::get_core_ids() else { return };
    let own = first.or((threads == cores.len() && threads > 1).then_some(0)).and_then(|first| cores.get(first + index));
    if own.is_some_and(|core| !core_affinity::set_for_current(*core)) {
        tracing::warn!(thread = index, "the thread cannot be pinned to its core; it runs on any");
    }
}

async fn serve(mut plan: Plan, stop: watch::Receiver<bool>, drain: watch::Receiver<bool>) {
    let shared = plan.shared.clone();
    let mut hosts = Vec::new();
    for (lane, mailbox) in plan.lanes.drain(..) {
        match open_lane(&shared, lane, mailbox) {
            Ok(host) => hosts.push(host),
            Err(reason) => {
                let _ = plan.opened.send(Err(StartError::Lane { lane: lane.0, reason }));
                return;
            }
        }
    }
    let doors: Vec<Rc<LaneDoor>> = hosts.iter().map(|(host, _)| host.door.clone()).collect();
    let sets: Vec<Rc<PeerSet>> = hosts.iter().map(|(host, _)| host.peers.clone()).collect();
    let listeners = (plan.http, plan.peer);
    if let Err(error) = start_doors(plan.index == 0, listeners, &shared, &doors, sets, drain) {
        let name = format!("hive-core-{}", plan.index);
        let _ = plan.opened.send(Err(StartError::Thread { name, reason: error.to_string() }));
        return;
    }
    tokio::task::spawn_local(crate::cores::carry(plan.letters, doors.clone()));
    let lanes: Vec<_> =
        hosts.into_iter().map(|(host, first)| tokio::task::spawn_local(host.run(first, stop.clone()))).collect();
    if let (0, Some(door)) = (plan.index, doors.first()) {
        let topology = shared.config.topology.clone();
        tokio::task::spawn_local(crate::establish::run(door.clone(), topology, shared.http_advertise.clone()));
        let root = crate::access::root::run(shared.access.clone(), door.clone(), shared.data.path.clone());
        tokio::task::spawn_local(root);
    }
    let _ = plan.opened.send(Ok(()));
    for lane in lanes {
        match lane.await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => shared.failure.report(reason),
            Err(error) => shared.failure.report(format!("a lane's host panicked: {error}")),
        }
    }
}

fn start_doors(
    first: bool,
    (http, peer): (TcpListener, TcpListener),
    shared: &Arc<Shared>,
    doors: &[Rc<LaneDoor>],
    sets: Vec<Rc<PeerSet>>,
    drain: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let routes = (0..shared.data.lanes).map(|lane| match doors.iter().find(|door| door.lane.0 == lane) {
        Some(door) => LaneRoute::Here(door.clone()),
        None => LaneRoute::There(shared.mailboxes[usize::from(lane)].clone()),
    });
    let acceptor = Rc::new(Acceptor {
        own: shared.own.clone(),
        identities: shared.certificates.peers.clone(),
        routes: routes.collect(),
        sets,
        state: AcceptState::default(),
    });
    tokio::task::spawn_local(acceptor.run(tokio::net::TcpListener::from_std(peer)?));
    let door = Rc::new(HttpDoor {
        lanes: doors.to_vec(),
        data: shared.data.path.clone(),
        s3: shared.s3.clone(),
        etcd: shared.etcd.clone(),
        redis: shared.redis.clone(),
        limits: shared.http_limits.clone(),
        room: shared.room.clone(),
        reports: shared.reports.clone(),
        recorder: shared.recorder.clone(),
        world: shared.own.world.clone(),
        node: shared.own.node.0,
        hosts: shared.hosts(),
        entrance: Entrance::new(
            "http",
            shared.certificates.clients.clone(),
            shared.config.http_proxies.clone(),
            crate::http::no_tls,
        ),
        certificates: shared.certificates.clone(),
        certificate_required: shared.config.tls.as_ref().is_some_and(|tls| tls.requires_certificates()),
        access: shared.access.clone(),
        drain: shared.drain.clone(),
        state: HttpState::default(),
    });
    if first {
        if let Some(listener) = crate::access::socket::listen(&shared.data.path) {
            tokio::task::spawn_local(door.clone().run_socket(listener, drain.clone()));
        }
    }
    tokio::task::spawn_local(door.run(tokio::net::TcpListener::from_std(http)?, drain));
    Ok(())
}

fn open_lane(shared: &Arc<Shared>, lane: LaneId, mailbox: Receiver<Event>) -> Result<(LaneHost, Effects), String> {
    let engines = open_engines(shared, lane)?;
    shared.engine_sizes.register(&engines, &shared.data.lane(lane.0));
    let config = shared.node_config(lane).map_err(|error| format!("no random numbers: {error}"))?;
    let segment_bytes = config.tuning.log.segment_bytes;
    let log_directory = shared.data.log(lane.0);
    let mut disk = LogDirectory::new(&log_directory);
    let (machine, first) = shared
        .factory
        .open(config, engines.clone(), &mut disk, shared.clock.now())
        .map_err(|reason| format!("{}: {reason}", log_directory.display()))?;
    shared.data.note_reached(lane.0, machine.durable_batch());
    let report = || -> Report {
        let mailbox = shared.mailboxes[usize::from(lane.0)].clone();
        // A lane that has ended hears nothing any more; the thread then ends with its queue.
        Box::new(move |event| drop(mailbox.send_blocking(event)))
    };
    let spawn = |name: String, work: Box<dyn FnOnce() + Send>| shared.failure.spawn(name, work);
    let name = format!("hive-{lane}");
    let options = LogDiskOptions { segment_bytes, direct: true };
    let io = |error: std::io::Error| error.to_string();
    let of_disk = || -> edge_disk::Report {
        let report = report();
        Box::new(move |event| report(disk::event(event)))
    };
    let log = LogWriter::start(&name, &log_directory, options, of_disk, spawn).map_err(io)?;
    let home = shared.data.lane(lane.0);
    let damaged = Box::new(move |engine: &str, found: &str| crate::engines::aside::mark(&home.join(engine), found));
    let engine = EngineThread::start(&name, &engines, report(), damaged, spawn).map_err(io)?;
    let door = LaneDoor::new(lane, shared.clock);
    let peers = PeerSet::new(shared.own.clone(), lane, shared.certificates.peers.clone(), door.clone());
    let host = LaneHost {
        door,
        machine,
        mailbox,
        outgoing: Outgoing::new(shared.mailboxes.clone(), MAIL_KEPT_MAX),
        log,
        engine,
        peers,
        data: shared.data.path.clone(),
        clock: shared.clock,
        report: shared.reports[usize::from(lane.0)].clone(),
        note_reached: {
            let shared = shared.clone();
            Box::new(move |batch| shared.data.note_reached(lane.0, batch))
        },
        keep_incarnation: {
            let shared = shared.clone();
            Box::new(move |own, later| {
                shared.data.set_incarnation(own, later).map_err(|error| error.to_string())?;
                shared.own.incarnation.store(own, Ordering::Relaxed);
                Ok(())
            })
        },
        keep_level: {
            let shared = shared.clone();
            Box::new(move |level| {
                shared.data.raise_level(level).map_err(|error| error.to_string())?;
                shared.own.level.fetch_max(level.0, Ordering::Relaxed);
                Ok(())
            })
        },
        keep_directory: {
            let access = shared.access.clone();
            Box::new(move |directory| access.keep(directory))
        },
        drain: shared.drain.clone(),
        state: LaneState::default(),
    };
    Ok((host, first))
}

fn open_engines(shared: &Shared, lane: LaneId) -> Result<Vec<Arc<dyn Engine>>, String> {
    let identity = format!("{} disk {} lane {lane}", shared.own.world, shared.data.disk);
    let origin = crate::data::Origin {
        world: shared.own.world.clone(),
        node: shared.own.node,
        disk: shared.data.disk,
        incarnation: shared.data.incarnation(),
        lane: lane.0,
        lanes: shared.data.lanes,
        format: crate::data::FORMAT,
    };
    crate::engines::open(&shared.data.lane(lane.0), &identity, &origin.note(), &shared.config.engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_string()
    }

    #[test]
    fn a_thread_is_pinned_to_the_core_it_is_told() {
        let last = core_affinity::get_core_ids().unwrap().len() - 1;
        let pinned = std::thread::spawn(move || {
            pin(0, 1, Some(last));
            allowed()
        });
        let core = core_affinity::get_core_ids().unwrap()[last].id;
        assert_eq!(pinned.join().unwrap(), core.to_string());
        let free = std::thread::spawn(|| {
            pin(0, 1, None);
            allowed()
        });
        assert_eq!(free.join().unwrap(), allowed(), "a node may share its machine");
    }
}
