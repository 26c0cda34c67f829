use super::*;
use std::io::Write;
use std::process::{Command as Process, Stdio};

/// The names of all commands that `--help` shows, each with those above it.
fn names(command: &Command, above: &str, names: &mut Vec<String>) {
    let name = format!("{above}{}", command.get_name());
    let shown = |under: &&Command| under.get_name() != "help" && !under.is_hide_set();
    command.get_subcommands().filter(shown).for_each(|under| self::names(under, &format!("{name}-"), names));
    names.push(name);
}

#[test]
fn every_command_has_a_manual_page() {
    let mut wanted = Vec::new();
    names(&Arguments::command(), "", &mut wanted);
    let out = tempfile::tempdir().unwrap();
    write(&out.path().join("man1")).unwrap();
    for name in &wanted {
        let page = std::fs::read_to_string(out.path().join(format!("man1/{name}.1"))).expect(name);
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH \"EXIT STATUS\""] {
            assert!(page.contains(section), "{name} lacks {section}");
        }
        assert!(!page.contains("placeholder"), "{name}");
    }
    assert_eq!(std::fs::read_dir(out.path().join("man1")).unwrap().count(), wanted.len(), "and no other page");
    assert!(wanted.contains(&"hive-ctl-cluster-members-add".into()), "three levels down, too: {wanted:?}");
}

#[test]
fn manual_pages_do_not_depend_on_the_environment() {
    // clap reads HIVE_ENDPOINT and others when the command line is parsed; a page names the variable, and not what it holds.
    let page = pages().unwrap().into_iter().find(|page| page.file == "hive-ctl-status.1").unwrap();
    let text = String::from_utf8(page.text).unwrap();
    assert!(text.contains("HIVE_ENDPOINT") || text.contains("HIVE\\_ENDPOINT"), "{text}");
    if let Ok(endpoints) = std::env::var("HIVE_ENDPOINT") {
        assert!(!text.contains(&endpoints), "{text}");
    }
}

/// Whether a shell reads a script without running it; nothing where the machine has no such shell.
fn reads(shell: &str, script: &[u8]) -> Option<bool> {
    let mut process = Process::new(shell).arg("-n").stdin(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    process.stdin.take()?.write_all(script).ok()?;
    process.wait().ok().map(|status| status.success())
}

#[test]
fn bash_reads_its_completions() {
    let script = completions(Shell::Bash);
    assert_eq!(reads("bash", &script), Some(true), "bash is on every machine that builds Hive");
    assert_eq!(reads("bash", b"case x in"), Some(false), "a broken script is found");
    assert!(String::from_utf8_lossy(&script).contains("complete -F _hive"));
}

#[test]
fn other_shells_read_their_completions() {
    for (shell, name) in [(Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
        let script = completions(shell);
        assert!(String::from_utf8_lossy(&script).contains("hive"));
        assert_ne!(reads(name, &script), Some(false), "{name}");
    }
}
