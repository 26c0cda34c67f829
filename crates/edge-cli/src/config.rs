//! `hive config`: writes a complete node.toml, and checks one.
//!
//! Always: `init` overwrites no file; what it writes it has parsed; `check` looks at all that could refuse a node's start, and
//! changes nothing.
//! Held by: `init_overwrites_nothing`, `check_names_what_is_wrong`.
//! Not here: the template and the checks themselves (edge-node's config).

use crate::arguments::ConfigCommand;
use crate::failure::Failure;
use edge_node::config::template::{self, TemplateError};
use edge_node::config::Config;
use serde_json::json;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Runs a command on a file.
pub fn run(command: ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Init { out, set } => {
            let text = template::with(&set).map_err(|error| Failure::usage(wrong(&error)))?;
            match out {
                Some(file) => write(&file, &text),
                None => std::io::stdout().write_all(text.as_bytes()).map_err(crate::output::output_failed),
            }
        }
        ConfigCommand::Check { file, json } => check(&file, json),
    }
}

/// What a wrong `--set` says; the file that it names is none of the caller's.
fn wrong(error: &TemplateError) -> String {
    match error {
        TemplateError::Refused(refused) => format!("with these settings {refused}"),
        other => other.to_string(),
    }
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::refused(format!(
            "{} exists and stays as it is; name another file, or move it away",
            file.display()
        )),
        _ => Failure::refused(format!("{}: {error}", file.display())),
    };
    // Settings may be secrets.
    let mut made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    made.write_all(text.as_bytes()).and_then(|()| made.sync_all()).map_err(failed)?;
    println!("{} written; edit it, then run `hive config check {}`", file.display(), file.display());
    Ok(())
}

/// Checks a file as a start of the node would, and says what the node is and what to beware of.
pub fn check(file: &Path, as_json: bool) -> Result<(), Failure> {
    let checked = Config::load(file).map_err(|error| error.to_string()).and_then(|config| {
        let warnings = edge_node::check(&config).map_err(|error| error.to_string())?;
        Ok((config, warnings))
    });
    match checked {
        Ok((config, warnings)) if as_json => {
            let (world, node) = (&config.world, config.node.0);
            println!("{}", json!({"ok": true, "file": file, "world": world, "node": node, "warnings": warnings}));
            Ok(())
        }
        Ok((config, warnings)) => {
            println!("{} is in order: node {} of world {}", file.display(), config.node, config.world);
            warnings.iter().for_each(|warning| println!("! {warning}"));
            Ok(())
        }
        Err(message) => {
            if as_json {
                println!("{}", json!({"ok": false, "file": file, "error": {"message": message}}));
            }
            Err(Failure::usage(message))
        }
    }
}

#[cfg(test)]
mod tests;
