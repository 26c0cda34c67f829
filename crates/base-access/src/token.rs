//! Bearer tokens: `hive_<id>_<secret>`.
//!
//! Always: the directory keeps the hash of the secret, never the secret; hashes are compared in constant time; a token's text
//! never appears in `Debug` (`tests::debug_shows_no_secret`).
//! Not here: where randomness comes from (the edge draws).

use core::fmt;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const MARK: &str = "hive_";
const ID_DIGITS: usize = 16;
const SECRET_DIGITS: usize = 64;
/// The length of a token's text.
pub const TOKEN_BYTES: usize = MARK.len() + ID_DIGITS + 1 + SECRET_DIGITS;

/// A token as a client has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Names it in the directory, in lists and in logs.
    pub id: u64,
    secret: [u8; 32],
}

/// What the directory keeps of a token's secret: SHA-256 of 256 random bits, which needs no stretching.
#[derive(Clone, Copy, Debug)]
pub struct TokenHash([u8; 32]);

impl Token {
    /// Of random bytes.
    pub fn new(id: u64, secret: [u8; 32]) -> Token {
        Token { id, secret }
    }

    /// Out of its text; `None`: it is none.
    pub fn parse(text: &str) -> Option<Token> {
        let rest = text.strip_prefix(MARK).filter(|_| text.len() == TOKEN_BYTES && text.is_ascii())?;
        let (id, secret) = rest.split_once('_').filter(|(id, _)| id.len() == ID_DIGITS)?;
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = hexadecimal(&secret[2 * at..2 * at + 2])? as u8;
        }
        Some(Token { id: hexadecimal(id)?, secret: bytes })
    }

    /// The text that a client sends. Shown once.
    pub fn reveal(&self) -> String {
        let mut text = format!("{MARK}{:016x}_", self.id);
        for byte in self.secret {
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }

    /// What the directory keeps.
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.secret).into())
    }
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let legal = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    u64::from_str_radix(digits, 16).ok().filter(|_| legal)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:016x}, …)", self.id)
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &TokenHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenHash {}

impl TokenHash {
    /// Out of its hexadecimal text.
    pub fn parse(text: &str) -> Option<TokenHash> {
        let mut bytes = [0; 32];
        if text.len() != SECRET_DIGITS || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = hexadecimal(&text[2 * at..2 * at + 2])? as u8;
        }
        Some(TokenHash(bytes))
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back() {
        let token = Token::new(0xab, [7; 32]);
        let text = token.reveal();
        assert_eq!(text.len(), TOKEN_BYTES);
        assert_eq!(Token::parse(&text), Some(token.clone()));
        assert_eq!(TokenHash::parse(&token.hash().to_string()), Some(token.hash()));
        let upper = text.replace("00ab", "00AB");
        for bad in ["", "hive_", &text[1..], &upper, &format!("{text}0"), &text.replace('7', "g"), "hive_é"] {
            assert_eq!(Token::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let token = Token::new(1, [0xee; 32]);
        assert!(!format!("{token:?}").contains("ee"));
    }
}
