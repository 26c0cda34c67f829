//! Random numbers from the operating system: ids that no other node may ever draw, seeds, and secrets.
//!
//! Always: fails loudly where the system gives none; nothing here is derived from a clock.
//! Held by: `secrets_are_drawn_where_none_is_given`.
//! Not here: the core's own generator (it is seeded from here and deterministic from then on).

use base_types::action::{Action, Request};
use base_types::s3::{S3Action, S3ErrorCode};
use base_types::Refusal;
use std::io::Read;

/// Characters of a drawn secret key: 5 bits each, as AWS has 40.
const SECRET_CHARACTERS: usize = 40;
/// Characters of a drawn access key after its mark.
const ACCESS_KEY_CHARACTERS: usize = 16;
const SECRET_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A random number that is not zero.
pub fn draw() -> std::io::Result<u64> {
    let mut source = std::fs::File::open("/dev/urandom")?;
    let mut bytes = [0u8; 8];
    loop {
        source.read_exact(&mut bytes)?;
        let number = u64::from_le_bytes(bytes);
        if number != 0 {
            return Ok(number);
        }
    }
}

/// Fills with random bytes.
pub fn fill(bytes: &mut [u8]) -> std::io::Result<()> {
    std::fs::File::open("/dev/urandom")?.read_exact(bytes)
}

/// The secret half of an access key that nobody can guess.
pub fn secret_key() -> std::io::Result<String> {
    let mut bytes = [0u8; SECRET_CHARACTERS];
    fill(&mut bytes)?;
    let letter = |byte: &u8| char::from(SECRET_ALPHABET[usize::from(byte % 32)]);
    Ok(bytes.iter().map(letter).collect())
}

/// The public half of an S3 account's access key.
pub fn access_key() -> std::io::Result<String> {
    let mut bytes = [0u8; ACCESS_KEY_CHARACTERS];
    fill(&mut bytes)?;
    let letter = |byte: &u8| char::from(SECRET_ALPHABET[usize::from(byte % 32)].to_ascii_uppercase());
    Ok(format!("HIVE{}", bytes.iter().map(letter).collect::<String>()))
}

/// A bearer token that nobody can guess.
pub fn token() -> std::io::Result<base_access::Token> {
    let mut secret = [0u8; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(base_access::Token::new(draw()?, secret))
}

/// Draws what a request leaves to be drawn and nobody may guess: the secret of an access key. The core cannot, for
/// all it draws follows from its seed.
pub fn draw_secrets(request: &mut Request) -> Result<(), Refusal> {
    let Action::S3(S3Action::CreateAccessKey(call)) = &mut request.action else { return Ok(()) };
    if call.secret_key.is_some() {
        return Ok(());
    }
    let drawn = secret_key().map_err(|error| {
        let message = format!("the operating system gives no random numbers for a secret key: {error}; give one");
        S3ErrorCode::ServiceUnavailable.because(message)
    })?;
    call.secret_key = Some(drawn);
    Ok(())
}

/// A cheap generator for jitter (splitmix64); seeded once, one for each thread that needs it.
#[derive(Debug)]
pub struct Jitter(std::cell::Cell<u64>);

impl Jitter {
    /// From a seed.
    pub fn new(seed: u64) -> Jitter {
        Jitter(std::cell::Cell::new(seed))
    }

    /// Between half of `base` and one and a half.
    pub fn around(&self, base: std::time::Duration) -> std::time::Duration {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        base / 2 + base.mul_f64((mixed >> 11) as f64 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::s3::CreateAccessKey;

    fn drawn(given: Option<&str>) -> Option<String> {
        let secret_key = given.map(String::from);
        let call = CreateAccessKey { account: "ann".into(), access_key: None, secret_key, sealed: None };
        let mut request = Request {
            action: Action::S3(call.into()),
            consistency: None,
            read_consistency: None,
            deadline: std::time::Duration::from_secs(1),
            request_id: None,
            after: None,
            expected_bucket_owner: None,
            caller: base_types::access::Caller::Node,
        };
        draw_secrets(&mut request).unwrap();
        match request.action {
            Action::S3(S3Action::CreateAccessKey(call)) => call.secret_key,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn secrets_are_drawn_where_none_is_given() {
        let (one, two) = (drawn(None).unwrap(), drawn(None).unwrap());
        assert!(one != two && one.len() == SECRET_CHARACTERS);
        assert_eq!(drawn(Some("mine")).as_deref(), Some("mine"));
    }
}
