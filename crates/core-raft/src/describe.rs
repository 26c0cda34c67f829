//! A Raft message in one line, for traces.
//!
//! Not here: its bytes (`message`).

use crate::message::{Message, MessageKind};
use std::fmt;

impl Message {
    /// Whether it says nothing that a reader of a trace looks for: heartbeats, empty appends, and answers that agree.
    pub fn is_routine(&self) -> bool {
        match self.kind() {
            MessageKind::Heartbeat | MessageKind::HeartbeatResponse => true,
            MessageKind::Append => self.inner.entries.is_empty(),
            MessageKind::AppendResponse => !self.inner.reject,
            _ => false,
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.inner;
        write!(f, "{:?} term {}", self.kind(), inner.term)?;
        match self.kind() {
            MessageKind::Append => match (inner.entries.first(), inner.entries.last()) {
                (Some(first), Some(last)) => {
                    write!(f, " entries {}..={} after term {}", first.index, last.index, inner.log_term)?;
                }
                _ => write!(f, " no entries after {}", inner.index)?,
            },
            MessageKind::AppendResponse => write!(f, " up to {}", inner.index)?,
            MessageKind::RequestVote | MessageKind::RequestPreVote => {
                write!(f, " log ends at {} in term {}", inner.index, inner.log_term)?;
            }
            MessageKind::Snapshot => write!(f, " at {}", inner.get_snapshot().get_metadata().index)?,
            _ => {}
        }
        if matches!(self.kind(), MessageKind::Append | MessageKind::Heartbeat) {
            write!(f, " commit {}", inner.commit)?;
        }
        if inner.reject {
            f.write_str(" REJECTED")?;
        }
        Ok(())
    }
}
