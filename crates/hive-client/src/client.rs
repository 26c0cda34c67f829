//! A call as a bounded series of attempts: rotate over the endpoints, back off, same request id.
//!
//! An endpoint that said nothing is passed over by every call of the same client until it answers a probe (silence.rs), while others
//! answer (`tests::a_silent_endpoint_is_probed_before_it_gets_an_operation`).
//!
//! What the caller learns: an answer; a refusal that will not change; `Unavailable` (no attempt can
//! have been applied); `Unknown` (an attempt of a write may have been). A later "not applied" does
//! not make an earlier lost attempt certain, so `Unknown` sticks until a definite answer comes: the
//! answer to a request id is the answer to all attempts that carried it.

use crate::tls::Tls;
use crate::token::Token;
use crate::transport::{Broken, Endpoint};
use crate::ClientError;
use bytes::Bytes;
use hyper::Method;
use serde_json::{Map, Value};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most attempts one call makes.
const ATTEMPTS_MAX: u32 = 64;
/// The first pause between attempts; doubled each round up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_millis(500);
/// How much longer than the deadline an answer is waited for: the node answers at the deadline.
const GRACE: Duration = Duration::from_millis(250);
/// The least one attempt gets before another endpoint is asked.
const ATTEMPT_LEAST: Duration = Duration::from_millis(1500);

/// What a call may say beside its action.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// hopeful, eventual, strong, absolute, s3; the cluster's default where absent.
    pub consistency: Option<String>,
    /// strong, eventual; the cluster's default where absent.
    pub read_consistency: Option<String>,
    /// What the session has seen ([`crate::position`]): reads of keys answer nothing older.
    pub after: Option<String>,
    /// How long to try; 5 s where absent. A write is sent again for 60 s at most: so long its request id is remembered.
    pub deadline: Option<Duration>,
    /// Who asks, where the world wants to know.
    pub token: Option<Token>,
}

/// A client. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    endpoints: Arc<Vec<Endpoint>>,
    next: Arc<AtomicUsize>,
    options: Options,
}

/// Whether repeating the action can never matter.
fn is_read(action: &str) -> bool {
    matches!(action, "KvGet" | "KvScan" | "Status" | "CountObjects" | "CutPoints" | "LookupData")
        || ["List", "Describe", "Resolve", "Get", "Head"].iter().any(|prefix| action.starts_with(prefix))
}

/// Whether a quick answer is expected, so that a silent node is worth leaving early.
fn is_quick(body: &Map<String, Value>) -> bool {
    let action = body.get("action").and_then(Value::as_str).unwrap_or_default();
    let patient = body.get("consistency").is_some_and(|level| level == "absolute" || level == "s3");
    !patient && (action.starts_with("Kv") || action == "Status")
}

/// 128 random bits in hex: the standard library's own hash seeds are random.
pub(crate) fn new_request_id() -> String {
    let draw = || std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", draw(), draw())
}

impl Client {
    /// A client of these endpoints, each `http://host:port`; at least one.
    pub fn new<S: AsRef<str>>(endpoints: &[S]) -> Result<Client, ClientError> {
        Client::over(endpoints, None)
    }

    /// A client of these endpoints, each `https://host:port`; at least one.
    pub fn with_tls<S: AsRef<str>>(endpoints: &[S], tls: &Tls) -> Result<Client, ClientError> {
        Client::over(endpoints, Some(tls))
    }

    fn over<S: AsRef<str>>(endpoints: &[S], tls: Option<&Tls>) -> Result<Client, ClientError> {
        let parsed: Vec<Endpoint> =
            endpoints.iter().map(|text| Endpoint::parse(text.as_ref(), tls)).collect::<Result<_, _>>()?;
        if parsed.is_empty() {
            return Err(ClientError::Endpoint(String::new()));
        }
        Ok(Client { endpoints: Arc::new(parsed), next: Arc::new(AtomicUsize::new(0)), options: Options::default() })
    }

    /// The same client with other options.
    pub fn with_options(&self, options: Options) -> Client {
        Client { options, ..self.clone() }
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whom it asks.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Asks for an action, `{"action": …}`, and answers the whole JSON answer.
    pub async fn action(&self, body: Value) -> Result<Value, ClientError> {
        let Value::Object(mut body) = body else {
            return Err(ClientError::Endpoint("the action must be a JSON object".into()));
        };
        self.fill(&mut body);
        let mut call = Call::new(self, body);
        for _ in 0..ATTEMPTS_MAX {
            match call.attempt(self).await {
                Some(done) => return done,
                None if call.over() => break,
                None => call.pause().await,
            }
        }
        Err(call.give_up())
    }

    /// Asks those silent endpoints that it is time to ask. Nobody waits for what they say.
    fn probe_silent(&self) {
        let now = Instant::now();
        for at in (0..self.endpoints.len()).filter(|at| self.endpoints[*at].silence.takes_probe(now)) {
            let endpoints = self.endpoints.clone();
            tokio::spawn(async move { endpoints[at].probe().await });
        }
    }

    fn fill(&self, body: &mut Map<String, Value>) {
        let levels = [("consistency", &self.options.consistency), ("read_consistency", &self.options.read_consistency)];
        for (name, level) in levels {
            if let Some(level) = level {
                body.entry(name).or_insert_with(|| level.clone().into());
            }
        }
        let action = body.get("action").and_then(Value::as_str).unwrap_or_default();
        if let Some(after) = self.options.after.as_ref().filter(|_| ["KvGet", "KvScan"].contains(&action)) {
            body.entry("after").or_insert_with(|| after.clone().into());
        }
        body.entry("request_id").or_insert_with(|| new_request_id().into());
    }

    /// A plain GET from any endpoint, once: `/health`, `/metrics`.
    pub async fn get_path(&self, endpoint: usize, path: &str) -> Result<(u16, Bytes), ClientError> {
        let endpoint = &self.endpoints[endpoint % self.endpoints.len()];
        let start = Instant::now();
        let asked = tokio::time::timeout(
            Duration::from_secs(5),
            endpoint.exchange(Method::GET, path, Bytes::new(), self.options.token.as_ref()),
        )
        .await;
        let last = match asked {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(broken)) if broken.untrusted => return Err(untrusted(endpoint, broken.reason)),
            Ok(Err(broken)) => broken.reason,
            Err(_) => format!("{}: no answer", endpoint.address()),
        };
        Err(ClientError::Unavailable { waited_ms: start.elapsed().as_millis() as u64, last })
    }
}

fn untrusted(endpoint: &Endpoint, reason: String) -> ClientError {
    let own = format!("{}: ", endpoint.address());
    let reason = reason.strip_prefix(&own).unwrap_or(&reason).to_owned();
    ClientError::Tls { endpoint: endpoint.address().to_owned(), reason }
}

/// One call under way.
struct Call {
    body: Map<String, Value>,
    start: Instant,
    deadline: Duration,
    at: usize,
    attempts: u32,
    /// Attempts that TLS ended for a reason that stays.
    untrusted: usize,
    write: bool,
    quick: bool,
    /// An attempt of a write may have been applied.
    maybe_applied: bool,
    last: String,
    /// The last refusal that may change.
    refused: Option<ClientError>,
}

impl Call {
    fn new(client: &Client, body: Map<String, Value>) -> Call {
        let named = body.get("deadline_ms").and_then(Value::as_u64).map(Duration::from_millis);
        let action = body.get("action").and_then(Value::as_str).unwrap_or_default();
        let (write, quick) = (!is_read(action), is_quick(&body));
        Call {
            deadline: named.or(client.options.deadline).unwrap_or(base_types::DEADLINE_DEFAULT),
            body,
            start: Instant::now(),
            at: client.next.fetch_add(1, Ordering::Relaxed),
            attempts: 0,
            untrusted: 0,
            write,
            quick,
            maybe_applied: false,
            last: "not tried".into(),
            refused: None,
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_sub(self.start.elapsed())
    }

    /// A write is not repeated behind the window in which its id is remembered, however long its deadline.
    fn over(&self) -> bool {
        let forgotten = self.write && self.start.elapsed() >= base_types::REQUEST_ID_WINDOW;
        self.left() < Duration::from_millis(2) || forgotten
    }

    /// One attempt; `None`: try again.
    async fn attempt(&mut self, client: &Client) -> Option<Result<Value, ClientError>> {
        let endpoint = self.choose(client);
        let left = self.left().max(Duration::from_millis(1)).min(base_types::DEADLINE_MAX);
        self.attempts += 1;
        self.body.insert("deadline_ms".into(), (left.as_millis().max(1) as u64).into());
        let patience = if self.quick && client.endpoints.len() > 1 { (left / 2).max(ATTEMPT_LEAST) } else { left };
        let bytes = Bytes::from(Value::Object(self.body.clone()).to_string());
        let token = client.options.token.as_ref();
        let asked = tokio::time::timeout(patience + GRACE, endpoint.exchange(Method::POST, "/", bytes, token)).await;
        match &asked {
            Ok(Ok(_)) => endpoint.silence.answered(),
            Ok(Err(broken)) if !broken.silent => {}
            Ok(Err(_)) | Err(_) => endpoint.silence.unanswered(Instant::now()),
        }
        match asked {
            Ok(Ok((status, answer))) => self.judge(endpoint, status, &answer),
            Ok(Err(Broken { stale: true, .. })) => None,
            Ok(Err(broken)) if broken.untrusted => {
                self.untrusted += 1;
                // Each endpoint has said so: later ones will, too. What an earlier attempt may have done stays unknown.
                if self.untrusted >= client.endpoints.len() && !self.maybe_applied {
                    return Some(Err(untrusted(endpoint, broken.reason)));
                }
                self.failed(broken.sent, broken.reason)
            }
            Ok(Err(broken)) => self.failed(broken.sent, broken.reason),
            Err(_) => {
                self.failed(true, format!("{}: no answer within {} ms", endpoint.address(), patience.as_millis()))
            }
        }
    }

    /// Whose turn it is, passing over silent ones; where all are silent, the first of them.
    fn choose<'c>(&mut self, client: &'c Client) -> &'c Endpoint {
        client.probe_silent();
        let count = client.endpoints.len();
        let heard = (0..count).find(|step| !client.endpoints[(self.at + step) % count].silence.is_silent());
        self.at += heard.unwrap_or(0);
        &client.endpoints[self.at % count]
    }

    fn failed(&mut self, sent: bool, reason: String) -> Option<Result<Value, ClientError>> {
        self.maybe_applied |= sent && self.write;
        self.last = reason;
        self.at += 1;
        None
    }

    fn judge(&mut self, endpoint: &Endpoint, status: u16, answer: &[u8]) -> Option<Result<Value, ClientError>> {
        let parsed: Option<Value> =
            serde_json::from_slice(answer).ok().filter(|value: &Value| value["ok"].is_boolean());
        let Some(value) = parsed else {
            return Some(Err(ClientError::BadAnswer { endpoint: endpoint.address().to_owned(), status }));
        };
        if value["ok"] == true {
            return Some(Ok(value));
        }
        let text = |name: &str| value["error"][name].as_str().unwrap_or_default().to_owned();
        let retryable = value["error"]["retryable"] == true;
        let error = ClientError::Refused {
            status,
            code: text("code"),
            message: text("message"),
            retryable,
            answer: Box::new(value.clone()),
        };
        // Committed already: repeating would wait for the missing member again and learn nothing new.
        if !retryable || value["error"]["committed"] == true {
            return Some(Err(error));
        }
        self.maybe_applied |= self.write && value["error"]["outcome"] == "unknown";
        self.last = error.to_string();
        self.refused = Some(error);
        self.at += 1;
        None
    }

    /// Waits a little longer after each round over all endpoints, with jitter.
    async fn pause(&self) {
        let doubled = PAUSE_FIRST.saturating_mul(1 << self.attempts.saturating_sub(1).min(10)).min(PAUSE_LONGEST);
        let jitter = (self.start.elapsed().subsec_nanos() % 256) as f64 / 512.0 + 0.5;
        tokio::time::sleep(doubled.mul_f64(jitter).min(self.left())).await;
    }

    fn give_up(self) -> ClientError {
        if self.maybe_applied {
            let request_id = self.body["request_id"].as_str().unwrap_or_default().to_owned();
            return ClientError::Unknown { last: self.last, request_id };
        }
        let waited_ms = self.start.elapsed().as_millis() as u64;
        self.refused.unwrap_or(ClientError::Unavailable { waited_ms, last: self.last })
    }
}

#[cfg(test)]
mod tests;
