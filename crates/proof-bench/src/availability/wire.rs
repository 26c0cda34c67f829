//! One HTTP exchange with one member, over kept connections, without a second try.
//!
//! By design: a failure says whether the request can have reached the member. Not here: Hive's own client, which tries again
//! elsewhere (hive-client); this is for etcd, and for what one try is worth.

use crate::load::{exchange, whole_body};
use crate::wire::connect_plain;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Idle connections kept for one member.
const IDLE_MAX: usize = 64;

/// A member that said nothing is asked last for so long, as hive-client has it.
const SILENT_FOR: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lost {
    /// The member has not seen the request.
    NotSent,
    /// It may have.
    Sent,
}

/// A member's door for clients.
pub struct Door {
    address: String,
    idle: RefCell<Vec<TcpStream>>,
    silent_until: Cell<Option<Instant>>,
}

impl Door {
    pub fn new(address: &str) -> Door {
        Door { address: address.to_owned(), idle: RefCell::default(), silent_until: Cell::default() }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn is_silent(&self) -> bool {
        self.silent_until.get().is_some_and(|until| Instant::now() < until)
    }

    pub async fn get(&self, path: &str, patience: Duration) -> Result<(u16, Vec<u8>), Lost> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n", self.address);
        self.ask(request.into_bytes(), patience).await
    }

    pub async fn post(&self, path: &str, body: &[u8], patience: Duration) -> Result<(u16, Vec<u8>), Lost> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.ask([head.as_bytes(), body].concat(), patience).await
    }

    async fn ask(&self, request: Vec<u8>, patience: Duration) -> Result<(u16, Vec<u8>), Lost> {
        // Connecting counts as well, but with nothing sent.
        let mut stream = match self.take() {
            Some(stream) => stream,
            None => connect_plain(&self.address).await.ok_or(Lost::NotSent)?,
        };
        let mut answer = Vec::new();
        let asked = timeout(patience, exchange(&mut stream, &request, &mut answer)).await;
        self.silent_until.set(asked.is_err().then(|| Instant::now() + SILENT_FOR));
        let (status, _) = asked.map_err(|_| Lost::Sent)?.map_err(|_| Lost::Sent)?;
        let body = whole_body(&answer).map_err(|_| Lost::Sent)?;
        let mut idle = self.idle.borrow_mut();
        if idle.len() < IDLE_MAX {
            idle.push(stream);
        }
        Ok((status, body))
    }

    /// An idle connection that the member has not closed.
    fn take(&self) -> Option<TcpStream> {
        let mut idle = self.idle.borrow_mut();
        while let Some(stream) = idle.pop() {
            let open =
                matches!(stream.try_read(&mut [0; 1]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
            if open {
                return Some(stream);
            }
        }
        None
    }
}
