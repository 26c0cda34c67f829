//! `hive ca`: the world's certificate authority.

use crate::arguments::CaCommand;
use crate::failure::Failure;
use crate::output::table;
use base_types::NodeId;
use edge_node::ca::{self, CaError, CertificateInfo, Revocation, Revoke};
use serde_json::{json, Value};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs a command on an authority's directory.
pub fn run(command: CaCommand) -> Result<(), Failure> {
    match command {
        CaCommand::Init { dir, world, clients, json } => {
            let (made, whose, risk) = match clients {
                false => (ca::init(&dir, &world), "authority", "can join"),
                true => (ca::clients::init(&dir, &world), "authority of clients", "can be any user"),
            };
            made.map_err(refused)?;
            let text =
                format!("{whose} of world {world} made in {}; keep ca.key secret: who has it {risk}", dir.display());
            say(json, json!({"ok": true, "dir": dir, "world": world, "clients": clients}), &text);
        }
        CaCommand::Issue { dir, node, server, user, addresses, days, json } => {
            let wanted = Wanted::of(node, server, user);
            issue(&dir, &wanted, &addresses, days, json)?;
        }
        CaCommand::Revoke { dir, node, user, certificate, serial, json } => {
            let stem = node.map(|node| format!("node-{node}")).or(user.map(|user| format!("user-{user}")));
            let file = stem.map(|stem| dir.join(format!("{stem}.pem"))).or(certificate);
            // clap lets exactly one of the four through.
            let what = file.map_or_else(|| Revoke::Serial(serial.unwrap_or_default()), Revoke::File);
            revoke(&dir, &what, json)?;
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

/// Whose certificate is asked for; clap lets exactly one through.
enum Wanted {
    Node(u64),
    Server(String),
    User(String),
}

impl Wanted {
    fn of(node: Option<u64>, server: Option<String>, user: Option<String>) -> Wanted {
        match (node, server, user) {
            (Some(node), _, _) => Wanted::Node(node),
            (_, Some(server), _) => Wanted::Server(server),
            (_, _, user) => Wanted::User(user.unwrap_or_default()),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Wanted::Node(_) => "node",
            Wanted::Server(_) => "server",
            Wanted::User(_) => "user",
        }
    }

    fn name(&self) -> String {
        match self {
            Wanted::Node(node) => node.to_string(),
            Wanted::Server(name) | Wanted::User(name) => name.clone(),
        }
    }
}

fn issue(dir: &Path, wanted: &Wanted, addresses: &[String], days: u32, json: bool) -> Result<(), Failure> {
    check_addresses(addresses, matches!(wanted, Wanted::Server(_)))?;
    let (kind, name) = (wanted.kind(), wanted.name());
    let replaced = dir.join(format!("{kind}-{name}.pem")).exists();
    let issued = match wanted {
        Wanted::Node(node) => ca::issue(dir, NodeId(*node), addresses, days),
        Wanted::Server(name) => ca::clients::issue_server(dir, name, addresses, days),
        Wanted::User(name) => ca::clients::issue_user(dir, name, days),
    };
    let issued = issued.map_err(refused)?;
    let again = "; it replaces the files of an earlier one, which stays valid where it was copied to";
    let text = format!(
        "{kind} {name}: certificate {}, key {}, authority {}; valid {days} days{}",
        issued.certificate.display(),
        issued.key.display(),
        issued.authority.display(),
        if replaced { again } else { "" }
    );
    let mut value = json!({"ok": true, "certificate": issued.certificate, "key": issued.key, "authority": issued.authority, "replaced": replaced});
    value[kind] = match wanted {
        Wanted::Node(node) => (*node).into(),
        _ => name.into(),
    };
    say(json, value, &text);
    Ok(())
}

fn revoke(dir: &Path, what: &Revoke, json: bool) -> Result<(), Failure> {
    let Revocation { list, serial, revoked, before } = ca::revoke(dir, what).map_err(refused)?;
    let setting = if ca::clients::is_here(dir) { "tls.client_revocations" } else { "certificates.revocations" };
    let text = format!(
        "certificate {serial} is revoked{}; {} has {revoked}: copy it to every node, where {setting} names it",
        if before { " already" } else { "" },
        list.display()
    );
    say(json, json!({"ok": true, "serial": serial, "list": list, "revoked": revoked, "before": before}), &text);
    Ok(())
}

/// What may stand in a certificate: an IP address, or a host's name without a port.
fn check_addresses(addresses: &[String], wildcards: bool) -> Result<(), Failure> {
    let name_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let below = |text: &'_ str| text.strip_prefix("*.").filter(|_| wildcards).unwrap_or(text).to_owned();
    let host = |text: &str| !text.is_empty() && text.bytes().all(name_byte) && !text.starts_with(['.', '-']);
    match addresses.iter().find(|text| text.parse::<std::net::IpAddr>().is_err() && !host(&below(text))) {
        Some(wrong) => Err(Failure::usage(format!("address '{wrong}' is neither an IP address nor a host name; write for example 10.0.0.3 or node3.example, without a port"))),
        None => Ok(()),
    }
}

/// Whose certificate a file of an authority's directory is, by its name.
fn kind_of(file: &str) -> &'static str {
    let name = Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or("");
    ["server", "user"].into_iter().find(|kind| name.starts_with(&format!("{kind}-"))).unwrap_or("node")
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
        let kind = if info.authority { "authority" } else { kind_of(&info.file) };
        let left = if info.expired { "expired".into() } else { format!("{} days", (info.not_after - now) / 86_400) };
        // An authority has no names; its subject distinguishes two of a rotation.
        let names = if info.names.is_empty() { info.subject.clone() } else { info.names.join(" ") };
        out.add_row([info.file.clone(), names, kind.into(), left]);
    }
    println!("{out}");
    Ok(())
}
