//! Ways in to edge-node: node.toml, a static topology, tokens and keys of OIDC issuers, messages between nodes.

use edge_node::access::oidc::{keys::KeySet, token};
use edge_node::config::{check, topology, NodeFile, OidcSection};
use std::path::Path;

/// A text as node.toml, checked as at a start (no file it names is opened; there are none).
pub fn node_config(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    match NodeFile::parse("node.toml", text) {
        Ok(file) => {
            let written = file.to_toml().expect("a file that was read can be written");
            NodeFile::parse("again.toml", &written).expect("what was written is read");
            // A topology elsewhere on this machine is no business of a fuzzer.
            if file.topology.as_ref().is_some_and(|path| path.is_absolute() || text.contains("..")) {
                return;
            }
            if let Err(error) = check(Path::new("/nonexistent/node.toml"), text, file) {
                assert!(!error.to_string().is_empty());
            }
        }
        Err(error) => assert!(error.to_string().starts_with("node.toml")),
    }
}

/// A text as a static topology.
pub fn topology_text(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else { return };
    if let Ok(shards) = topology::parse("topology.yaml", text) {
        assert!(shards.iter().enumerate().all(|(place, shard)| shard.index as usize == place));
    }
}

/// An issuer's keys, a zero byte, and a token. Nobody has signed it, so it says nothing.
pub fn oidc_token(data: &[u8]) {
    let at = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let token = String::from_utf8_lossy(data.get(at + 1..).unwrap_or_default());
    let _ = token::issuer_of(&token);
    let Ok(keys) = KeySet::parse(&data[..at]) else { return };
    let issuer = OidcSection::new("https://corp.example/realm", "hive");
    if let Err(wrong) = token::check(&token, &keys, &issuer, 1_800_000_000) {
        assert!(wrong.to_string().len() < 1_024);
    }
}
