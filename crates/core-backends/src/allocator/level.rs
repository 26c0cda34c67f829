//! The world's format level (decision 0070): raised by one command, once every node on the list is up and serves it.
//!
//! Always: it only rises (`tests.rs`; mutant `OldNodeIgnoredAtFinalize`). A registration and a raise meet in the log's order, so either the raise sees the older build, or the older
//! build's registration is refused. Not here: how nodes hear of the level (core-node).

use super::*;
use base_types::format_level::remedy;

/// Nodes that one refusal names; the rest are counted.
const NAMED_MAX: usize = 20;

/// The world's level.
pub fn of(space: &dyn SpaceRead) -> Result<FormatLevel, EngineError> {
    let level = number(space, &[LEVEL])?;
    let level =
        u16::try_from(level).map_err(|_| EngineError::Corrupt(format!("format level {level} in the allocator")))?;
    Ok(FormatLevel(level.max(FormatLevel::FIRST.0)))
}

/// Why a node does not serve a world of this level now.
pub fn blocks(record: &NodeRecord, level: FormatLevel) -> Option<String> {
    let NodeRecord { node, version, level_max, up, .. } = record;
    match () {
        () if !up => Some(format!(
            "node {node} is not reachable: start it with a build that serves level {level}, or remove it for good with `hive ctl node remove {node}`"
        )),
        () if *level_max < level => {
            Some(format!("node {node} runs hive {version}, which serves up to level {level_max}: {}", remedy(level, None)))
        }
        () => None,
    }
}

/// Raises the world's level.
pub fn raise(space: &mut dyn SpaceWrite, level: FormatLevel) -> Outcome {
    let version = number(space, &[VERSION])?;
    if level <= of(space)? {
        return Ok(Ok(Reply::Done { version }));
    }
    let blockers: Vec<String> = all(space)?.iter().filter_map(|record| blocks(record, level)).collect();
    if !blockers.is_empty() && !planted(Mutant::OldNodeIgnoredAtFinalize) {
        return Ok(Err(Refusal::new(ErrorCode::Conflict, refused(level, &blockers))));
    }
    set_number(space, key(LEVEL, &[]), level.0.into());
    Ok(Ok(Reply::Done { version }))
}

/// The message of a refusal.
fn refused(level: FormatLevel, blockers: &[String]) -> String {
    let named = blockers.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
    match blockers.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        Some(more) => format!("the world cannot be raised to format level {level} yet: {named}; and {more} more nodes"),
        None => format!("the world cannot be raised to format level {level} yet: {named}"),
    }
}

/// Why a node is not registered: its program does not serve the world's level.
pub fn refuses(space: &dyn SpaceRead, record: &NodeRecord) -> Result<Option<Refusal>, EngineError> {
    let level = of(space)?;
    let message = || {
        let NodeRecord { node, version, level_max, .. } = record;
        let remedy = remedy(level, None);
        format!("the world is at format level {level}, and node {node} runs hive {version}, which serves up to {level_max}: {remedy}")
    };
    Ok((record.level_max < level).then(|| Refusal::new(ErrorCode::Conflict, message())))
}
