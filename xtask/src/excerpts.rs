//! Code that a document shows is code of the workspace: a block after `<!-- from FILE -->` is made of lines of that file.
//!
//! Always: lines follow each other as in the file, but for indentation; a line `…` stands for any lines that are left out.
//! Every block of Rust or TOML in docs/contributing names its file: those files are compiled, or run by a test.
//! Not here: whether the file is tested.

use crate::files_of;
use anyhow::Result;
use std::fs;
use std::path::Path;

/// What begins the line that names a block's file.
const FROM: &str = "<!-- from ";
/// What stands for lines that are left out, alone in its line (or after a mark of a comment).
const GAP: &str = "…";
/// The pages in which no code may stand that is nowhere else.
const WORKED_EXAMPLES: &str = "docs/contributing";

/// A block of code.
struct Block<'t> {
    /// Its first line, from 1.
    number: usize,
    language: &'t str,
    from: Option<&'t str>,
    lines: Vec<&'t str>,
}

/// Checks every document.
pub fn check(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    for page in files_of(&root.join("docs"), "md")? {
        let shown = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        for block in blocks(&fs::read_to_string(&page)?) {
            let at = format!("{shown}:{}", block.number);
            match block.from {
                None if shown.starts_with(WORKED_EXAMPLES) && ["rust", "toml"].contains(&block.language) => {
                    findings.push(format!("{at}: this code is in no file: move it to one that a test compiles, and write `{FROM}FILE -->` above"));
                }
                None => {}
                Some(file) => match fs::read_to_string(root.join(file)) {
                    Err(error) => findings.push(format!("{at}: {file}: {error}")),
                    Ok(text) => {
                        if let Some(line) = first_missing(&block.lines, &text) {
                            findings
                                .push(format!("{at}: {file} has no such line here: {line}: copy the lines of today"));
                        }
                    }
                },
            }
        }
    }
    Ok(())
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found: Vec<Block> = Vec::new();
    let (mut open, mut from) = (false, None);
    for (number, line) in page.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            open = !open;
            if open {
                found.push(Block { number: number + 2, language, from: from.take(), lines: Vec::new() });
            }
        } else if let Some(block) = found.last_mut().filter(|_| open) {
            block.lines.push(line);
        } else if !line.trim().is_empty() {
            from = line.strip_prefix(FROM).and_then(|rest| rest.strip_suffix(" -->"));
        }
    }
    found
}

fn is_gap(line: &str) -> bool {
    line.trim_start_matches([' ', '/', '#']) == GAP
}

/// The first line of the first run that the file does not have after the runs before it.
fn first_missing<'b>(block: &[&'b str], file: &str) -> Option<&'b str> {
    let file: Vec<&str> = file.lines().map(str::trim).collect();
    let mut after = 0;
    for run in block.split(|line| is_gap(line)).filter(|run| !run.is_empty()) {
        let wanted: Vec<&str> = run.iter().map(|line| line.trim()).collect();
        match file[after..].windows(wanted.len()).position(|lines| lines == wanted) {
            Some(place) => after += place + wanted.len(),
            None => return Some(farthest(&wanted, run, &file[after..])),
        }
    }
    None
}

/// Where the longest beginning of a run ends that the file has: the line to look at.
fn farthest<'b>(wanted: &[&str], run: &[&'b str], file: &[&str]) -> &'b str {
    let begins = |at: usize| file[at..].iter().zip(wanted).take_while(|(line, wanted)| line == wanted).count();
    let most = (0..file.len()).map(begins).max().unwrap_or(0);
    run[most.min(run.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "//! A file.\n\nfn a() {\n    one();\n    two();\n}\n\nfn b() {}\n";

    #[test]
    fn lines_of_the_file_pass_whatever_their_indentation() {
        assert_eq!(first_missing(&["one();", "two();"], FILE), None);
        assert_eq!(first_missing(&["fn a() {", "    // …", "}", "…", "fn b() {}"], FILE), None);
    }

    #[test]
    fn other_lines_and_other_orders_do_not() {
        assert_eq!(first_missing(&["fn a() {", "    one();", "    three();"], FILE), Some("    three();"));
        assert_eq!(first_missing(&["fn a() {", "two();"], FILE), Some("two();"), "a line between is left out unsaid");
        assert_eq!(first_missing(&["fn b() {}", "…", "fn a() {"], FILE), Some("fn a() {"));
    }

    #[test]
    fn a_block_knows_its_file() {
        let page = "Text.\n\n<!-- from a.rs -->\n\n```rust\nfn a() {}\n```\n\n```toml\nx = 1\n```\n";
        let found = blocks(page);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].from, &found[0].lines[..], found[0].number), (Some("a.rs"), &["fn a() {}"][..], 6));
        assert_eq!((found[1].from, found[1].language), (None, "toml"));
    }
}
