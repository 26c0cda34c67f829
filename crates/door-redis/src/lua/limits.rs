//! The bounds of scripts.
//!
//! By design: a script has a time, a memory and a number of commands; beyond one of them it is cut and has changed nothing.

use std::time::Duration;

/// The longest that one run of a script may take.
pub(crate) const SCRIPT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the door waits for a script beyond that, to hear why it ended.
pub(crate) const SCRIPT_TIME_GRACE: Duration = Duration::from_millis(200);
/// The memory of a running script.
pub(crate) const SCRIPT_MEMORY_BYTES_MAX: usize = 64 << 20;
/// Instructions between two looks at the clock.
pub(crate) const SCRIPT_INSTRUCTIONS: u32 = 1_000;
/// Commands that a script does, those that only read keys not counted.
pub(crate) const SCRIPT_STEPS_MAX: usize = base_types::redis::CALL_COMMANDS_MAX - 1;
/// And their bytes: they go into one entry of the log, with the keys that the script has read.
pub(crate) const SCRIPT_STEPS_BYTES_MAX: usize = base_types::COMMAND_BYTES_MAX / 2;
/// How long a script runs before others do.
pub(crate) const SCRIPT_SLICE: Duration = Duration::from_millis(10);
/// Scripts run on one of so many cores at a time; on one at least.
pub(crate) const SCRIPT_CORES_SHARE: usize = 4;
/// How often a script is run where others change what it has seen.
pub(crate) const SCRIPT_RUNS_MAX: u32 = 64;
/// No further run begins when it has been run for so long.
pub(crate) const SCRIPT_RUNS_TIME_MAX: Duration = Duration::from_secs(15);
/// The pause before the second run; it grows with each, and is drawn at random up to that.
pub(crate) const SCRIPT_PAUSE_US: u64 = 500;
/// What it grows to.
pub(crate) const SCRIPT_PAUSE_US_MAX: u64 = 20_000;
/// Scripts that run at the same time in a process, most of which wait for the database.
pub(crate) const SCRIPTS_RUNNING_MAX: usize = 16;
/// Scripts that wait for one of them to end.
pub(crate) const SCRIPTS_WAITING_MAX: usize = 4_096;
/// The stack of their threads.
pub(crate) const SCRIPT_STACK_BYTES: usize = 4 << 20;
/// A thread ends when it has had nothing to do for so long.
pub(crate) const SCRIPT_THREAD_IDLE: Duration = Duration::from_secs(10);
/// Bytes of a script's own reply, or of a text that it makes of tables.
pub(crate) const SCRIPT_REPLY_BYTES_MAX: usize = 16 << 20;
/// How deep tables lie in each other that a script replies with.
pub(crate) const SCRIPT_REPLY_DEPTH_MAX: usize = 128;
/// How deep tables lie in each other that become texts, or texts that become tables.
pub(crate) const SCRIPT_TEXT_DEPTH_MAX: usize = 1_000;
/// Declared keys by which scripts of a thread wait for each other.
pub(crate) const SCRIPT_TURNS_MAX: usize = 16;
/// A script that is longer is run, and not kept for EVALSHA.
pub(crate) const KEPT_BYTES_EACH_MAX: usize = 512 << 10;
/// Bytes of all scripts that are kept of a keyspace; beyond it all are dropped. Clients send them again.
pub(crate) const KEPT_BYTES_MAX: i64 = 32 << 20;
/// How many are kept.
pub(crate) const KEPT_COUNT_MAX: i64 = 10_000;
/// Bytes of sources that a thread of the door remembers.
pub(crate) const REMEMBERED_BYTES_MAX: usize = 8 << 20;
/// For how long: then it looks whether they were flushed.
pub(crate) const REMEMBERED_FOR: Duration = Duration::from_secs(30);
/// Scripts that SCRIPT EXISTS may name.
pub(crate) const NAMED_MAX: usize = 1_024;
/// How long a library may take to register its functions.
pub(crate) const LIBRARY_TIME_MAX: Duration = Duration::from_millis(500);
/// The name of a library: fields of hashes may have 1,024 bytes.
pub(crate) const LIBRARY_NAME_BYTES_MAX: usize = 512;
/// Libraries of a keyspace.
pub(crate) const LIBRARIES_MAX: usize = 1_000;
/// Their bytes, all together, with what is kept of their functions: a dump of them is a word of FUNCTION RESTORE.
pub(crate) const LIBRARIES_BYTES_MAX: usize = 1 << 20;
/// Bytes of libraries that a thread of the door remembers.
pub(crate) const LIBRARIES_REMEMBERED_BYTES_MAX: usize = 8 << 20;
