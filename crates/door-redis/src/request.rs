//! Requests out of bytes: RESP arrays of bulk strings, and inline commands.
//!
//! A parser of our own: requests are flat, so it needs no stack, allocates only for bytes that are there, and gives the texts of errors
//! that Redis gives, which its tests compare. (`redis-protocol` overflows the stack on nested requests; `resp-rs` takes no inline commands.)
//!
//! Always: what is announced allocates nothing; a request is read the same however it is cut into pieces.
//! Held by: `announcements_allocate_nothing`, `pieces_of_any_size_give_the_same_commands`.
//! Not here: what a command means.

use crate::limits::*;
use bytes::{Buf, Bytes, BytesMut};

/// Why a connection ends: the text of the error that is its last answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProtocolError(pub String);

fn broken<T>(text: impl Into<String>) -> Result<T, ProtocolError> {
    Err(ProtocolError(format!("ERR Protocol error: {}", text.into())))
}

/// The words of a command, its name first. Never empty.
pub type Words = Vec<Bytes>;

/// A command that is not whole yet.
#[derive(Debug, Default)]
struct Partial {
    /// Words that are still to come.
    missing: usize,
    words: Words,
    bytes: usize,
    /// The length of the word that is being read.
    length: Option<usize>,
}

/// What of a connection has been read and not been taken.
#[derive(Debug, Default)]
pub struct Parser {
    bytes: BytesMut,
    partial: Option<Partial>,
    /// Where in `bytes` the search for the end of a line continues.
    searched: usize,
    /// The client has not said who it is, though the node wants to know.
    strict: bool,
}

impl Parser {
    /// Where what is read goes.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Before a read: little for a connection that may be idle, more where a long command is on its way.
    pub fn make_room(&mut self) {
        self.bytes.reserve(if self.held() > READ_BYTES_IDLE { READ_BYTES } else { READ_BYTES_IDLE });
    }

    /// Whether the bounds are those before authentication.
    pub fn set_strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// Bytes that are held of commands that are not whole.
    pub fn held(&self) -> usize {
        self.bytes.len() + self.partial.as_ref().map_or(0, |partial| partial.bytes)
    }

    /// The next command, if it is whole. Empty lines and empty arrays are passed over, as Redis does.
    pub fn next(&mut self) -> Result<Option<Words>, ProtocolError> {
        loop {
            if self.partial.is_none() {
                match self.bytes.first() {
                    None => return Ok(None),
                    Some(b'*') => {
                        let Some(line) = self.line("too big mbulk count string")? else { return Ok(None) };
                        let missing = self.count(&line)?;
                        if missing == 0 {
                            continue;
                        }
                        self.partial = Some(Partial { missing, ..Partial::default() });
                    }
                    Some(_) => {
                        let Some(line) = self.line("too big inline request")? else { return Ok(None) };
                        let words = split(&line)?;
                        if words.is_empty() {
                            continue;
                        }
                        return Ok(Some(words));
                    }
                }
            }
            return self.words();
        }
    }

    /// Continues with the words of an array.
    fn words(&mut self) -> Result<Option<Words>, ProtocolError> {
        let Some(mut partial) = self.partial.take() else { return Ok(None) };
        while partial.missing > 0 {
            let length = match partial.length {
                Some(length) => length,
                None => {
                    if let Some(first) = self.bytes.first().filter(|first| **first != b'$') {
                        return broken(format!("expected '$', got '{}'", *first as char));
                    }
                    let Some(line) = self.line("too big bulk count string")? else {
                        self.partial = Some(partial);
                        return Ok(None);
                    };
                    let length = self.length(&line)?;
                    partial.bytes += length;
                    if partial.bytes > COMMAND_BYTES_MAX {
                        return broken(format!("the command has more than {COMMAND_BYTES_MAX} bytes"));
                    }
                    length
                }
            };
            if self.bytes.len() < length + 2 {
                partial.length = Some(length);
                self.partial = Some(partial);
                return Ok(None);
            }
            partial.words.push(self.bytes.split_to(length).freeze());
            self.bytes.advance(2);
            partial.length = None;
            partial.missing -= 1;
        }
        Ok(Some(partial.words))
    }

    /// A line without its end, if it is whole.
    fn line(&mut self, too_long: &str) -> Result<Option<Bytes>, ProtocolError> {
        let Some(at) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            if self.bytes.len() > LINE_BYTES_MAX {
                return broken(too_long);
            }
            self.searched = self.bytes.len();
            return Ok(None);
        };
        let mut line = self.bytes.split_to(self.searched + at + 1).freeze();
        self.searched = 0;
        if line.len() > LINE_BYTES_MAX {
            return broken(too_long);
        }
        line.truncate(line.len() - 1);
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        Ok(Some(line))
    }

    /// Of `*n`: how many words follow; none or fewer: nothing does.
    fn count(&self, line: &[u8]) -> Result<usize, ProtocolError> {
        let Some(count) = integer(&line[1..]) else { return broken("invalid multibulk length") };
        if self.strict && count > WORDS_BEFORE_AUTH_MAX as i64 {
            return broken("unauthenticated multibulk length");
        }
        match usize::try_from(count) {
            Ok(count) if count > WORDS_MAX => broken("invalid multibulk length"),
            Ok(count) => Ok(count),
            Err(_) => Ok(0),
        }
    }

    /// Of `$n`.
    fn length(&self, line: &[u8]) -> Result<usize, ProtocolError> {
        let length = integer(&line[1..]).and_then(|length| usize::try_from(length).ok());
        match length.filter(|length| *length <= WORD_BYTES_MAX) {
            None => broken("invalid bulk length"),
            Some(length) if self.strict && length > WORD_BYTES_BEFORE_AUTH_MAX => broken("unauthenticated bulk length"),
            Some(length) => Ok(length),
        }
    }
}

fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The words of an inline command: as a shell has them, with `"…"` and `'…'`.
fn split(line: &[u8]) -> Result<Words, ProtocolError> {
    let (mut words, mut rest) = (Vec::new(), line);
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let (word, left) = word(rest)?;
        words.push(word);
        rest = left;
    }
}

fn word(line: &[u8]) -> Result<(Bytes, &[u8]), ProtocolError> {
    let unbalanced = || broken("unbalanced quotes in request");
    let (mut word, mut rest) = (Vec::new(), line);
    while let Some((first, left)) = rest.split_first() {
        match first {
            b' ' | b'\t' | b'\n' | b'\r' | 0 => break,
            b'"' | b'\'' => {
                let Some((text, left)) = quoted(*first, left) else { return unbalanced() };
                word.extend_from_slice(&text);
                // What follows a closing quote is a space or the end.
                if left.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                    return unbalanced();
                }
                rest = left;
                break;
            }
            other => {
                word.push(*other);
                rest = left;
            }
        }
    }
    // A zero byte ends the line, as in Redis.
    let rest = if rest.first() == Some(&0) { &[][..] } else { rest };
    Ok((word.into(), rest))
}

/// Up to the closing quote; none: there is none.
fn quoted(quote: u8, text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut out, mut at) = (Vec::new(), 0);
    loop {
        match (*text.get(at)?, text.get(at + 1)) {
            (byte, _) if byte == quote => return Some((out, text.get(at + 1..)?)),
            (b'\\', Some(b'x')) if quote == b'"' => match text.get(at + 2..at + 4).and_then(hex) {
                Some(byte) => {
                    out.push(byte);
                    at += 4;
                }
                None => {
                    out.push(b'x');
                    at += 2;
                }
            },
            (b'\\', Some(next)) if quote == b'"' => {
                out.push(match next {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            (b'\\', Some(b'\'')) => {
                out.push(b'\'');
                at += 2;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    match digits {
        [high, low] => Some(digit(high)? * 16 + digit(low)?),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
