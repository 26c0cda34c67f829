//! Requests that a web page of another site could cause are refused, before anything of their body is read.
//!
//! ```text
//! Host              is one of ours        else a name that was pointed at this node later reads it (DNS rebinding)
//! Sec-Fetch-Site    same-origin or none   browsers say so where the address is https or loopback
//! Origin            the Host's own        browsers say so with every POST, and with whatever a script may read
//! GET of a browser  with Sec-Fetch-Site   over plain HTTP to another machine a browser says neither: refused
//! ```
//!
//! Always: a program that says none of this (curl, a client library) is served as before; no answer ever allows another
//! origin anything (there are no `access-control` headers); `/health` and `/ready` answer everybody.
//! Held by: `what_a_foreign_page_causes_is_refused`, `foreign_pages_are_refused_and_curl_is_served`.
//! Why these: docs/decisions/0050. Not here: who may do what (a later issue). The S3 gateway is not asked: it wants a signature, or a policy that lets everybody in,
//! and answers other origins by a bucket's own CORS rules.

use base_types::{ErrorCode, Refusal};
use door_http::HttpError;
use hyper::header::{HeaderName, HOST, ORIGIN, USER_AGENT};
use hyper::http::request::Parts;
use hyper::Method;
use std::net::{Ipv4Addr, Ipv6Addr};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How every browser begins to describe itself; no page can change that for a request it only causes.
const BROWSER: &[u8] = b"Mozilla/";
/// So much of a header is repeated in a refusal.
const SHOWN_CHARS_MAX: usize = 80;

/// The names this node answers to, beside `localhost` and any IP address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    names: Vec<String>,
}

impl Hosts {
    /// From names or `host:port`s.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Hosts {
        Hosts { names: names.into_iter().map(|name| host_of(name).to_ascii_lowercase()).collect() }
    }

    /// An IP address is never a name that was pointed elsewhere: the page of that address is this node's own.
    fn knows(&self, authority: &str) -> bool {
        let host = host_of(authority);
        let is = |name: &str| host.eq_ignore_ascii_case(name);
        let below = |domain: &str| {
            let at = host.len().checked_sub(domain.len());
            at.and_then(|at| host.get(at..)).is_some_and(|end| end.eq_ignore_ascii_case(domain))
        };
        host.parse::<Ipv4Addr>().is_ok()
            || host.parse::<Ipv6Addr>().is_ok()
            || is("localhost")
            || below(".localhost")
            || self.names.iter().any(|name| is(name))
    }
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Whether the node lives: answered under any name, for load balancers ask under theirs.
    Life,
    /// Help and numbers: nothing changes, and a page of another site cannot read them.
    Numbers,
    /// Actions, keys and values.
    Data,
}

/// Refuses what another site's page could have caused.
pub fn check(head: &Parts, asked: Asked, hosts: &Hosts) -> Result<(), HttpError> {
    if asked == Asked::Life {
        return Ok(());
    }
    let host = check_host(head, hosts)?;
    if asked == Asked::Numbers {
        return Ok(());
    }
    let mut own_page = false;
    for site in head.headers.get_all(SEC_FETCH_SITE) {
        if site != "same-origin" && site != "none" {
            return Err(foreign(format!("the browser calls it {}", shown(site.as_bytes()))));
        }
        own_page = true;
    }
    for origin in head.headers.get_all(ORIGIN) {
        let from = origin.to_str().unwrap_or("");
        let authority = from.strip_prefix("http://").or_else(|| from.strip_prefix("https://"));
        if host.is_none() || !authority.is_some_and(|from| host.is_some_and(|host| from.eq_ignore_ascii_case(host))) {
            return Err(foreign(format!("its Origin is {}", shown(origin.as_bytes()))));
        }
        own_page = true;
    }
    let by_browser = || head.headers.get_all(USER_AGENT).iter().any(|agent| agent.as_bytes().starts_with(BROWSER));
    // A POST of a browser always has an Origin; a GET that an image or a link causes need not.
    if head.method != Method::POST && !own_page && by_browser() {
        return Err(foreign("a browser does not say whose page it is".into()));
    }
    Ok(())
}

/// Who the request is addressed to; `None`: nobody is named, which no browser does.
fn check_host<'h>(head: &'h Parts, hosts: &Hosts) -> Result<Option<&'h str>, HttpError> {
    let mut named = head.headers.get_all(HOST).iter();
    let host = named.next().map(|host| host.to_str().unwrap_or(""));
    if named.next().is_some() {
        return Err(HttpError::new(Refusal::new(
            ErrorCode::Malformed,
            "the request has several Host headers; send one",
        )));
    }
    let target = head.uri.authority().map(|authority| authority.as_str());
    for name in host.into_iter().chain(target) {
        if !hosts.knows(name) {
            let message = format!(
                "this node does not go by the name {}: a page of another site may have led a browser here; use an IP address or localhost, or add the name to http.names in node.toml",
                shown(host_of(name).as_bytes())
            );
            return Err(HttpError::new(Refusal::new(ErrorCode::UnknownHost, message)));
        }
    }
    Ok(host)
}

fn foreign(why: String) -> HttpError {
    let message = format!(
        "a page of another site may have caused this request ({why}); send it from a program such as curl, without Origin and Sec-Fetch-Site, or from a page of this node"
    );
    HttpError::new(Refusal::new(ErrorCode::ForeignPage, message))
}

/// The host in `host:port`, without brackets and the dot of the root.
fn host_of(authority: &str) -> &str {
    if let Some((host, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    host.strip_suffix('.').unwrap_or(host)
}

fn shown(text: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(text).chars().take(SHOWN_CHARS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Asked::{Data, Life, Numbers};

    fn verdict(method: &str, asked: Asked, headers: &[(&str, &str)]) -> Result<(), (u16, &'static str)> {
        let mut request = hyper::Request::builder().method(method).uri("/put?key=k&value=v");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let hosts = Hosts::new(["node3.example:7101", "Hive.Example"]);
        check(&head, asked, &hosts).map_err(|error| (error.status, error.refusal.code.as_str()))
    }

    #[test]
    fn names_that_are_not_ours_are_refused() {
        let ours =
            ["127.0.0.1:7101", "localhost:7101", "LOCALHOST", "a.localhost", "[::1]:7101", "10.0.0.5", "[fd00::5]"];
        for host in ours.into_iter().chain(["node3.example", "hive.example:80", "hive.example.:80"]) {
            assert_eq!(verdict("POST", Data, &[("host", host)]), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example:7101", "notlocalhost", "hive.example.evil", "", "0x7f.1", "a:b:c"]
        {
            for asked in [Data, Numbers] {
                assert_eq!(verdict("GET", asked, &[("host", host)]), Err((403, "UnknownHost")), "{host:?}");
            }
            assert_eq!(verdict("GET", Life, &[("host", host)]), Ok(()));
        }
        assert_eq!(verdict("GET", Data, &[("host", "localhost"), ("host", "evil.example")]), Err((400, "Malformed")));
        // HTTP/1.0 names nobody; no browser speaks it.
        assert_eq!(verdict("GET", Data, &[]), Ok(()));
    }

    #[test]
    fn what_a_foreign_page_causes_is_refused() {
        let host = ("host", "127.0.0.1:7101");
        let browser = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0");
        let refused: [(&str, &[(&str, &str)]); 9] = [
            ("POST", &[("origin", "http://evil.example")]),
            ("POST", &[("origin", "null")]),
            ("POST", &[("origin", "http://127.0.0.1:3000")]),
            ("POST", &[("origin", "http://127.0.0.1:7101"), ("sec-fetch-site", "cross-site")]),
            ("GET", &[("sec-fetch-site", "cross-site")]),
            ("GET", &[("sec-fetch-site", "same-site")]),
            ("GET", &[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")]),
            ("GET", &[browser]),
            ("HEAD", &[browser]),
        ];
        for (method, headers) in refused {
            let headers: Vec<_> = [host].iter().chain(headers).copied().collect();
            assert_eq!(verdict(method, Data, &headers), Err((403, "ForeignPage")), "{method} {headers:?}");
            assert_eq!(verdict(method, Numbers, &headers), Ok(()), "{method} {headers:?}");
        }
        let served: [(&str, &[(&str, &str)]); 6] = [
            ("POST", &[]),
            ("GET", &[("user-agent", "curl/8.5.0"), ("accept", "*/*")]),
            ("POST", &[("user-agent", "curl/8.5.0"), ("content-type", "application/x-www-form-urlencoded")]),
            ("POST", &[browser, ("origin", "http://127.0.0.1:7101"), ("sec-fetch-site", "same-origin")]),
            ("GET", &[browser, ("sec-fetch-site", "none")]),
            ("GET", &[browser, ("origin", "http://127.0.0.1:7101")]),
        ];
        for (method, headers) in served {
            let headers: Vec<_> = [host].iter().chain(headers).copied().collect();
            assert_eq!(verdict(method, Data, &headers), Ok(()), "{method} {headers:?}");
        }
    }
}
