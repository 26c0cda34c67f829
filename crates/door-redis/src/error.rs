//! Refusals of the node as Redis' clients know errors: a word that says what to do, and a text.
//!
//! By design: what Redis says itself (texts that begin with its own word) is passed on to the letter. `TRYAGAIN` is for what may be sent
//! again at once; a write whose outcome is not known says so.
//! Not here: errors of commands, which are replies of the database.

use base_types::redis::RedisReply;
use base_types::{ErrorKind, Outcome, Refusal};

/// The answer to a client that has not said who it is.
pub const NO_AUTH: &str = "NOAUTH Authentication required.";
/// The answer where the name or the password is wrong.
pub const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// An error reply.
pub fn error(text: impl Into<String>) -> RedisReply {
    RedisReply::Error(text.into())
}

/// As Redis says it, where it is Redis' own.
fn is_redis_text(message: &str) -> bool {
    ["ERR ", "WRONGTYPE ", "EXECABORT ", "CROSSSLOT "].iter().any(|word| message.starts_with(word))
}

/// What a refusal is answered with; `write`: what was asked might change something.
pub fn of_refusal(refusal: &Refusal, write: bool) -> RedisReply {
    let (code, message) = (refusal.code.as_str(), &refusal.message);
    if is_redis_text(message) {
        return error(message.clone());
    }
    if write && refusal.outcome() == Outcome::Unknown {
        return error(format!(
            "ERR outcome unknown: the write may have been done or not; read before you repeat it ({code}: {message})"
        ));
    }
    let word = match refusal.kind() {
        ErrorKind::Unauthenticated => return error(NO_AUTH),
        ErrorKind::Forbidden => "NOPERM",
        ErrorKind::Unavailable | ErrorKind::Conflict => "TRYAGAIN",
        ErrorKind::Overloaded => "BUSY",
        ErrorKind::Full => "OOM",
        _ => "ERR",
    };
    error(format!("{word} {code}: {message}"))
}

/// What Redis says of a command that it does not know.
pub fn unknown_command(words: &[bytes::Bytes]) -> RedisReply {
    let shown = |word: &[u8], most: usize| String::from_utf8_lossy(&word[..word.len().min(most)]).into_owned();
    let mut text = format!(
        "ERR unknown command '{}', with args beginning with: ",
        words.first().map_or(String::new(), |name| shown(name, 128))
    );
    for word in words.iter().skip(1).take(10) {
        text.push_str(&format!("'{}' ", shown(word, 64)));
    }
    error(text)
}

/// What Redis says where words are missing, or too many.
pub fn wrong_count(name: &str) -> RedisReply {
    error(format!("ERR wrong number of arguments for '{name}' command"))
}

/// What Redis says of a second word that it does not know.
pub fn unknown_subcommand(command: &str, word: &[u8]) -> RedisReply {
    let word = String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    error(format!("ERR unknown subcommand '{word}'. Try {command} HELP."))
}
