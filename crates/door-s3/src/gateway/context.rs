//! What a request says of itself, for the conditions of policies.
//!
//! Always: a condition sees what the call will do. Names in a query are read as the call reads them; what a call takes out of
//! its document comes from there, whatever the headers say ([`for_tags`], [`for_retention`], [`for_legal_hold`]).
//! Not here: which keys there are, how they are compared (`access/condition.rs`), whose request it is.

use super::{now_ms, Peer};
use crate::access::{Caller, Context};
use crate::convert;
use crate::form::{signing_time, Upload};
use crate::validate::{self, percent_decoded};
use base_types::s3::{Retention, Tag};
use hyper::header::{HeaderMap, AUTHORIZATION};
use hyper::http::Extensions;
use hyper::Uri;

/// Headers that are keys as they are.
const HEADERS: [(&str, &str); 17] = [
    ("if-match", "s3:if-match"),
    ("if-none-match", "s3:if-none-match"),
    ("referer", "aws:Referer"),
    ("user-agent", "aws:UserAgent"),
    ("x-amz-acl", "s3:x-amz-acl"),
    ("x-amz-content-sha256", "s3:x-amz-content-sha256"),
    ("x-amz-copy-source", "s3:x-amz-copy-source"),
    ("x-amz-grant-full-control", "s3:x-amz-grant-full-control"),
    ("x-amz-grant-read", "s3:x-amz-grant-read"),
    ("x-amz-grant-read-acp", "s3:x-amz-grant-read-acp"),
    ("x-amz-grant-write", "s3:x-amz-grant-write"),
    ("x-amz-grant-write-acp", "s3:x-amz-grant-write-acp"),
    ("x-amz-metadata-directive", "s3:x-amz-metadata-directive"),
    ("x-amz-object-lock-legal-hold", LEGAL_HOLD),
    ("x-amz-server-side-encryption", "s3:x-amz-server-side-encryption"),
    ("x-amz-storage-class", "s3:x-amz-storage-class"),
    ("x-amz-website-redirect-location", "s3:x-amz-website-redirect-location"),
];
/// Parameters of a query that are keys.
const PARAMETERS: [(&str, &str); 4] = [
    ("delimiter", "s3:delimiter"),
    ("max-keys", "s3:max-keys"),
    ("prefix", "s3:prefix"),
    ("versionId", "s3:VersionId"),
];
const LEGAL_HOLD: &str = "s3:object-lock-legal-hold";
/// What the keys of a retention begin with; its mode and its end.
const RETENTION: [&str; 3] = ["s3:object-lock-re", "s3:object-lock-mode", "s3:object-lock-retain-until-date"];
/// What the keys of a request's tags begin with.
const REQUEST_TAGS: &str = "s3:requestobjecttag";
const DAY_MS: u64 = 24 * 3600 * 1000;

/// What a request says of itself before its body.
pub(super) struct Head<'a> {
    credentials: Option<&'a str>,
    pub headers: &'a HeaderMap,
    pub uri: &'a Uri,
    peer: Option<Peer>,
    by_form: Option<&'a Upload>,
}

impl<'a> Head<'a> {
    pub fn of(
        credentials: Option<&'a str>,
        headers: &'a HeaderMap,
        uri: &'a Uri,
        extensions: &'a Extensions,
    ) -> Head<'a> {
        Head { credentials, headers, uri, peer: extensions.get::<Peer>().copied(), by_form: extensions.get::<Upload>() }
    }

    /// The key that signed the request, or the form that it was.
    pub fn access_key(&self) -> Option<&'a str> {
        self.credentials.or(self.by_form.and_then(|form| form.access_key.as_deref()))
    }

    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// What conditions may test, out of headers and query.
pub(super) fn context_of(request: &Head<'_>, caller: &Caller) -> Context {
    let mut context = Context::default();
    let now = now_ms();
    set_caller(caller, &mut context);
    context.set("aws:CurrentTime", (now / 1000).to_string());
    context.set("aws:EpochTime", (now / 1000).to_string());
    if let Some(peer) = request.peer {
        context.set("aws:SourceIp", peer.address.to_string());
    }
    context.set("aws:SecureTransport", request.peer.is_some_and(|peer| peer.secure).to_string());
    for (header, key) in HEADERS {
        if let Some(value) = request.header(header) {
            context.set(key, value);
        }
    }
    set_lock_headers(request, now, &mut context);
    let copied = request.headers.contains_key("x-amz-copy-source")
        && request.header("x-amz-tagging-directive").is_none_or(|word| word != "REPLACE");
    // A copy that keeps the tags of its source takes none of its header's.
    if let Some(header) = request.header("x-amz-tagging").filter(|_| !copied) {
        for_tags(&mut context, &validate::tagging_header(header).unwrap_or_default());
    }
    set_query(request, now, &mut context);
    context
}

fn set_caller(caller: &Caller, context: &mut Context) {
    // No service of AWS asks on anybody's behalf.
    context.set("aws:PrincipalIsAWSService", "false");
    context.set("aws:ViaAWSService", "false");
    context.set("aws:PrincipalType", if *caller == Caller::Anonymous { "Anonymous" } else { "Account" });
    if let Some(account) = caller.account() {
        context.set("aws:PrincipalArn", format!("arn:aws:iam::{account}:root"));
        for key in ["aws:PrincipalAccount", "aws:userid", "aws:username"] {
            context.set(key, account);
        }
    }
    // A user's account is a number; policies know the user by its name, too.
    if let Some(identity) = caller.identity() {
        context.set("aws:username", &*identity.user);
    }
}

fn set_lock_headers(request: &Head<'_>, now: u64, context: &mut Context) {
    if let Some(mode) = request.header("x-amz-object-lock-mode") {
        context.set(RETENTION[1], mode);
    }
    if let Some(until) = request.header("x-amz-object-lock-retain-until-date") {
        context.set(RETENTION[2], until);
        let time = s3s::dto::Timestamp::parse(s3s::dto::TimestampFormat::DateTime, until);
        if let Ok(time) = time {
            set_days_left(crate::times::millis(&time), now, context);
        }
    }
}

fn set_days_left(until_ms: u64, now: u64, context: &mut Context) {
    let days = until_ms.saturating_sub(now).div_ceil(DAY_MS);
    context.set("s3:object-lock-remaining-retention-days", days.to_string());
}

/// What a call knows of tags that come in its document.
pub(super) fn for_tags(context: &mut Context, tags: &[Tag]) {
    context.forget(REQUEST_TAGS);
    for tag in tags {
        context.add("s3:RequestObjectTagKeys", tag.key.as_str());
        context.set(&format!("s3:RequestObjectTag/{}", tag.key), tag.value.as_str());
    }
}

/// Likewise of a retention.
pub(super) fn for_retention(context: &mut Context, retention: Option<Retention>) {
    context.forget(RETENTION[0]);
    context.forget(RETENTION[1]);
    if let Some(retention) = retention {
        context.set(RETENTION[1], convert::mode_word(retention.mode));
        context.set(RETENTION[2], (retention.retain_until_ms / 1000).to_string());
        set_days_left(retention.retain_until_ms, now_ms(), context);
    }
}

/// Likewise of a legal hold.
pub(super) fn for_legal_hold(context: &mut Context, held: bool) {
    context.set(LEGAL_HOLD, if held { "ON" } else { "OFF" });
}

fn set_query(request: &Head<'_>, now: u64, context: &mut Context) {
    // Each name as the call will read it: `%70refix` is `prefix`.
    let decoded = |text: &str| percent_decoded(text).unwrap_or_default();
    let mut signed_ms = request.header("x-amz-date").and_then(signing_time);
    for pair in request.uri.query().unwrap_or("").split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name);
        if name == "X-Amz-Date" {
            signed_ms = signing_time(&decoded(value));
        } else if let Some((_, key)) = PARAMETERS.iter().find(|(known, _)| *known == name) {
            context.set(key, decoded(value));
        }
    }
    if request.access_key().is_none() {
        return;
    }
    let by_header = request.headers.contains_key(AUTHORIZATION);
    let plain = if by_header { "REST-HEADER" } else { "REST-QUERY-STRING" };
    context.set("s3:authType", if request.by_form.is_some() { "POST" } else { plain });
    context.set("s3:signatureversion", "AWS4-HMAC-SHA256");
    if let Some(signed_ms) = request.by_form.map_or(signed_ms, |form| form.signed_ms) {
        context.set("s3:signatureAge", now.saturating_sub(signed_ms).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::s3::RetentionMode;

    fn context(uri: &str, headers: &[(&str, &str)], key: Option<&str>) -> Context {
        let uri: Uri = uri.parse().expect(uri);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(hyper::header::HeaderName::try_from(*name).expect(name), value.parse().expect(value));
        }
        let caller = key.map_or(Caller::Anonymous, |_| Caller::Account("ann".to_owned()));
        context_of(&Head::of(key, &map, &uri, &Extensions::new()), &caller)
    }

    #[test]
    fn signature_has_an_age_wherever_its_date_stands() {
        let old = context("/b/k?X-Amz-Date=20200101T000000Z&X-Amz-Signature=x", &[], Some("key"));
        let age: u64 = old.one("s3:signatureage").expect("age").parse().expect("number");
        assert!(age > 5 * 365 * DAY_MS, "{age}");
        assert_eq!(old.one("s3:authtype"), Some("REST-QUERY-STRING"));
        let header = context("/b/k", &[("x-amz-date", "20200101T000000Z"), ("authorization", "x")], Some("key"));
        assert!(header.one("s3:signatureage").is_some());
        assert_eq!(context("/b/k", &[("x-amz-date", "20200101T000000Z")], None).one("s3:signatureage"), None);
    }

    #[test]
    fn document_counts_and_headers_do_not() {
        let headers = [
            ("x-amz-tagging", "team=a"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-object-lock-retain-until-date", "2030-01-01T00:00:00Z"),
            ("x-amz-object-lock-legal-hold", "ON"),
        ];
        let mut found = context("/b/k?tagging", &headers, Some("key"));
        assert_eq!(found.one("s3:requestobjecttag/team"), Some("a"));
        assert!(found.one("s3:object-lock-remaining-retention-days").is_some());
        for_tags(&mut found, &[Tag { key: "owner".into(), value: "b".into() }]);
        for_retention(&mut found, None);
        for_legal_hold(&mut found, false);
        assert_eq!((found.one("s3:requestobjecttag/team"), found.one("s3:requestobjecttag/owner")), (None, Some("b")));
        assert_eq!(found.one("s3:requestobjecttagkeys"), Some("owner"));
        assert_eq!((found.one("s3:object-lock-mode"), found.one("s3:object-lock-legal-hold")), (None, Some("OFF")));
        assert_eq!(found.one("s3:object-lock-remaining-retention-days"), None);
        let until = now_ms() + 3 * DAY_MS - 1000;
        for_retention(&mut found, Some(Retention { mode: RetentionMode::Compliance, retain_until_ms: until }));
        assert_eq!(found.one("s3:object-lock-mode"), Some("COMPLIANCE"));
        assert_eq!(found.one("s3:object-lock-remaining-retention-days"), Some("3"));
    }

    #[test]
    fn copy_that_keeps_tags_takes_none_of_its_header() {
        let copy = [("x-amz-copy-source", "/b/a"), ("x-amz-tagging", "team=a")];
        assert_eq!(context("/b/k", &copy, None).one("s3:requestobjecttag/team"), None);
        let replace = [copy[0], copy[1], ("x-amz-tagging-directive", "REPLACE")];
        assert_eq!(context("/b/k", &replace, None).one("s3:requestobjecttag/team"), Some("a"));
    }
}
