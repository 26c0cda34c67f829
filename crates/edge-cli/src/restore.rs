//! `hive restore`: a node's data directory out of what an object store holds.
//!
//! Not here: how (edge-node, `restore.rs`).

use crate::arguments::RestoreArguments;
use crate::failure::Failure;

/// Makes the directory, or lists whose data is there.
#[cfg(feature = "engine-object")]
pub fn run(arguments: &RestoreArguments) -> Result<(), Failure> {
    use edge_node::restore::{look, restore, Plan};
    let options = arguments.place.options.iter().cloned().collect();
    if arguments.list {
        let found = look(&arguments.place.from, &options).map_err(Failure::refused)?;
        return list(arguments.json, &found);
    }
    let Some(data) = arguments.data.clone() else {
        return Err(Failure::usage("name the directory to make with --data, or look with --list"));
    };
    let plan = Plan { from: arguments.place.from.clone(), options, which: arguments.place.which(), data };
    let mut progress = |line: &str| {
        if !arguments.json {
            eprintln!("{line}");
        }
    };
    let report = restore(&plan, &mut progress).map_err(Failure::refused)?;
    if arguments.json {
        let clusters: Vec<_> = report
            .clusters
            .iter()
            .map(|found| serde_json::json!({"name": found.name, "index": found.index.0, "pairs": found.pairs}))
            .collect();
        println!(
            "{}",
            serde_json::json!({"world": report.world, "node": report.node.0, "data": plan.data.display().to_string(), "clusters": clusters, "unfinished": report.unfinished})
        );
        return Ok(());
    }
    println!("world {}: node {} continues alone with {} clusters", report.world, report.node, report.clusters.len());
    println!(
        "next: let no other node of the old world run again; give them empty data directories, then start this one"
    );
    Ok(())
}

#[cfg(feature = "engine-object")]
fn list(json: bool, found: &[(edge_node::data::Origin, edge_node::restore::Held)]) -> Result<(), Failure> {
    for (origin, held) in found {
        match json {
            true => println!(
                "{}",
                serde_json::json!({"world": origin.world, "node": origin.node.0, "disk": origin.disk.0, "lane": origin.lane, "lanes": origin.lanes, "url": held.url})
            ),
            false => println!("{}  {}", origin.note(), held.url),
        }
    }
    match found.is_empty() {
        true => Err(Failure::refused("no node's data is there; name its engine.object.url")),
        false => Ok(()),
    }
}

/// What a build without them says.
#[cfg(not(feature = "engine-object"))]
pub(crate) const NO_OBJECTS: &str =
    "this build has no object stores; build one that has with make build ENGINES=object";

/// This build cannot.
#[cfg(not(feature = "engine-object"))]
pub fn run(_: &RestoreArguments) -> Result<(), Failure> {
    Err(Failure::refused(NO_OBJECTS))
}
