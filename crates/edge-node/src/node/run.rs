//! A node as a process: until a signal, or until it fails.

use super::{NodeHandle, StartError};
use crate::config::Config;
use crate::machine::MachineFactory;
use tokio::signal::unix::{signal, SignalKind};
use tokio::sync::watch;

/// The exit code of a process that gets two signals to stop.
const IMPATIENT: i32 = 130;

/// Runs a node until `shutdown` becomes true; SIGHUP makes it read its certificates again. It ends as well when the sender is gone
/// or the node fails.
pub fn run(config: Config, shutdown: watch::Receiver<bool>) -> Result<(), StartError> {
    run_with(config, Box::new(crate::core_machine::CoreFactory), shutdown)
}

/// As [`run`], with another machine.
pub fn run_with(
    config: Config,
    factory: Box<dyn MachineFactory>,
    mut shutdown: watch::Receiver<bool>,
) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StartError::Thread { name: "main".into(), reason: error.to_string() })?;
    // Before anything else: without a listener the signal would end the process.
    let hangups = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup())
    };
    let mut hangups = hangups.map_err(|error| StartError::Thread { name: "main".into(), reason: error.to_string() })?;
    let node = NodeHandle::start(config, factory)?;
    let mut ended = node.ended();
    runtime.block_on(async {
        loop {
            tokio::select! {
                _ = shutdown.wait_for(|stop| *stop) => {
                    tracing::info!("stopping: requests in hand end first");
                    return;
                }
                _ = ended.wait_for(|ended| *ended) => return,
                Some(()) = hangups.recv() => node.reload_certificates(),
            }
        }
    });
    let result = node.stop();
    if result.is_ok() {
        tracing::info!("node stopped");
    }
    result
}

/// Becomes true at SIGTERM or SIGINT; a second one ends the process at once.
pub fn signals() -> std::io::Result<watch::Receiver<bool>> {
    let (sender, receiver) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut term, mut int) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    std::thread::Builder::new().name("hive-signals".into()).spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = int.recv() => {}
                }
                if sender.send_replace(true) {
                    std::process::exit(IMPATIENT);
                }
            }
        });
    })?;
    Ok(receiver)
}
