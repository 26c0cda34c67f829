//! `hive ca`: the world's certificate authority.

use crate::arguments::CaCommand;
use crate::failure::Failure;
use crate::output::table;
use base_types::NodeId;
use edge_node::ca::{self, CaError, CertificateInfo};
use serde_json::{json, Value};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs a command on an authority's directory.
pub fn run(command: CaCommand) -> Result<(), Failure> {
    match command {
        CaCommand::Init { dir, world, json } => {
            ca::init(&dir, &world).map_err(refused)?;
            let text = format!("authority of world {world} made in {}; keep ca.key secret: who has it can join", dir.display());
            say(json, json!({"ok": true, "dir": dir, "world": world}), &text);
        }
        CaCommand::Issue { dir, node, addresses, days, json } => {
            let issued = ca::issue(&dir, NodeId(node), &addresses, days).map_err(refused)?;
            let text = format!(
                "node {node}: certificate {}, key {}, authority {}; valid {days} days",
                issued.certificate.display(),
                issued.key.display(),
                issued.authority.display()
            );
            let value = json!({"ok": true, "node": node, "certificate": issued.certificate, "key": issued.key, "authority": issued.authority});
            say(json, value, &text);
        }
        CaCommand::Show { dir, json } => show(&dir, json)?,
        CaCommand::Rotate { dir, json } => {
            ca::rotate(&dir).map_err(refused)?;
            let text = "the authority has a new key; copy ca.pem to every node, then issue and copy each node's certificate; \
                        nodes trust both authorities meanwhile and reload files by themselves";
            say(json, json!({"ok": true, "dir": dir}), text);
        }
    }
    Ok(())
}

fn refused(error: CaError) -> Failure {
    Failure::refused(error.to_string())
}

fn say(as_json: bool, value: Value, text: &str) {
    if as_json {
        println!("{value}");
    } else {
        println!("{text}");
    }
}

fn show(dir: &Path, as_json: bool) -> Result<(), Failure> {
    let certificates = ca::show(dir).map_err(refused)?;
    if as_json {
        let item = |info: &CertificateInfo| {
            json!({
                "file": info.file, "subject": info.subject, "names": info.names, "not_before": info.not_before,
                "not_after": info.not_after, "serial": info.serial, "authority": info.authority, "expired": info.expired,
            })
        };
        println!("{}", json!({"ok": true, "certificates": certificates.iter().map(item).collect::<Vec<_>>()}));
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let mut out = table(["FILE", "NAMES", "KIND", "VALID FOR"]);
    for info in &certificates {
        let kind = if info.authority { "authority" } else { "node" };
        let left = if info.expired { "expired".into() } else { format!("{} days", (info.not_after - now) / 86_400) };
        out.add_row([info.file.clone(), info.names.join(" "), kind.into(), left]);
    }
    println!("{out}");
    Ok(())
}
