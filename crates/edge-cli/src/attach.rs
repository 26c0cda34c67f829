//! `hive attach`: a process that reads a world out of a bucket.
//!
//! Not here: how (edge-node, `attach.rs`).

use crate::arguments::AttachArguments;
use crate::failure::Failure;

/// Attaches, says what is there, and answers clients until it is ended.
#[cfg(feature = "engine-object")]
pub fn run(arguments: &AttachArguments) -> Result<(), Failure> {
    use edge_node::attach::{attach, serve, Plan};
    if let Some(listen) = arguments.listen.filter(|listen| !listen.ip().to_canonical().is_loopback()) {
        if !arguments.insecure {
            return Err(Failure::usage(format!("{listen} is reached by other machines, and everybody may read everything there; listen on 127.0.0.1, or add --insecure")));
        }
    }
    let plan = Plan {
        from: arguments.place.from.clone(),
        options: arguments.place.options.iter().cloned().collect(),
        which: arguments.place.which(),
        follow: std::time::Duration::from_millis(arguments.follow_ms),
    };
    let attached = attach(&plan).map_err(Failure::refused)?;
    let origin = attached.origin();
    println!("world {}: reads along what node {} keeps in {}", origin.world, origin.node, plan.from);
    for (name, index) in attached.clusters() {
        println!("  {name} at index {index}");
    }
    let Some(listen) = arguments.listen else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(|error| Failure::refused(format!("cannot start: {error}")))?.block_on(async move {
        let listener = tokio::net::TcpListener::bind(listen).await;
        let listener = listener.map_err(|error| Failure::refused(format!("{listen}: {error}; name a free address")))?;
        println!("answers KvGet and KvScan on http://{listen}");
        serve(attached, listener).await;
        Ok(())
    })
}

/// This build cannot.
#[cfg(not(feature = "engine-object"))]
pub fn run(_: &AttachArguments) -> Result<(), Failure> {
    Err(Failure::refused(crate::restore::NO_OBJECTS))
}
