//! The C interface as C sees it: the example compiled and run with the machine's compiler, and the header
//! compared with what cbindgen makes, where it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn crate_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Cargo builds the libraries beside the test: `<target>/<profile>/deps/`, or one above.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let places = [deps.join("libhive_embedded.a"), deps.parent().unwrap().join("libhive_embedded.a")];
    places.into_iter().find(|path| path.exists()).expect("cargo builds libhive_embedded.a with the tests")
}

#[test]
fn the_example_compiles_and_runs() {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("hello");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(crate_path("include"))
        .arg(crate_path("examples/hello.c"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("a C compiler (cc) is installed; LMDB needs it too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let store = home.path().join("store");
    // Twice: made, then opened again.
    for _ in 0..2 {
        let ran = Command::new(&program).arg(&store).output().unwrap();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{errors}");
        let expected =
            "hello = world\napple\tred\nhello\tworld\npear\tgreen\nrefused: a key of 0 bytes; keys have 1 to 1024\n";
        assert_eq!(String::from_utf8_lossy(&ran.stdout), expected, "{errors}");
    }
    let ran = Command::new(&program).arg(crate_path("src")).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && errors.contains("is not empty and has no hive-store.json"), "{errors}");
}

/// Where cbindgen is not installed nothing is compared; `cargo install cbindgen` brings it.
#[test]
fn the_header_is_what_cbindgen_makes() {
    let home = tempfile::tempdir().unwrap();
    let made = home.path().join("hive_embedded.h");
    let config = crate_path("cbindgen.toml");
    let ran = Command::new("cbindgen")
        .arg("--config")
        .arg(config)
        .arg("--output")
        .arg(&made)
        .arg(crate_path("src/lib.rs"))
        .output();
    let Ok(ran) = ran else {
        eprintln!("cbindgen is not installed: the header was not compared");
        return;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    // Versions of cbindgen differ in how they break lines.
    let words = |path: &Path| -> Vec<String> {
        std::fs::read_to_string(path).unwrap().split_whitespace().map(str::to_owned).collect()
    };
    let same = words(&made) == words(&crate_path("include/hive_embedded.h"));
    assert!(same, "the header is behind src/lib.rs; make it again (cbindgen.toml says how)");
}
