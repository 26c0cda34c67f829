//! The engines of this binary: what `hive --version --engines` says, and what the command line offers where it takes an
//! engine's name.
//!
//! Always: an engine that is not in this binary is offered neither by a help text nor by completions; who names one is
//! told which there are, and how to build the other.
//! Held by: `no_help_or_completion_offers_an_engine_that_is_not_here`, `an_engine_that_is_not_here_is_refused_by_name`.
//! Not here: which engines nodes of a world offer (they answer that themselves), how one is opened (edge-node).

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use edge_node::config::EngineSection;
use edge_node::engines::{elsewhere, remedy, NAMES};
use serde_json::json;
use std::ffi::{OsStr, OsString};

/// What `--engines` prints.
pub fn report(as_json: bool) -> String {
    let (version, default) = (env!("CARGO_PKG_VERSION"), EngineSection::default().default);
    let missing = elsewhere();
    if as_json {
        let all = json!({"version": version, "engines": NAMES, "default": default, "not_in_this_binary": missing});
        return format!("{all}\n");
    }
    let mut out = format!("hive {version}\nengines: {} (default: {default})\n", NAMES.join(", "));
    if !missing.is_empty() {
        let build = missing.join(",");
        out.push_str(&format!("not in this binary: {} (make build ENGINES={build})\n", missing.join(", ")));
    }
    out
}

/// The process's arguments as clap is to read them: `--version` beside `--engines` goes, because clap answers
/// `--version` as soon as it meets it.
pub fn without_version(line: Vec<OsString>) -> Vec<OsString> {
    let options = line.get(1..).unwrap_or_default().iter().take_while(|word| word.as_encoded_bytes().starts_with(b"-"));
    let options = options.count();
    if !line.iter().skip(1).take(options).any(|word| word == "--engines") {
        return line;
    }
    let of_version =
        |place: usize, word: &OsStr| (1..=options).contains(&place) && (word == "--version" || word == "-V");
    let kept = line.into_iter().enumerate().filter(|(place, word)| !of_version(*place, word));
    kept.map(|(_, word)| word).collect()
}

/// The help of an engine that nodes are to use: theirs may be other builds, so every name is taken.
pub fn help_of_nodes(what: &str) -> String {
    format!("{what}: one that the nodes offer; this binary has {}", NAMES.join(", "))
}

/// An engine's name on the command line.
#[derive(Clone)]
pub enum EngineName {
    /// Of this binary, because it runs the engine.
    Here,
    /// Of the nodes that are asked; completed with those of this binary.
    OfNodes,
}

impl TypedValueParser for EngineName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        let refuse = |message: String| Err(command.clone().error(ErrorKind::InvalidValue, message));
        let Some(name) = value.to_str() else { return refuse("the engine's name is not UTF-8".into()) };
        match self {
            EngineName::Here if !NAMES.contains(&name) => {
                refuse(format!("engine '{}' is not in this binary; {}", name.escape_debug(), remedy(name)))
            }
            _ => Ok(name.into()),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(NAMES.iter().map(PossibleValue::new)))
    }
}

/// The command line without commands that are hidden: what completions are made of. clap_complete offers those, too.
pub fn shown(all: &clap::Command) -> clap::Command {
    let mut shown = clap::Command::new("hive").version(env!("CARGO_PKG_VERSION")).propagate_version(true);
    shown = shown.args(all.get_arguments());
    if let Some(about) = all.get_about() {
        shown = shown.about(about.clone());
    }
    shown.subcommands(all.get_subcommands().filter(|command| !command.is_hide_set()))
}

#[cfg(test)]
mod tests;
