//! A node of one lane with all three ports, for tests that need a process of their own.

use edge_node::{ca, Config, CoreFactory, NodeHandle};
use std::path::Path;

/// Starts it below `home`; `more` is the end of its `node.toml`.
pub fn start(home: &Path, more: &str) -> NodeHandle {
    ca::init(&home.join("ca"), "dev").unwrap();
    ca::issue(&home.join("ca"), base_types::NodeId(1), &[], 2).unwrap();
    let path = home.join("node.toml");
    let text = r#"
id = 1
data = "data"
cores = 1
[world]
name = "dev"
[[world.members]]
id = 1
address = "127.0.0.1:9"
[region]
name = "fr-par"
[location]
az = "1"
rack = "1"
chassis = "1"
[http]
listen = "127.0.0.1:0"
[peer]
listen = "127.0.0.1:0"
advertise = "127.0.0.1:9"
[s3]
listen = "127.0.0.1:0"
data = "s3-data"
[certificates]
authority = "ca/ca.pem"
certificate = "ca/node-1.pem"
key = "ca/node-1.key"
[engine.lmdb]
map_bytes_max = 16777216
"#;
    std::fs::write(&path, format!("{text}{more}")).unwrap();
    NodeHandle::start(Config::load(&path).unwrap(), Box::new(CoreFactory)).unwrap()
}
