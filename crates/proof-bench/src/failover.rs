//! kill -9 the leader under load; the longest gap between two acknowledged writes is the figure.
//!
//! The gap is over all clients and all keys of one cluster: nothing was acknowledged by anyone in it.
//! By design: the node that is killed is the one that leads when the order is given.

use crate::load::{self, Keys};
use crate::measure::round;
use crate::report::{Failover, Report};
use crate::request::{Operation, Template};
use crate::world::World;
use crate::{BenchError, Options};
use std::time::Duration;

/// Load before the kill.
const BEFORE: Duration = Duration::from_secs(3);
/// Load after it.
const AFTER: Duration = Duration::from_secs(8);
/// How wide a column of the timeline is.
const COLUMN_MICROS: u64 = 50_000;

/// Kills the leader once a run.
pub async fn run(options: &Options, world: &World, report: &mut Report) -> Result<(), BenchError> {
    if world.pids().is_empty() {
        return Err(BenchError::Usage(
            "failover needs process ids: name the world's --ready-file, or no --endpoint at all".into(),
        ));
    }
    let template = Template::new(Operation::Put("strong"), options.value_bytes, options.order);
    for number in 1..=options.runs {
        world.wait_ready().await?;
        let result = one(options, world, &template).await?;
        eprintln!(
            "bench: failover run {number}: longest gap {:.0} ms, {} writes, errors {:?}",
            result.gap_ms, result.writes, result.errors
        );
        report.failovers.push(result);
        // The killed node is back after 5 s where `hive dev` restarts it; the next run waits for it.
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    Ok(())
}

async fn one(options: &Options, world: &World, template: &Template) -> Result<Failover, BenchError> {
    let shared = load::Shared::new(&world.endpoints, Keys::InTurn(options.keys), None, u64::MAX, true);
    let tasks = load::start(&shared, template, options.clients);
    shared.count(true);
    tokio::time::sleep(BEFORE).await;
    let leader = world.leader().await?;
    let pid = world.pids().into_iter().find(|(id, _)| *id == leader).map(|(_, pid)| pid);
    let pid = pid.ok_or_else(|| BenchError::World(format!("the ready file names no process of node {leader}")))?;
    let killed = shared.elapsed().as_micros() as u64;
    // SAFETY: the order that is measured: ends a process of the world under test, named by its ready file.
    if unsafe { libc::kill(pid as i32, libc::SIGKILL) } != 0 {
        return Err(BenchError::World(format!(
            "node {leader}, process {pid}, could not be killed: {}",
            std::io::Error::last_os_error()
        )));
    }
    tokio::time::sleep(AFTER).await;
    let end = shared.elapsed().as_micros() as u64;
    load::finish(&shared, tasks).await;
    let acknowledged = shared.acknowledged();
    Ok(Failover {
        leader,
        gap_ms: round(longest_gap(&acknowledged, killed, end) as f64 / 1_000.0),
        writes: acknowledged.len() as u64,
        errors: shared.errors(),
        killed_at_s: round(killed as f64 / 1e6),
        timeline: timeline(&acknowledged, end),
        column_s: COLUMN_MICROS as f64 / 1e6,
    })
}

/// The longest time without an acknowledgement that ends after `from`, up to `end`.
fn longest_gap(acknowledged: &[u64], from: u64, end: u64) -> u64 {
    let mut times: Vec<u64> = acknowledged.iter().copied().filter(|time| *time <= end).collect();
    times.sort_unstable();
    // No acknowledgement at all after the kill is a gap to the end, not none.
    times.push(end);
    times.windows(2).filter(|pair| pair[1] >= from).map(|pair| pair[1] - pair[0]).max().unwrap_or(end)
}

fn timeline(acknowledged: &[u64], end: u64) -> Vec<u64> {
    let mut columns = vec![0; (end / COLUMN_MICROS + 1) as usize];
    for time in acknowledged {
        if let Some(column) = columns.get_mut((time / COLUMN_MICROS) as usize) {
            *column += 1;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_count_from_the_kill_to_the_end() {
        assert_eq!(longest_gap(&[0, 500, 510, 900, 950], 505, 1_000), 390);
        assert_eq!(longest_gap(&[0, 500, 510], 505, 1_000), 490, "silence to the end is a gap");
        assert_eq!(longest_gap(&[], 505, 1_000), 1_000);
        assert_eq!(longest_gap(&[10, 20, 600], 15, 700), 580, "a gap that spans the kill counts whole");
    }

    #[test]
    fn the_timeline_counts_every_write() {
        let columns = timeline(&[1, 2, COLUMN_MICROS, 3 * COLUMN_MICROS], 3 * COLUMN_MICROS);
        assert_eq!(columns, [2, 1, 0, 1]);
    }
}
