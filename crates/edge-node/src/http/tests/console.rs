use super::{as_curl_sends, fixture, Fixture};
use edge_console::{ASSETS, HEADERS};

impl Fixture {
    fn get(&self, path: &str, more: &str) -> String {
        self.talk(&as_curl_sends(path, "localhost", None, more))
    }
}

#[test]
fn the_console_is_served_with_its_headers() {
    let fixture = fixture(|_| {});
    for asset in ASSETS {
        let answer = fixture.get(&format!("/console/{}", asset.path), "");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && body == asset.body, "{}", asset.path);
        assert!(head.contains(&format!("content-type: {}", asset.kind)), "{head}");
        for (name, value) in HEADERS {
            assert!(head.contains(&format!("{name}: {value}")), "{} lacks {name}", asset.path);
        }
    }
    let bare = fixture.get("/console", "");
    assert!(bare.starts_with("HTTP/1.1 308") && bare.contains("location: /console/\r\n"), "{bare}");
    for path in ["/console/nothing", "/console/assets/main.js", "/console/../metrics", "/consoles"] {
        let answer = fixture.get(path, "");
        assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("there is nothing at"), "{answer}");
    }
    let posted = fixture.talk(&as_curl_sends("/console/", "localhost", Some("x"), ""));
    assert!(posted.starts_with("HTTP/1.1 405"), "{posted}");
    // Under a name that somebody pointed here, not even the page is shown.
    let rebound = fixture.talk(&as_curl_sends("/console/", "evil.example", None, ""));
    assert!(rebound.starts_with("HTTP/1.1 403") && rebound.contains("UnknownHost"), "{rebound}");
    fixture.node.stop().unwrap();
}

#[test]
fn the_consoles_own_requests_pass_and_foreign_ones_do_not() {
    let fixture = fixture(|_| {});
    let host = fixture.node.http_address().to_string();
    let act = |more: &str| {
        let browser = format!("User-Agent: Mozilla/5.0\r\n{more}");
        fixture.talk(&as_curl_sends("/", &host, Some(r#"{"action":"KvDelete","keyspace":"d","key":"k"}"#), &browser))
    };
    let own = act(&format!("Origin: http://{host}\r\nSec-Fetch-Site: same-origin\r\n"));
    assert!(own.starts_with("HTTP/1.1 200"), "{own}");
    let foreign = act("Origin: http://evil.example\r\nSec-Fetch-Site: cross-site\r\n");
    assert!(foreign.starts_with("HTTP/1.1 403") && foreign.contains("ForeignPage"), "{foreign}");
    fixture.node.stop().unwrap();
}

#[test]
fn samples_are_for_known_clients() {
    let open = fixture(|_| {});
    let answer = open.get("/console/history?since=0", "");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""every_ms":10000"#), "{answer}");
    assert!(answer.contains(r#""fields":["time_ms","reads_per_s""#), "{answer}");
    open.node.stop().unwrap();
    let closed = fixture(|config| config.access.required = true);
    assert!(closed.get("/console/history", "").starts_with("HTTP/1.1 401"));
    // The files hold no data, and the page must be there to sign in.
    assert!(closed.get("/console/", "").starts_with("HTTP/1.1 200"));
    assert!(closed.get("/console/main.js", "").starts_with("HTTP/1.1 200"));
    assert!(closed.get("/console/nothing", "").starts_with("HTTP/1.1 401"));
    closed.node.stop().unwrap();
}

#[test]
fn a_page_is_not_challenged_for_a_password() {
    let fixture = fixture(|config| config.access.required = true);
    let host = fixture.node.http_address().to_string();
    let act = |more: &str| {
        let wrong = format!("Authorization: Bearer hive_wrong\r\n{more}");
        fixture.talk(&as_curl_sends("/", &host, Some(r#"{"action":"WhoAmI"}"#), &wrong)).to_lowercase()
    };
    let program = act("");
    assert!(program.starts_with("http/1.1 401") && program.contains("basic realm"), "{program}");
    let history = fixture.get("/console/history", "").to_lowercase();
    let nothing = fixture.get("/console/nothing", "").to_lowercase();
    for page in [act(&format!("Origin: http://{host}\r\n")), history, nothing] {
        assert!(page.starts_with("http/1.1 401") && page.contains("www-authenticate: bearer"), "{page}");
        assert!(!page.contains("basic realm"), "{page}");
    }
    fixture.node.stop().unwrap();
}
