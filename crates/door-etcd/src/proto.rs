//! Messages and services of etcd, generated from its .proto files (build.rs).
//!
//! By design: as etcd publishes them; bytes are `Bytes`.
//! Not here: what they mean.
#![allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]

pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}
pub mod authpb {
    tonic::include_proto!("authpb");
}
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}
pub mod v3lockpb {
    tonic::include_proto!("v3lockpb");
}
pub mod v3electionpb {
    tonic::include_proto!("v3electionpb");
}

/// The version of etcd whose API this is.
pub const ETCD_VERSION: &str = "3.6.0";

/// Descriptors of all files, with their HTTP annotations.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/etcd.descriptors"));
