//! `hive man` and `hive completions`: what packages install beside the binary, made of the command line itself.
//!
//! Always: every command that `--help` shows has a page, named as the command with hyphens (`hive-ctl-status.1`); the same
//! binary writes the same bytes each time, whatever the environment holds.
//! Held by: `every_command_has_a_manual_page`, `manual_pages_do_not_depend_on_the_environment`, `bash_reads_its_completions`.
//! Not here: the words of each command (`arguments`).

use crate::arguments::Arguments;
use crate::engines;
use crate::failure::Failure;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::Path;

/// At the end of each page: exit codes are a promise (lib.rs).
const EXIT_STATUS: &str = "\
.SH \"EXIT STATUS\"
.TS
tab(|);
l l.
0|done
1|refused; the message says why
2|wrong usage, or a wrong configuration file
3|unavailable: nothing answers, or no leader; retry
4|outcome unknown: a write may have happened; read before you retry
.TE
";

/// A page: the name of its file, and its text for man(1).
struct Page {
    file: String,
    text: Vec<u8>,
}

/// Prints the completions of a shell.
pub fn print_completions(shell: Shell) {
    print!("{}", String::from_utf8_lossy(&completions(shell)));
}

fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut engines::shown(&Arguments::command()), "hive", &mut script);
    script
}

/// Writes every page into a directory, which it makes if it is absent.
pub fn write(out: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::refused(format!("{}: {error}", out.display()));
    std::fs::create_dir_all(out).map_err(failed)?;
    let pages = pages().map_err(failed)?;
    for page in &pages {
        std::fs::write(out.join(&page.file), &page.text).map_err(failed)?;
    }
    println!(
        "{} manual pages in {}; read one with `man -l {}`",
        pages.len(),
        out.display(),
        out.join("hive.1").display()
    );
    Ok(())
}

fn pages() -> std::io::Result<Vec<Page>> {
    // `hive help ctl` is `hive ctl --help`; it needs no page.
    let mut all = engines::shown(&Arguments::command()).disable_help_subcommand(true);
    all.build();
    let mut pages = Vec::new();
    add_pages(&all, &mut pages)?;
    Ok(pages)
}

/// The page of a command, and those of the commands under it.
fn add_pages(command: &Command, pages: &mut Vec<Page>) -> std::io::Result<()> {
    let man = Man::new(command.clone()).source(format!("hive {}", env!("CARGO_PKG_VERSION"))).manual("Hive");
    let mut text = Vec::from("'\\\" t\n");
    man.render(&mut text)?;
    text.extend_from_slice(EXIT_STATUS.as_bytes());
    pages.push(Page { file: man.get_filename(), text });
    command.get_subcommands().filter(|under| !under.is_hide_set()).try_for_each(|under| add_pages(under, pages))
}

#[cfg(test)]
mod tests;
