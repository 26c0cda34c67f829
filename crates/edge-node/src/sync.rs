//! What the mailbox is built on, named in one place: the model test (`tests/mailbox_model.rs`) compiles
//! the very same mailbox over shuttle's lock and threads instead.
//!
//! Not here: anything else's locks.

pub use std::sync::{Arc, Mutex, MutexGuard};
pub use std::thread;
