//! Compiles the shim against Debian's RocksDB and links that library.
//!
//! The shim derives from classes behind RocksDB's public headers (table builder and reader), whose
//! layout belongs to one release. Those headers lie in `shim/rocksdb-7.8.3/`, as they were released; the
//! public ones are the system's. So the system's release is looked at first, and another is refused.
//!
//! Always: the defines are those Debian compiles with (its CMake build on Linux, without NDEBUG).
//! Not here: installing it (`scripts/setup.sh`).

use std::path::Path;
use std::process::exit;

const VERSION_HEADER: &str = "/usr/include/rocksdb/version.h";
const WANTED: &str = "7.8.3";
const SOURCES: [&str; 6] = ["store.cc", "context.cc", "builder.cc", "blocks.cc", "reader.cc", "verify.cc"];

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed={VERSION_HEADER}");
    match installed() {
        Some(version) if version == WANTED => {}
        found => {
            let found = found.unwrap_or_else(|| "none".into());
            println!(
                "cargo:warning=engine-rocksdb needs RocksDB {WANTED} with its headers, found {found}; on Debian 12 run \
                 'apt-get install librocksdb-dev rocksdb-tools' (scripts/setup.sh does), or build without it \
                 ('cargo build --workspace --exclude engine-rocksdb')"
            );
            exit(1);
        }
    }
    let shim = Path::new("shim");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).debug(false).warnings(false).flag("-Wall").flag("-Wno-attributes");
    for define in ["ROCKSDB_PLATFORM_POSIX", "ROCKSDB_LIB_IO_POSIX", "OS_LINUX", "ROCKSDB_FALLOCATE_PRESENT"] {
        build.define(define, None);
    }
    build.include(shim).flag("-isystem").flag("shim/rocksdb-7.8.3");
    // Debian's library has its assertions on, and some of them are members of classes.
    build.flag("-UNDEBUG");
    for source in SOURCES {
        build.file(shim.join(source));
    }
    build.compile("hive_rocksdb_shim");
    println!("cargo:rustc-link-lib=dylib=rocksdb");
}

/// The release whose headers are installed.
fn installed() -> Option<String> {
    let text = std::fs::read_to_string(VERSION_HEADER).ok()?;
    let number = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("#define {name} ")))?;
        line.rsplit(' ').next().map(str::to_string)
    };
    Some(format!("{}.{}.{}", number("ROCKSDB_MAJOR")?, number("ROCKSDB_MINOR")?, number("ROCKSDB_PATCH")?))
}
