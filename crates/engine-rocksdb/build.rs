//! Compiles the shim against Debian's RocksDB and links that library.
//!
//! The shim derives from classes behind RocksDB's public headers (table builder and reader), whose
//! layout belongs to one release. Those headers are taken from Debian's source package into the target
//! directory (`fetch-headers.sh`); the public ones are the system's. So the system's release is looked at
//! first, and another is refused.
//!
//! By design: the defines are those Debian compiles with (its CMake build on Linux, without NDEBUG); every
//! header of others is checked against `headers.sha256` before it is compiled.
//! Not here: installing the library (`scripts/rocksdb.sh`).

use std::path::{Path, PathBuf};
use std::process::{exit, Command};

const VERSION_HEADER: &str = "/usr/include/rocksdb/version.h";
const WANTED: &str = "7.8.3";
/// Where the headers lie in the target directory; `scripts/rocksdb.sh` puts them there, too.
const HEADERS: &str = "rocksdb-7.8.3";
/// From the target directory down to a build script's own folder: profile, `build`, package, `out`.
const FOLDERS_BELOW_TARGET: usize = 4;
const SOURCES: [&str; 6] = ["store.cc", "context.cc", "builder.cc", "blocks.cc", "reader.cc", "verify.cc"];

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed={VERSION_HEADER}");
    println!("cargo:rerun-if-changed=headers.sha256");
    println!("cargo:rerun-if-changed=fetch-headers.sh");
    println!("cargo:rerun-if-env-changed=HIVE_ROCKSDB_SOURCE");
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
    let headers = headers();
    println!("cargo:rerun-if-changed={}", headers.display());
    let shim = Path::new("shim");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").opt_level(2).debug(false).warnings(false).flag("-Wall").flag("-Wno-attributes");
    for define in ["ROCKSDB_PLATFORM_POSIX", "ROCKSDB_LIB_IO_POSIX", "OS_LINUX", "ROCKSDB_FALLOCATE_PRESENT"] {
        build.define(define, None);
    }
    build.include(shim).flag("-isystem").flag(&headers);
    // Debian's library has its assertions on, and some of them are members of classes.
    build.flag("-UNDEBUG");
    for source in SOURCES {
        build.file(shim.join(source));
    }
    build.compile("hive_rocksdb_shim");
    println!("cargo:rustc-link-lib=dylib=rocksdb");
}

/// The folder of the headers that no package installs, fetched and checked.
fn headers() -> PathBuf {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let there = out.ancestors().map(|folder| folder.join(HEADERS)).find(|folder| folder.is_dir());
    let folder = there.unwrap_or_else(|| out.ancestors().nth(FOLDERS_BELOW_TARGET).unwrap_or(&out).join(HEADERS));
    let fetched = Command::new("./fetch-headers.sh").arg(&folder).output();
    match fetched {
        Ok(output) if output.status.success() => folder,
        Ok(output) => {
            for line in String::from_utf8_lossy(&output.stderr).lines() {
                println!("cargo:warning=engine-rocksdb: {line}");
            }
            exit(1);
        }
        Err(error) => {
            println!("cargo:warning=engine-rocksdb: fetch-headers.sh cannot be run ({error}); it needs bash");
            exit(1);
        }
    }
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
