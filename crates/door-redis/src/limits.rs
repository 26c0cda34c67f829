//! The bounds of the door.
//!
//! By design: Redis' own where it has them, so that a client meets the limits that it knows.

use base_types::VALUE_BYTES_MAX;
use std::time::Duration;

/// Words of a command before the client has said who it is, where the node wants to know.
pub const WORDS_BEFORE_AUTH_MAX: usize = 10;
/// Bytes of a word before that.
pub const WORD_BYTES_BEFORE_AUTH_MAX: usize = 16 << 10;
/// Words of a command.
pub const WORDS_MAX: usize = base_types::redis::COMMAND_WORDS_MAX;
/// Bytes of a word. A value has fewer; the difference lets the database say so itself.
pub const WORD_BYTES_MAX: usize = VALUE_BYTES_MAX + (64 << 10);
/// Bytes of one command, all words together: what a call may have.
pub const COMMAND_BYTES_MAX: usize = base_types::COMMAND_BYTES_MAX - (4 << 10);
/// Bytes of a line: an inline command, or a count.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Room for one read of a socket, where a long command is on its way.
pub const READ_BYTES: usize = 64 << 10;
/// Else, so that idle connections take little.
pub const READ_BYTES_IDLE: usize = 4 << 10;
/// Commands of a connection that are answered together; the next wait in the socket.
pub const PIPELINE_MAX: usize = 1_024;
/// Bytes of commands of a connection that are answered together, about.
pub const PIPELINE_BYTES_MAX: usize = 1 << 20;
/// Commands that may be queued by MULTI.
pub const QUEUED_MAX: usize = base_types::redis::CALL_COMMANDS_MAX;
/// Bytes that may be queued by MULTI.
pub const QUEUED_BYTES_MAX: usize = COMMAND_BYTES_MAX;
/// Keys that a connection may watch.
pub const WATCHED_MAX: usize = base_types::redis::CALL_KEYS_MAX;
/// Clients of one thread that may wait for a key.
pub const BLOCKED_MAX: usize = 10_000;
/// Channels and patterns that one connection may subscribe to.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;
/// A subscriber hears messages for so long after it was looked whether it may. Revocation takes 2 s in all; a node hears of it in one.
pub const SUBSCRIBER_RECHECK: Duration = Duration::from_millis(500);
/// Messages that may wait for a subscriber to read them; beyond it the connection is closed, as Redis does.
pub const MESSAGES_WAITING_MAX: usize = 4_096;
/// Commands that one call of the door's to the database has at most.
pub const CALL_COMMANDS: usize = 1_024;
/// Bytes of the commands of such a call, about.
pub const CALL_BYTES: usize = 1 << 20;
/// Calls of one kind, caller, keyspace and level that a thread of the door has under way; what comes meanwhile goes with the next.
pub const CALLS_UNDER_WAY: usize = 2;
