//! Which values are secrets, and where they may stand: in files that only their owner reads, and in the environment.
//!
//! Always: a `node.toml` with a secret that others than its owner can reach refuses the start.
//! Held by: `file_with_secret_that_others_read_is_refused`.
//! Not here: keys of certificates (`check.rs` looks at their files' modes).

use super::check::Checker;
use super::{ConfigError, NodeFile};
use std::os::unix::fs::PermissionsExt;

/// Whether an option of this name holds a secret, by the names of object stores.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let named = ["secret", "token", "password", "sas", "credential"].iter().any(|word| name.contains(word));
    let key = name.ends_with("_key") || name.ends_with("_key_base64") || name == "key";
    let elsewhere = name.ends_with("_file") || name.ends_with("_path") || name.ends_with("_uri");
    (named || key) && !elsewhere
}

/// Whether a URL carries a user's password, or a signature.
pub fn has_secret(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let authority = rest.split(['/', '?']).next().unwrap_or("");
    authority.contains('@') || rest.contains("sig=") || rest.contains("Signature=")
}

/// Looks at the file's mode where it holds a secret.
pub(super) fn check(checker: &Checker<'_>, file: &NodeFile) -> Result<(), ConfigError> {
    let Some(secret) = first(file) else { return Ok(()) };
    // A text that is no file (yet) has no mode.
    let Ok(found) = std::fs::metadata(checker.path()) else { return Ok(()) };
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    checker.refuse(
        format!("the file has mode {mode:04o} and holds a secret, {secret}: others than its owner can reach it"),
        &format!("run `chmod 600 {}`, or leave the secret to the environment", checker.path().display()),
    )
}

fn first(file: &NodeFile) -> Option<String> {
    let s3 = file.s3.iter().flat_map(|s3| s3.data_options.keys()).map(|name| ("s3.data_options", name));
    let object = file.engine.object.options.keys().map(|name| ("engine.object.options", name));
    let option = s3.chain(object).find(|(_, name)| is_secret(name));
    let data = file.s3.as_ref().is_some_and(|s3| has_secret(&s3.data)).then(|| "s3.data".to_owned());
    let url = has_secret(&file.engine.object.url).then(|| "engine.object.url".to_owned());
    option.map(|(section, name)| format!("{section}.{name}")).or(data).or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_their_names() {
        let secrets = "secret_access_key aws_secret_access_key AWS_SESSION_TOKEN azure_storage_account_key access_key \
                       azure_storage_sas_token client_secret google_service_account_key password";
        for name in secrets.split_whitespace() {
            assert!(is_secret(name), "{name}");
        }
        let others =
            "endpoint region access_key_id aws_access_key_id client_id allow_http virtual_hosted_style_request \
                      web_identity_token_file aws_sse_kms_key_id service_account_path bucket_key_enabled";
        for name in others.split_whitespace() {
            assert!(!is_secret(name), "{name}");
        }
        assert!(has_secret("s3://user:password@host/bucket") && has_secret("https://x/y?sv=1&sig=abc"));
        assert!(!has_secret("s3://bucket/prefix@1") && !has_secret("/data/a@b") && !has_secret("file:///a"));
    }
}
