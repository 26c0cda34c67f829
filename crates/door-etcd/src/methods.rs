//! The table of all methods, from the descriptors of etcd's .proto files and of gRPC's health service: paths of gRPC and of the JSON
//! gateway, messages, streams.
//!
//! Always: it is made once and has one entry for each method, so what is counted by method is bounded.
//! Held by: `every_method_of_etcd_is_in_the_table`.
//! Not here: who answers a method (`service.rs`).

use crate::proto::DESCRIPTORS;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, Value};
use std::collections::HashMap;
use std::sync::OnceLock;

/// A method.
#[derive(Debug)]
pub struct Method {
    /// Its place in the table.
    pub index: usize,
    /// `/package.Service/Method`.
    pub path: String,
    /// What a request is.
    pub input: MessageDescriptor,
    /// What an answer is.
    pub output: MessageDescriptor,
    /// Whether a client sends many requests in one call.
    pub many_requests: bool,
    /// Whether one call has many answers.
    pub many_answers: bool,
}

impl Method {
    /// Whether its answer waits for other clients, without end.
    pub fn waits(&self) -> bool {
        matches!(&self.path[..], "/v3lockpb.Lock/Lock" | "/v3electionpb.Election/Campaign")
    }

    /// Whether a call continues after its client has sent its last request.
    pub fn outlives_requests(&self) -> bool {
        self.path == "/etcdserverpb.Watch/Watch"
    }
}

/// All methods.
#[derive(Debug)]
pub struct Methods {
    /// By their index.
    pub all: Vec<Method>,
    by_path: HashMap<String, usize>,
    by_url: HashMap<String, usize>,
}

impl Methods {
    /// The table.
    pub fn table() -> &'static Methods {
        static TABLE: OnceLock<Methods> = OnceLock::new();
        TABLE.get_or_init(Methods::read)
    }

    /// The method of a path of gRPC.
    pub fn of_path(&self, path: &str) -> Option<&Method> {
        self.by_path.get(path).map(|index| &self.all[*index])
    }

    /// The method of a path of the gateway.
    pub fn of_url(&self, path: &str) -> Option<&Method> {
        self.by_url.get(path).map(|index| &self.all[*index])
    }

    /// The paths of the gateway.
    pub fn urls(&self) -> impl Iterator<Item = (&str, &Method)> {
        self.by_url.iter().map(|(url, index)| (&url[..], &self.all[*index]))
    }

    fn read() -> Methods {
        // The bytes are the compiler's own (build.rs), so a fault in them is a bug of the build: a test reads them.
        let pool = DescriptorPool::decode(DESCRIPTORS).expect("descriptors made by build.rs decode");
        let health = DescriptorPool::decode(tonic_health::pb::FILE_DESCRIPTOR_SET);
        let health = health.expect("descriptors in a package decode");
        let mut table = Methods { all: Vec::new(), by_path: HashMap::new(), by_url: HashMap::new() };
        for service in pool.services().chain(health.services()) {
            for method in service.methods() {
                let index = table.all.len();
                let path = format!("/{}/{}", service.full_name(), method.name());
                table.by_path.insert(path.clone(), index);
                table.by_url.extend(urls_of(&pool, &method).into_iter().map(|url| (url, index)));
                table.all.push(Method {
                    index,
                    path,
                    input: method.input(),
                    output: method.output(),
                    many_requests: method.is_client_streaming(),
                    many_answers: method.is_server_streaming(),
                });
            }
        }
        table
    }
}

/// The paths of the annotation `google.api.http`, those of additional bindings included.
fn urls_of(pool: &DescriptorPool, method: &MethodDescriptor) -> Vec<String> {
    let Some(extension) = pool.get_extension_by_name("google.api.http") else { return Vec::new() };
    let options = method.options();
    if !options.has_extension(&extension) {
        return Vec::new();
    }
    let value = options.get_extension(&extension);
    let Some(rule) = value.as_message() else { return Vec::new() };
    let post = |rule: &DynamicMessage| {
        rule.get_field_by_name("post").and_then(|post| post.as_str().map(String::from)).filter(|post| !post.is_empty())
    };
    let more = rule.get_field_by_name("additional_bindings");
    let more = more.as_deref().and_then(Value::as_list).unwrap_or_default();
    post(rule).into_iter().chain(more.iter().filter_map(|rule| rule.as_message().and_then(post))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_of_etcd_is_in_the_table() {
        let table = Methods::table();
        assert_eq!(table.all.len(), 51);
        let url = |url: &str| table.of_url(url).map(|method| &method.path[..]);
        assert_eq!(url("/v3/kv/range"), Some("/etcdserverpb.KV/Range"));
        assert_eq!(url("/v3/kv/lease/revoke"), Some("/etcdserverpb.Lease/LeaseRevoke"));
        assert_eq!(url("/v3/election/observe"), Some("/v3electionpb.Election/Observe"));
        assert_eq!(url("/v3/kv/nothing"), None);
        // All but RangeStream, which etcd gives no path, and the health service, which is not etcd's.
        let with_url: std::collections::BTreeSet<_> = table.urls().map(|(_, method)| method.index).collect();
        assert_eq!(with_url.len(), table.all.len() - 3);
        assert!(table.of_path("/etcdserverpb.Watch/Watch").is_some_and(|method| method.many_requests));
    }
}
