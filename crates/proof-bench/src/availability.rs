//! Availability as a figure: the standard schedule of faults on five members, and what clients saw of it.
//!
//!   proof-check (what, when) ──▶ this file (does it) ──▶ members.rs (processes) + links.rs (what is between them)
//!   clients.rs (a stream of operations for each level) ──▶ proof-check (shares, gaps, redundancy)
//!
//! By design: one fault at a time in a system, the next after full redundancy is back or was waited for long enough; Hive and
//! etcd are measured at the same time, so that both have the same neighbours on the machine, with the same plan but for what
//! etcd has no counterpart of. Not injected here: clocks that jump, which needs rights; the simulator's run of the same
//! schedule has them (proof-sim, `availability`).

mod clients;
mod links;
mod members;
pub(crate) mod wire;

use crate::report::Report;
use crate::workloads::say;
use crate::{etcd, BenchError, Options};
use clients::Load;
use members::{Members, System, MEMBERS};
use proof_check::availability::schedule::{self, cut_length, Kind, Planned, Random, DOWN, PAUSE, PRESSED, SLOW_DISK};
use proof_check::availability::tally::{failed_each_second, Availability, Level, Window, SETTLE_MS};
use std::time::{Duration, Instant};
use tokio::time::{sleep, sleep_until};

/// What Hive is measured under.
const HIVE_KINDS: [Kind; 7] =
    [Kind::Kill, Kind::Pause, Kind::Cut, Kind::Wipe, Kind::Rolling, Kind::SlowDisk, Kind::Reshard];
/// What etcd is measured under: an emptied member needs an operator there, and it has no keyspaces to move.
const ETCD_KINDS: [Kind; 5] = [Kind::Kill, Kind::Pause, Kind::Cut, Kind::Rolling, Kind::SlowDisk];
/// How long full redundancy is waited for after a fault was mended.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How often it is looked for.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// How long somebody is looked for who leads; after it any member is taken.
const LEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Numbers of clusters that the keyspace is spread over in turn; it begins with one.
const SPREADS: [u64; 4] = [3, 1, 2, 1];

/// Measures Hive and, where asked for, etcd.
pub async fn run(options: &Options, report: &mut Report) -> Result<(), BenchError> {
    if !options.endpoints.is_empty() {
        return Err(BenchError::Usage("availability breaks nodes: it starts its own; leave out --endpoint".into()));
    }
    let has_strace = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join("strace").is_file()));
    if !has_strace {
        report.note("slow disks were left out: there is no `strace` on PATH".into());
    }
    let kinds = |all: &[Kind]| -> Vec<Kind> {
        all.iter().copied().filter(|kind| *kind != Kind::SlowDisk || has_strace).collect()
    };
    let (hive_kinds, etcd_kinds) = (kinds(&HIVE_KINDS), kinds(&ETCD_KINDS));
    let hive = measure(System::Hive, &options.program, &hive_kinds, options);
    match (options.beside.as_deref(), etcd::find()) {
        (Some("etcd"), Some(program)) => {
            let (hive, etcd) = tokio::try_join!(hive, measure(System::Etcd, &program, &etcd_kinds, options))?;
            report.availability.extend([hive, etcd]);
            report.note(
                "etcd: five members without TLS, synced, through its JSON gateway; its own client would speak gRPC; measured at the same time as Hive, on the same cores and disk"
                    .into(),
            );
        }
        (beside, _) => {
            report.availability.push(hive.await?);
            if beside == Some("etcd") {
                report.note(etcd::MISSING.into());
            }
        }
    }
    report.note(format!(
        "an operation has {} ms for all its tries; what was not answered then has failed. 'of a day': 24 kills, 4 pauses, one zone cut, one wipe, one rolling restart in 24 h at this rate, reckoned from the failures of each kind here",
        clients::DEADLINE.as_millis()
    ));
    report.note(
        "clients reach every member in a cut: what is counted are clients that can reach a side with a majority".into(),
    );
    report.note(
        "cuts hold bytes back in a proxy: connections come up and stay open but carry nothing; clocks do not jump here"
            .into(),
    );
    Ok(())
}

async fn measure(
    system: System,
    program: &std::path::Path,
    kinds: &[Kind],
    options: &Options,
) -> Result<Availability, BenchError> {
    let length = Duration::from_secs(options.minutes * 60);
    let members = Members::start(system, program, options).await?;
    let endpoints = members.endpoints();
    let filler = Load::new(system, &endpoints, options.keys, options.value_bytes, options.rate);
    filler.fill().await.map_err(BenchError::World)?;
    let load = Load::new(system, &endpoints, options.keys, options.value_bytes, options.rate);
    let tasks = load.begin();
    let mut breaker = Breaker { members, random: Random(options.seed), windows: Vec::new(), spread: 0, length };
    let plan = schedule::plan(length, PRESSED, options.seed, kinds);
    let broken = breaker.carry_out(&plan, &load).await;
    if broken.is_ok() {
        sleep_until((load.start + length).into()).await;
    }
    let records = load.finish(tasks).await;
    broken?;
    let windows = breaker.windows;
    let levels = records.iter().map(|(stream, records)| Level::new(stream.name, records, &windows)).collect();
    Ok(Availability {
        system: system.name().into(),
        seconds: length.as_secs(),
        seed: options.seed,
        rate: options.rate,
        cut_seconds: cut_length(length).as_secs(),
        levels,
        windows,
        late_ms: load.latest().as_millis() as u64,
        failed_each_second: failed_each_second(records.iter().flat_map(|(_, records)| records)),
    })
}

/// Who breaks and mends.
struct Breaker {
    members: Members,
    random: Random,
    windows: Vec<Window>,
    spread: usize,
    length: Duration,
}

impl Breaker {
    async fn carry_out(&mut self, plan: &[Planned], load: &Load) -> Result<(), BenchError> {
        for (number, planned) in plan.iter().enumerate() {
            sleep_until((load.start + planned.at).into()).await;
            let victim = self.victim(planned.kind).await;
            let from = load.now();
            self.fault(planned.kind, victim).await?;
            let mended = load.now();
            let whole = self.wait_whole(load).await;
            if let Some(member) = self.members.crashed() {
                let log = self.members.log_of(member);
                let name = self.members.system.name();
                return Err(BenchError::World(format!(
                    "{name} member {} ended by itself after '{}'; look at {}",
                    member + 1,
                    planned.kind.name(),
                    log.display()
                )));
            }
            let alone = !matches!(planned.kind, Kind::Rolling | Kind::Reshard);
            let member = if alone { victim as u64 + 1 } else { 0 };
            self.windows.push(Window { kind: planned.kind, member, from, mended, to: load.now(), whole });
            say(&format!(
                "{} {} of {}: {} at {:.0} s, mended after {:.1} s, whole after {}",
                self.members.system.name(),
                number + 1,
                plan.len(),
                planned.kind.name(),
                f64::from(from) / 1e3,
                f64::from(mended - from) / 1e3,
                whole.map_or("– (not in time)".into(), |whole| format!("{:.1} s", f64::from(whole - from) / 1e3))
            ));
            // The window of one fault ends before the next begins.
            sleep(Duration::from_millis(u64::from((mended + SETTLE_MS).saturating_sub(load.now())))).await;
        }
        Ok(())
    }

    /// Whom a fault meets: who leads, but for what may meet anybody.
    async fn victim(&mut self, kind: Kind) -> usize {
        let anybody = self.random.below(MEMBERS as u64) as usize;
        let number = self.random.draw();
        if matches!(kind, Kind::Wipe | Kind::Rolling | Kind::Reshard) {
            return anybody;
        }
        let start = Instant::now();
        while start.elapsed() < LEADER_TIMEOUT {
            if let Some(leader) = self.members.leader(number).await {
                return leader;
            }
            sleep(LOOK_PAUSE).await;
        }
        anybody
    }

    /// Breaks and mends; full redundancy comes later.
    async fn fault(&mut self, kind: Kind, victim: usize) -> Result<(), BenchError> {
        let members = &mut self.members;
        match kind {
            Kind::Kill => {
                members.kill(victim).await;
                sleep(DOWN).await;
                members.launch(victim)?;
            }
            Kind::Wipe => {
                members.kill(victim).await;
                members.wipe(victim).await?;
                sleep(DOWN).await;
                members.launch(victim)?;
            }
            Kind::Pause => {
                members.pause(victim);
                sleep(PAUSE).await;
                members.resume(victim);
            }
            Kind::Cut => {
                members.cut_zone_of(victim);
                sleep(cut_length(self.length)).await;
                members.heal();
            }
            Kind::SlowDisk => {
                if members.slow_disk(victim).await {
                    sleep(SLOW_DISK).await;
                    members.quick_disk().await;
                } else {
                    say("strace could not attach: no slow disk this time");
                }
            }
            Kind::Rolling => {
                for member in 0..MEMBERS {
                    self.members.stop(member).await;
                    self.members.launch(member)?;
                    // An operator continues when all is well again.
                    self.whole_within(WHOLE_TIMEOUT).await;
                }
            }
            Kind::Reshard => {
                let clusters = SPREADS[self.spread % SPREADS.len()];
                self.spread += 1;
                if self.members.reshard(clusters).await {
                    let start = Instant::now();
                    while self.members.moves().await && start.elapsed() < WHOLE_TIMEOUT {
                        sleep(LOOK_PAUSE).await;
                    }
                }
            }
            // Not among the kinds above: it needs rights that this program does not ask for.
            Kind::ClockJump => {}
        }
        Ok(())
    }

    /// When everything that had been committed by the mending was everywhere again.
    async fn wait_whole(&self, load: &Load) -> Option<u32> {
        self.whole_within(WHOLE_TIMEOUT).await.then(|| load.now())
    }

    async fn whole_within(&self, time: Duration) -> bool {
        let start = Instant::now();
        let mut committed = None;
        while start.elapsed() < time {
            if committed.is_none() {
                committed = self.members.committed().await;
            }
            if let Some(committed) = &committed {
                if self.members.whole(committed).await {
                    return true;
                }
            }
            sleep(LOOK_PAUSE).await;
        }
        false
    }
}
