//! Generates messages and services from etcd's .proto files, which the package `etcd-client` carries.
//!
//! Always: nothing of that package is compiled, and no protoc is needed; the descriptors keep their HTTP annotations.
//! Not here: why it is done so (docs/decisions/0079).

use std::path::{Path, PathBuf};
use std::process::Command;

/// The package, and its version in Cargo.toml.
const PACKAGE: (&str, &str) = ("etcd-client", "0.21.1");
/// What is compiled, with all that it imports.
const FILES: [&str; 3] = [
    "etcd/api/etcdserverpb/rpc.proto",
    "etcd/server/etcdserver/api/v3election/v3electionpb/v3election.proto",
    "etcd/server/etcdserver/api/v3lock/v3lockpb/v3lock.proto",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.toml");
    if let Err(problem) = generate() {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

fn generate() -> Result<(), String> {
    let protos = package_directory()?.join("proto");
    println!("cargo:rerun-if-changed={}", protos.display());
    let mut compiler = protox::Compiler::new([&protos]).map_err(|error| error.to_string())?;
    compiler.include_imports(true).open_files(FILES).map_err(|error| format!("{}: {error}", protos.display()))?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set; build with cargo")?);
    // Encoded by the compiler itself: `prost_types` would drop the HTTP annotations.
    std::fs::write(out.join("etcd.descriptors"), compiler.encode_file_descriptor_set())
        .map_err(|error| format!("{}: {error}", out.display()))?;
    let mut files = compiler.file_descriptor_set();
    // Options for documents of the API: nothing at run time looks at them.
    files.file.retain(|file| !file.name().starts_with("protoc-gen-openapiv2/") && !file.name().starts_with("google/"));
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .emit_rerun_if_changed(false)
        .compile_fds(files)
        .map_err(|error| error.to_string())
}

/// Where cargo unpacked the package: asked without the network first, as it mostly is there.
fn package_directory() -> Result<PathBuf, String> {
    let (name, version) = PACKAGE;
    let mut problems = Vec::new();
    for offline in [true, false] {
        match metadata(offline) {
            Ok(found) => match directory_in(&found) {
                Some(directory) => return Ok(directory),
                None => problems.push(format!("cargo metadata does not list {name} {version}")),
            },
            Err(problem) => problems.push(problem),
        }
    }
    Err(format!(
        "the .proto files of etcd are not here: they are in the package {name} {version}; run `cargo fetch --locked`\n{}",
        problems.join("\n")
    ))
}

fn metadata(offline: bool) -> Result<serde_json::Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--locked"]);
    if offline {
        command.arg("--offline");
    }
    let run = command.output().map_err(|error| format!("cargo metadata: {error}"))?;
    if !run.status.success() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    serde_json::from_slice(&run.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

fn directory_in(metadata: &serde_json::Value) -> Option<PathBuf> {
    let (name, version) = PACKAGE;
    let package = metadata["packages"].as_array()?.iter().find(|p| p["name"] == name && p["version"] == version)?;
    let directory = Path::new(package["manifest_path"].as_str()?).parent()?;
    directory.join("proto").is_dir().then(|| directory.to_path_buf())
}
