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
            let text = format!(
                "authority of world {world} made in {}; keep ca.key secret: who has it can join",
                dir.display()
            );
            say(json, json!({"ok": true, "dir": dir, "world": world}), &text);
        }
        CaCommand::Issue { dir, node, addresses, days, json } => {
            check_addresses(&addresses)?;
            let replaced = dir.join(format!("node-{node}.pem")).exists();
            let issued = ca::issue(&dir, NodeId(node), &addresses, days).map_err(refused)?;
            let text = format!(
                "node {node}: certificate {}, key {}, authority {}; valid {days} days{}",
                issued.certificate.display(),
                issued.key.display(),
                issued.authority.display(),
                if replaced {
                    "; it replaces the files of an earlier one, which stays valid where it was copied to"
                } else {
                    ""
                }
            );
            let value = json!({"ok": true, "node": node, "certificate": issued.certificate, "key": issued.key, "authority": issued.authority, "replaced": replaced});
            say(json, value, &text);
        }
        CaCommand::Show { dir, json } => show(&dir, json)?,
        CaCommand::Rotate { dir, json } => {
            ca::rotate(&dir).map_err(refused)?;
            let text =
                "the authority has a new key; copy ca.pem to every node, then issue and copy each node's certificate; \
                        nodes trust both authorities meanwhile and reload files by themselves";
            say(json, json!({"ok": true, "dir": dir}), text);
        }
    }
    Ok(())
}

/// What may stand in a certificate: an IP address, or a host's name without a port.
fn check_addresses(addresses: &[String]) -> Result<(), Failure> {
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let host = |text: &str| !text.is_empty() && text.bytes().all(name_byte) && !text.starts_with(['.', '-']);
    match addresses.iter().find(|text| text.parse::<std::net::IpAddr>().is_err() && !host(text)) {
        Some(wrong) => Err(Failure::usage(format!("address '{wrong}' is neither an IP address nor a host name; write for example 10.0.0.3 or node3.example, without a port"))),
        None => Ok(()),
    }
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
        // An authority has no names; its subject tells two of a rotation apart.
        let names = if info.names.is_empty() { info.subject.clone() } else { info.names.join(" ") };
        out.add_row([info.file.clone(), names, kind.into(), left]);
    }
    println!("{out}");
    Ok(())
}
