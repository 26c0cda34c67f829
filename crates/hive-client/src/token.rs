//! Who asks.
//!
//! Not here: how a node proves it.

/// A bearer token. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Of its text, `hive_…`.
    pub fn new(text: impl Into<String>) -> Token {
        Token(text.into())
    }

    /// What the header `Authorization` says.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}
