//! Every connection between two members passes through here, so that any direction of any pair can be cut.
//!
//!   member a ──dials──▶ the address that b advertises (a listener here) ──▶ b's own peer port
//!
//! Who dials is read from the kernel: the socket's inode in /proc/net/tcp, and which member's process holds it. So one
//! listener a member is enough, no member needs another configuration than in production, and no rights are needed
//! (docs/decisions/0046).
//!
//! Always: nothing that was sent before a cut and not yet delivered passes while it lasts, connections stay open, and new
//! ones are taken but lead nowhere until it ends: as with a wire that carries nothing. A connection whose owner is not
//! known is closed. Held by: `a_cut_holds_what_is_sent_and_lets_it_go_afterwards`, `a_stranger_is_turned_away`. Not here: loss and delay; when to cut.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The kernel gives its table of sockets in pieces: one read may miss a line while others come and go.
const TABLE_READS: usize = 4;
/// What is read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Which directions are cut: `(from, to)`, by the members' places.
type Cuts = Vec<(usize, usize)>;
/// The process of each member, where it runs.
type Owners = Arc<Mutex<Vec<Option<u32>>>>;

/// The links between some members.
pub struct Links {
    cuts: watch::Sender<Cuts>,
    owners: Owners,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Listens for each member at the first port and connects to the second.
    pub fn start(ports: &[(u16, u16)]) -> std::io::Result<Links> {
        let (cuts, seen) = watch::channel(Cuts::new());
        let (stop, mut stopped) = watch::channel(false);
        let owners: Owners = Arc::new(Mutex::new(vec![None; ports.len()]));
        let mut listeners = Vec::new();
        for (advertised, own) in ports {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, *advertised))?;
            listener.set_nonblocking(true)?;
            listeners.push((listener, SocketAddr::from((Ipv4Addr::LOCALHOST, *own))));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let known = owners.clone();
        // A thread of its own: clients that are measured must not wait for it.
        let thread = std::thread::Builder::new().name("links".into()).spawn(move || {
            runtime.block_on(async {
                for (to, (listener, target)) in listeners.into_iter().enumerate() {
                    tokio::spawn(listen(listener, target, to, known.clone(), seen.clone()));
                }
                let _ = stopped.wait_for(|stop| *stop).await;
            });
        })?;
        Ok(Links { cuts, owners, stop, thread: Some(thread) })
    }

    /// A member runs as this process now, or does not run.
    pub fn set_owner(&self, member: usize, pid: Option<u32>) {
        lock(&self.owners)[member] = pid;
    }

    /// Cuts every link between the two sides, both ways.
    pub fn cut_between(&self, some: &[usize], others: &[usize]) {
        let pairs = some.iter().flat_map(|one| others.iter().map(move |other| (*one, *other)));
        self.cuts.send_replace(pairs.flat_map(|(one, other)| [(one, other), (other, one)]).collect());
    }

    /// No link is cut any more.
    pub fn heal(&self) {
        self.cuts.send_replace(Cuts::new());
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(owners: &Owners) -> std::sync::MutexGuard<'_, Vec<Option<u32>>> {
    owners.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

async fn listen(
    listener: std::net::TcpListener,
    target: SocketAddr,
    to: usize,
    owners: Owners,
    cuts: watch::Receiver<Cuts>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        // What cannot be accepted now (too many files) can be later; the pause keeps that from spinning.
        let Ok((stream, dialler)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let SocketAddr::V4(dialler) = dialler else { continue };
        let known = lock(&owners).clone();
        let Some(from) = owner_of(dialler, &known) else { continue };
        tokio::spawn(carry(stream, target, (from, to), cuts.clone()));
    }
}

/// One connection, until it ends.
async fn carry(stream: TcpStream, target: SocketAddr, (from, to): (usize, usize), mut cuts: watch::Receiver<Cuts>) {
    let whole = |cuts: &Cuts| !cuts.contains(&(from, to)) && !cuts.contains(&(to, from));
    if cuts.wait_for(whole).await.is_err() {
        return;
    }
    let Ok(other) = TcpStream::connect(target).await else { return };
    let _ = (stream.set_nodelay(true), other.set_nodelay(true));
    let ((near_read, near_write), (far_read, far_write)) = (stream.into_split(), other.into_split());
    let there = tokio::spawn(pump(near_read, far_write, (from, to), cuts.clone()));
    let back = tokio::spawn(pump(far_read, near_write, (to, from), cuts));
    let (mut there, mut back) = (there, back);
    // Either end's loss ends both: neither member would use half a connection.
    tokio::select! { _ = &mut there => back.abort(), _ = &mut back => there.abort() }
}

/// Carries one direction until its end, or an error.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, pair: (usize, usize), mut cuts: watch::Receiver<Cuts>) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        // An end, however it came about, is passed on like everything else: not while the wire carries nothing.
        let count = from.read(&mut piece).await.unwrap_or(0);
        if cuts.wait_for(|cuts| !cuts.contains(&pair)).await.is_err() || count == 0 {
            return;
        }
        if to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

/// Which member's process holds the socket with this local address.
fn owner_of(local: SocketAddrV4, owners: &[Option<u32>]) -> Option<usize> {
    let read = || inode_of(&std::fs::read_to_string("/proc/net/tcp").ok()?, local);
    let wanted = format!("socket:[{}]", (0..TABLE_READS).find_map(|_| read())?);
    owners.iter().position(|pid| pid.is_some_and(|pid| holds(pid, &wanted)))
}

/// The inode of the socket with this local address. The kernel writes addresses as hex of the bytes in its memory.
fn inode_of(table: &str, local: SocketAddrV4) -> Option<u64> {
    let address = format!("{:08X}:{:04X}", u32::from_ne_bytes(local.ip().octets()), local.port());
    let mut lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    // 1 is the local address, 9 the inode; 0 is a socket that nobody holds any more.
    lines.find(|words| words.get(1) == Some(&address.as_str()))?.get(9)?.parse().ok().filter(|inode| *inode != 0)
}

fn holds(pid: u32, socket: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| std::fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;

    /// A free port; another program may take it meanwhile, which only fails the test.
    fn port() -> u16 {
        std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn the_kernels_table_names_a_socket_of_ours() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 20 4 30 10 -1\n";
        assert_eq!(inode_of(table, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080)), Some(4711));
        assert_eq!(inode_of(table, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8081)), None);
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let SocketAddr::V4(local) = stream.local_addr().unwrap() else { panic!() };
        assert_eq!(owner_of(local, &[None, Some(std::process::id())]), Some(1));
        assert_eq!(owner_of(local, &[None]), None);
    }

    /// This process is member 1 and dials member 0: what it sends in a cut arrives after it, whole.
    #[test]
    fn a_cut_holds_what_is_sent_and_lets_it_go_afterwards() {
        let (advertised, own) = (port(), port());
        let member = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, own)).unwrap();
        let links = Links::start(&[(advertised, own), (port(), port())]).unwrap();
        links.set_owner(1, Some(std::process::id()));
        let mut near = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, advertised)).unwrap();
        let (mut far, _) = member.accept().unwrap();
        near.write_all(b"before").unwrap();
        let mut read = [0; 6];
        far.read_exact(&mut read).unwrap();
        links.cut_between(&[0], &[1]);
        near.write_all(b"during").unwrap();
        far.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(far.read(&mut read).is_err(), "nothing passes in a cut");
        far.set_read_timeout(None).unwrap();
        links.heal();
        far.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"during");
        drop(near);
        assert_eq!(far.read(&mut read).unwrap(), 0, "the end is carried as well");
    }

    #[test]
    fn a_stranger_is_turned_away() {
        let (advertised, own) = (port(), port());
        let _member = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, own)).unwrap();
        let _links = Links::start(&[(advertised, own)]).unwrap();
        let mut near = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, advertised)).unwrap();
        assert_eq!(near.read(&mut [0; 1]).unwrap_or(0), 0);
    }
}
