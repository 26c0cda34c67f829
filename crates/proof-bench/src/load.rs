//! The load: clients on kept-alive connections, each with one request under way (a closed loop), or
//! requests at a fixed rate, whichever client is free taking the next.
//!
//! Lean on purpose, since it shares the machine with what it measures: one thread, raw TCP, requests
//! patched in place, answers scanned for status and length only. Always: a lost connection is an
//! error, and its client continues at the next endpoint.
//! Held by: `every_answer_is_counted_as_what_it_is`.

use crate::measure::{cpu_time, cpu_time_of, histogram, Run};
use crate::request::Template;
use crate::wire::{connect, Wire};
use crate::workloads::say;
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The pause after a failed connection.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);
/// How long clients have to finish their last request.
const LAST_ANSWER: Duration = Duration::from_secs(6);
/// How often a run of many operations prints how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// The longest answer head.
const HEADERS_MAX: usize = 32;

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// After a time.
    After(Duration),
    /// After so many operations.
    Operations(u64),
}

/// In which order keys are named.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// 0, 1, 2 …, begun again at the number.
    InTurn(u64),
    /// Any below the number.
    Random(u64),
    /// Any below the number; but one in so many is new: the number, the one after it, and so on.
    Widening(u64, u64),
}

/// A run to be made.
pub struct Job<'j> {
    /// `host:port` of each server, or `https://host:port`.
    pub endpoints: &'j [String],
    pub template: &'j Template,
    pub clients: usize,
    pub keys: Keys,
    /// Requests a second of all clients together; none: as fast as answers come.
    pub pace: Option<f64>,
    /// Not counted, before the run.
    pub warm_up: Duration,
    pub end: End,
    /// Prints how far it is, under this name.
    pub progress: Option<&'j str>,
    /// The servers' processes, for CPU time.
    pub pids: &'j [u32],
}

/// What the clients of a run share.
pub(crate) struct Shared {
    endpoints: Vec<String>,
    keys: Keys,
    /// Between two requests, and how many have been taken on, where the pace is fixed.
    interval: Option<Duration>,
    taken: Cell<u32>,
    next: Cell<u64>,
    counting: Cell<bool>,
    over: Cell<bool>,
    left: Cell<u64>,
    latency: RefCell<Histogram<u64>>,
    errors: RefCell<BTreeMap<String, u64>>,
    /// Microseconds since `start` of each acknowledged operation, where asked for.
    acknowledged: Option<RefCell<Vec<u64>>>,
    start: Instant,
}

impl Shared {
    pub(crate) fn new(
        endpoints: &[String],
        keys: Keys,
        pace: Option<f64>,
        operations: u64,
        timeline: bool,
    ) -> Rc<Shared> {
        Rc::new(Shared {
            endpoints: endpoints.to_vec(),
            keys,
            interval: pace.map(|rate| Duration::from_secs_f64(1.0 / rate.max(1.0))),
            taken: Cell::new(0),
            next: Cell::new(0),
            counting: Cell::new(false),
            over: Cell::new(false),
            left: Cell::new(operations),
            latency: RefCell::new(histogram()),
            errors: RefCell::new(BTreeMap::new()),
            acknowledged: timeline.then(|| RefCell::new(Vec::new())),
            start: Instant::now(),
        })
    }

    fn next_key(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        match self.keys {
            Keys::InTurn(count) => number % count.max(1),
            Keys::Random(count) => any_below(number, count),
            Keys::Widening(count, one_in) if number.is_multiple_of(one_in.max(1)) => count + number / one_in.max(1),
            Keys::Widening(count, _) => any_below(number, count),
        }
    }

    /// Keys there will be when all that was sent is done.
    pub(crate) fn keys(&self) -> u64 {
        match self.keys {
            Keys::InTurn(count) | Keys::Random(count) => count,
            Keys::Widening(count, one_in) => count + self.next.get().div_ceil(one_in.max(1)),
        }
    }

    /// Waits for the next request's turn; from when its latency counts. Where no client was free in time that is
    /// when it was due; a timer that rings late is not the server's doing.
    async fn turn(&self) -> Instant {
        let Some(interval) = self.interval else { return Instant::now() };
        let number = self.taken.get();
        self.taken.set(number + 1);
        let due = self.start + interval * number;
        if due <= Instant::now() {
            return due;
        }
        tokio::time::sleep_until(due.into()).await;
        Instant::now()
    }

    fn done(&self, start: Instant) {
        if !self.counting.get() {
            return;
        }
        let micros = start.elapsed().as_micros() as u64;
        self.latency.borrow_mut().saturating_record(micros.max(1));
        if let Some(acknowledged) = &self.acknowledged {
            acknowledged.borrow_mut().push(self.start.elapsed().as_micros() as u64);
        }
        let left = self.left.get().saturating_sub(1);
        self.left.set(left);
        if left == 0 {
            self.over.set(true);
        }
    }

    fn failed(&self, what: &str) {
        if self.counting.get() {
            *self.errors.borrow_mut().entry(what.to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn count(&self, counting: bool) {
        self.counting.set(counting);
    }

    pub(crate) fn stop(&self) {
        self.over.set(true);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.borrow().clone()
    }

    /// The longest time between two operations that were acknowledged by then, in microseconds.
    pub(crate) fn longest_gap(&self, by: Duration) -> u64 {
        let mut times = self.acknowledged();
        times.retain(|at| *at <= by.as_micros() as u64);
        times.sort_unstable();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// What was counted so far, without CPU time.
    pub(crate) fn run_so_far(&self) -> Run {
        let latency = self.latency.borrow().clone();
        Run {
            operations: latency.len(),
            errors: self.errors(),
            seconds: self.elapsed().as_secs_f64(),
            latency,
            server_cpu: None,
            client_cpu: Duration::ZERO,
        }
    }

    pub(crate) fn acknowledged(&self) -> Vec<u64> {
        self.acknowledged.as_ref().map(|list| list.borrow().clone()).unwrap_or_default()
    }
}

/// A fixed permutation-like spread (splitmix): the same keys in every run.
fn any_below(number: u64, count: u64) -> u64 {
    let mixed = (number.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb).rotate_left(27) % count.max(1)
}

/// Starts the clients, spread over the endpoints.
pub(crate) fn start(shared: &Rc<Shared>, template: &Template, clients: usize) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for number in 0..clients {
        tasks.spawn_local(client(shared.clone(), template.clone(), number));
    }
    tasks
}

/// Lets the clients finish their last request, within bounds.
pub(crate) async fn finish(shared: &Shared, mut tasks: JoinSet<()>) {
    shared.stop();
    let ended = async { while tasks.join_next().await.is_some() {} };
    if timeout(LAST_ANSWER, ended).await.is_err() {
        shared.failed("no answer at the end of the run");
    }
}

/// Makes a run.
pub async fn run(job: &Job<'_>) -> Run {
    let operations = match job.end {
        End::After(_) => u64::MAX,
        End::Operations(count) => count,
    };
    let shared = Shared::new(job.endpoints, job.keys, job.pace, operations, false);
    let tasks = start(&shared, job.template, job.clients);
    sleep(job.warm_up).await;
    let (server_before, client_before) = (cpu_time_of(job.pids), cpu_time(std::process::id()));
    shared.count(true);
    let start = Instant::now();
    match job.end {
        End::After(time) => sleep(time).await,
        End::Operations(count) => {
            let mut told = Instant::now();
            while !shared.over.get() {
                sleep(Duration::from_millis(1)).await;
                if let Some(name) = job.progress.filter(|_| told.elapsed() >= PROGRESS_EVERY) {
                    told = Instant::now();
                    tell(name, &shared, count, start.elapsed());
                }
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    shared.count(false);
    let (server_after, client_after) = (cpu_time_of(job.pids), cpu_time(std::process::id()));
    finish(&shared, tasks).await;
    let latency = shared.latency.borrow().clone();
    Run {
        operations: latency.len(),
        errors: shared.errors(),
        seconds,
        latency,
        server_cpu: server_after.zip(server_before).map(|(after, before)| after.saturating_sub(before)),
        client_cpu: client_after
            .zip(client_before)
            .map_or(Duration::ZERO, |(after, before)| after.saturating_sub(before)),
    }
}

/// How far a run is.
fn tell(name: &str, shared: &Shared, count: u64, elapsed: Duration) {
    let done = count.saturating_sub(shared.left.get());
    let rate = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let errors: u64 = shared.errors.borrow().values().sum();
    let left = shared.left.get() as f64 / rate.max(1.0);
    say(&format!("{name}: {done} of {count}, {rate:.0}/s, {errors} errors, about {left:.0} s more"));
}

async fn client(shared: Rc<Shared>, mut template: Template, number: usize) {
    let mut at = number;
    let mut connection: Option<Wire> = None;
    let mut answer: Vec<u8> = Vec::with_capacity(16 << 10);
    while !shared.over.get() {
        let mut stream = match connection.take() {
            Some(stream) => stream,
            None => match connect(&shared.endpoints[at % shared.endpoints.len()]).await {
                Some(stream) => stream,
                None => {
                    at += 1;
                    shared.failed("connection refused");
                    sleep(CONNECT_PAUSE).await;
                    continue;
                }
            },
        };
        let start = shared.turn().await;
        let request = template.set_key(shared.next_key());
        match exchange(&mut stream, request, &mut answer).await {
            Ok((200, body)) if template.operation.satisfied(body) => shared.done(start),
            Ok((200, _)) => shared.failed("key absent"),
            Ok((status, body)) => shared.failed(&refusal(status, body)),
            Err(_) => {
                shared.failed("connection lost");
                at += 1;
                continue;
            }
        }
        connection = Some(stream);
    }
}

/// An error's name in the report: the status and, where it is Hive's JSON, the code.
fn refusal(status: u16, body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match value["error"]["code"].as_str() {
        Some(code) => format!("{status} {code}"),
        None => status.to_string(),
    }
}

/// Sends a request and reads its answer: the status and the body.
pub(crate) async fn exchange<'a>(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
    answer: &'a mut Vec<u8>,
) -> std::io::Result<(u16, &'a [u8])> {
    stream.write_all(request).await?;
    answer.clear();
    loop {
        if stream.read_buf(answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let Some((status, head, length)) = parse_head(answer)? else { continue };
        loop {
            let end = match length {
                Some(length) => (answer.len() >= head + length).then_some(length),
                None => chunks_end(&answer[head..])?,
            };
            if let Some(length) = end {
                return Ok((status, &answer[head..head + length]));
            }
            if stream.read_buf(answer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Where a chunked body ends (etcd's gateway sends large answers so); `None` while it is incomplete.
fn chunks_end(body: &[u8]) -> std::io::Result<Option<usize>> {
    let mut at = 0;
    loop {
        let invalid = |_| std::io::Error::new(std::io::ErrorKind::InvalidData, "no chunk size");
        let httparse::Status::Complete((line, size)) = httparse::parse_chunk_size(&body[at..]).map_err(invalid)? else {
            return Ok(None);
        };
        at = at.saturating_add(line).saturating_add(size as usize).saturating_add(2);
        if at > body.len() {
            return Ok(None);
        }
        if size == 0 {
            return Ok(Some(at));
        }
    }
}

/// The body of an answer that [`exchange`] read, without the lines between its chunks if it came in chunks.
pub(crate) fn whole_body(answer: &[u8]) -> std::io::Result<Vec<u8>> {
    let Some((_, head, length)) = parse_head(answer)? else { return Ok(Vec::new()) };
    let mut rest = &answer[head..];
    if let Some(length) = length {
        return Ok(rest[..length.min(rest.len())].to_vec());
    }
    let mut body = Vec::with_capacity(rest.len());
    while let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(rest) {
        let Some(chunk) = rest.get(line..line.saturating_add(size as usize)).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        body.extend_from_slice(chunk);
        rest = rest.get(line + chunk.len() + 2..).unwrap_or_default();
    }
    Ok(body)
}

/// What the head of an answer says: status, bytes of the head, bytes of the body (`None`: chunked).
type Head = (u16, usize, Option<usize>);

/// Reads the head; `None` while it is incomplete.
fn parse_head(answer: &[u8]) -> std::io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let invalid = |what: &'static str| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    match response.parse(answer).map_err(|_| invalid("no HTTP answer"))? {
        httparse::Status::Partial => Ok(None),
        httparse::Status::Complete(head) => {
            let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
            let length = header
                .and_then(|header| std::str::from_utf8(header.value).ok())
                .and_then(|text| text.trim().parse().ok());
            let chunked = response.headers.iter().any(|header| {
                header.name.eq_ignore_ascii_case("transfer-encoding") && header.value.eq_ignore_ascii_case(b"chunked")
            });
            if length.is_none() && !chunked {
                return Err(invalid("no content-length"));
            }
            Ok(Some((response.code.unwrap_or(0), head, length)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Operation, Order};
    use tokio::net::TcpListener;

    #[test]
    fn chunks_are_joined_to_one_body() {
        let answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n";
        assert_eq!(whole_body(answer).unwrap(), b"{\"a\":1}");
        assert_eq!(whole_body(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap(), b"hello");
    }

    #[test]
    fn heads_are_read() {
        assert_eq!(parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").unwrap(), Some((200, 38, Some(5))));
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(parse_head(chunked).unwrap(), Some((200, chunked.len(), None)));
        assert_eq!(chunks_end(b"5\r\nhello\r\n0\r\n\r\nHTTP").unwrap(), Some(15));
        assert_eq!(chunks_end(b"5\r\nhello\r\n0\r\n").unwrap(), None);
        assert_eq!(parse_head(b"HTTP/1.1 200 OK\r\nConte").unwrap(), None);
        assert!(parse_head(b"SSH-2.0\r\n\r\n").is_err());
        assert!(parse_head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    /// Answers every request; each seventh with a refusal, each eleventh by closing.
    async fn serve(listener: TcpListener) {
        let count = Rc::new(Cell::new(0u64));
        loop {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let count = count.clone();
            tokio::task::spawn_local(async move {
                let mut buffer = [0; 4096];
                while matches!(stream.read(&mut buffer).await, Ok(size) if size > 0) {
                    count.set(count.get() + 1);
                    let body = r#"{"ok":false,"error":{"code":"NoLeader"}}"#;
                    let answer = match count.get() {
                        at if at % 11 == 0 => return,
                        at if at % 7 == 0 => format!("HTTP/1.1 503 X\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
                        _ => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
                    };
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    #[test]
    fn a_widening_set_has_old_keys_and_new_ones() {
        let shared = Shared::new(&[], Keys::Widening(100, 4), None, 1, false);
        let keys: Vec<u64> = (0..40).map(|_| shared.next_key()).collect();
        let new: Vec<u64> = keys.iter().copied().filter(|key| *key >= 100).collect();
        assert_eq!((new, shared.keys()), ((100..110).collect(), 110));
    }

    #[test]
    fn every_answer_is_counted_as_what_it_is() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let endpoints = [listener.local_addr().unwrap().to_string()];
            tokio::task::spawn_local(serve(listener));
            let template = Template::new(Operation::Put("strong"), 100, Order::Growing);
            let job = Job {
                endpoints: &endpoints,
                template: &template,
                clients: 3,
                keys: Keys::InTurn(10),
                pace: None,
                warm_up: Duration::ZERO,
                end: End::Operations(500),
                progress: None,
                pids: &[std::process::id()],
            };
            let run = run(&job).await;
            assert!((500..520).contains(&run.operations), "{}", run.operations);
            assert!(run.errors["503 NoLeader"] > 50 && run.errors["connection lost"] > 30, "{:?}", run.errors);
            assert!(run.server_cpu.is_some());
        });
    }
}
