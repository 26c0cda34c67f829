//! Log lines on standard error: time, level, text, key=value.
//!
//! Always: `HIVE_LOG` (for example `info,edge_node=debug`) decides what is told; `info` by default.

use tracing_subscriber::EnvFilter;

/// Starts it for this process; later calls do nothing.
pub fn init() {
    let filter = EnvFilter::try_from_env("HIVE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .try_init();
}
