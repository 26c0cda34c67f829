//! The C interface as C sees it: the example compiled and run with the machine's compiler, and the header
//! compared with what cbindgen makes.

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

/// With cbindgen as a library, so that it is compared wherever this is tested.
#[test]
fn the_header_is_what_cbindgen_makes() {
    let config = cbindgen::Config::from_file(crate_path("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_config(config).with_src(crate_path("src/lib.rs")).generate().unwrap();
    let mut header = Vec::new();
    made.write(&mut header);
    let is = std::fs::read_to_string(crate_path("include/hive_embedded.h")).unwrap();
    // Versions of cbindgen differ in how they break lines.
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let made = String::from_utf8(header).unwrap();
    assert!(words(&made) == words(&is), "the header is behind src/lib.rs; it should be\n{made}");
}
