//! What commands print: tables for people, JSON for machines; and the client they speak through.

use crate::arguments::{Levels, World};
use crate::failure::Failure;
use comfy_table::{ContentArrangement, Table, TableStyle};
use hive_client::{Client, ClientError, ErrorCode, Options, Token};
use serde_json::Value;
use std::io::Read;
use std::time::Duration;

/// A client of the world the arguments name.
pub fn client(world: &World, levels: &Levels) -> Result<Client, Failure> {
    let options = Options {
        consistency: levels.consistency.clone(),
        read_consistency: levels.read_consistency.clone(),
        after: None,
        deadline: Some(Duration::from_millis(world.deadline_ms)),
        token: token(world)?,
    };
    Ok(client_of(world, &world.endpoints)?.with_options(options))
}

/// A client of other endpoints of the same world.
pub fn client_of<S: AsRef<str>>(world: &World, endpoints: &[S]) -> Result<Client, Failure> {
    Ok(match world.tls.read()? {
        Some(tls) => Client::with_tls(endpoints, &tls)?,
        None => Client::new(endpoints)?,
    })
}

/// The bearer token to show: out of a file, or the environment.
fn token(world: &World) -> Result<Option<Token>, Failure> {
    // Longer than the longest token of an OIDC issuer that a node takes.
    const TOKEN_BYTES_MAX: u64 = 20 << 10;
    let Some(file) = &world.token_file else {
        let text = std::env::var("HIVE_TOKEN").ok().filter(|text| !text.trim().is_empty());
        return Ok(text.map(|text| Token::new(text.trim())));
    };
    let mut text = String::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
    Ok(Some(Token::new(text.trim())))
}

/// Asks for an action. With `--json` a refusal's own JSON goes to standard output too.
pub async fn ask(client: &Client, world: &World, body: Value) -> Result<Value, Failure> {
    client.action(body).await.map_err(|error| failed(world.json, error))
}

/// A client's error as a command's failure.
pub fn failed(json: bool, error: ClientError) -> Failure {
    if json {
        match &error {
            ClientError::Refused { answer, .. } => println!("{answer}"),
            other => {
                let outcome = if other.exit_code() == 4 { "unknown" } else { "not_applied" };
                let code = if other.exit_code() == 4 { ErrorCode::OutcomeUnknown.as_str() } else { "Unavailable" };
                let error = serde_json::json!({"code": code, "message": other.to_string(), "retryable": true, "outcome": outcome});
                println!("{}", serde_json::json!({"ok": false, "error": error}));
            }
        }
    }
    error.into()
}

/// Standard output that cannot be written. A reader that has seen enough (`| head`) is no failure.
pub fn output_failed(error: std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure { code: 0, message: String::new() },
        _ => Failure::refused(format!("standard output: {error}")),
    }
}

/// A table without frames, as wide as the terminal.
pub fn table<const N: usize>(heads: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Dynamic).set_header(heads);
    table
}

/// A JSON value as a cell: text without quotes, `-` for nothing.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        other => other.to_string(),
    }
}

/// Seconds as people say them.
pub fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0..=119 => format!("{:.1} s", duration.as_secs_f64()),
        more => format!("{} min {} s", more / 60, more % 60),
    }
}

/// The items of a list field; none where it is absent.
pub fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}
