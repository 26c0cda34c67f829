//! What is mended of an answer's document after `s3s` wrote it: characters that XML has no way to write, the quotes of one ETag
//! and of refusals.
//!
//! By design: listings never need it (they encode what XML cannot write, `gateway/listings.rs`); elsewhere such a character of a key is
//! shown as U+FFFD, for no client reads the document otherwise.
//! Held by: `every_document_can_be_read`, `answers_carry_what_tools_look_for`.

use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{Response, Uri};
use s3s::Body;

/// Whether XML 1.0 has a way to write a character that comes back the same.
pub fn is_odd(character: char) -> bool {
    matches!(character, '\0'..='\x08' | '\x0b'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

/// Mends the document of an answer, if it is one and needs it.
pub fn mend(uri: &Uri, response: &mut Response<Body>) {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if kind != "application/xml" {
        return;
    }
    let Some(written) = response.body().bytes() else { return };
    let Ok(text) = std::str::from_utf8(&written) else { return };
    let succeeded = response.status().is_success();
    let (unquote, quote) = (succeeded && asks_attributes(uri), !succeeded && text.contains("&quot;"));
    // Most need nothing, and listings are long.
    if !unquote && !quote && !text.contains(is_odd) {
        return;
    }
    let mut text = text.replace(is_odd, "\u{fffd}");
    if unquote {
        text = text.replace("<ETag>\"", "<ETag>").replace("\"</ETag>", "</ETag>");
    }
    if quote {
        // Quotes need no escape here, and tools look for them as S3 writes them.
        text = text.replace("&quot;", "\"");
    }
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(text);
}

fn asks_attributes(uri: &Uri) -> bool {
    uri.query().unwrap_or("").split('&').any(|pair| pair.split('=').next() == Some("attributes"))
}
