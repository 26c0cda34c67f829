//! The connection a lane dials to one peer, kept up as long as the peer is wanted.
//!
//! By design: backs off with jitter; gives up a connection on which nothing is heard for `SILENCE_MAX`.

use super::link::Link;
use super::wire::{encode, frame_header, take, Hello, Message, HELLO_BYTES_MAX};
use super::{PeerSet, CONNECT_TIMEOUT, PING_EVERY, REDIAL_FIRST, REDIAL_LAST, SILENCE_MAX};
use crate::tls::Lasting;
use base_types::format_level::LEVEL_MAX;
use base_types::{FormatLevel, LaneId, NodeId};
use bytes::{Bytes, BytesMut};
use core_node::api::Event;
use std::cell::Cell;
use std::io::IoSlice;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::TlsConnector;

/// Bytes handed to one write.
const WRITE_BYTES: usize = 256 << 10;
/// Frames handed to one write.
const WRITE_FRAMES: usize = 256;
/// What TLS may hold of one write before it goes to the socket, so that a turn is one system call.
const TLS_BUFFER_BYTES: usize = 1 << 20;

/// Dials, sends, and dials again, until the link is ended.
pub async fn run(set: Rc<PeerSet>, link: Rc<Link>) {
    let mut pause = REDIAL_FIRST;
    loop {
        match connect(&set, &link).await {
            Ok((stream, lasting)) => {
                pause = REDIAL_FIRST;
                link.set_connected(true);
                set.outgoing(link.node, true);
                let reason = tokio::select! {
                    reason = pump(&set, &link, stream) => reason,
                    reason = set.identities.over(lasting) => reason.into(),
                };
                tracing::debug!(node = %link.node, %reason, "connection to a peer lost");
                let dropped = link.set_connected(false);
                set.count(0, 0, dropped);
                set.outgoing(link.node, false);
            }
            Err(reason) => {
                let dropped = link.set_connected(false);
                set.count(0, 0, dropped);
                if let Some(suppressed) = set.quiet.allow() {
                    tracing::warn!(node = %link.node, address = link.address(), %reason, suppressed, "a peer cannot be connected to");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(set.jitter.around(pause)) => {}
            () = link.moved.notified() => {}
            () = link.returned.notified() => pause = REDIAL_FIRST,
        }
        pause = (pause * 2).min(REDIAL_LAST);
    }
}

/// A connection, and how long its certificates allow.
async fn connect(set: &PeerSet, link: &Link) -> Result<(TlsStream<TcpStream>, Lasting), String> {
    match timeout(CONNECT_TIMEOUT, connect_slowly(set, link)).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} ms", CONNECT_TIMEOUT.as_millis())),
    }
}

async fn connect_slowly(set: &PeerSet, link: &Link) -> Result<(TlsStream<TcpStream>, Lasting), String> {
    let stream = TcpStream::connect(link.address()).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let identity = set.identities.current();
    let name = identity.name_of(link.node)?;
    let mut stream =
        TlsConnector::from(identity.client.clone()).connect(name, stream).await.map_err(|error| error.to_string())?;
    stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER_BYTES));
    // Again with the reading of a peer's certificate that both directions share.
    let lasting = identity.check(stream.get_ref().1.peer_certificates().unwrap_or(&[]), link.node)?;
    greet(set, link.node, &mut stream).await?;
    Ok((stream, lasting))
}

async fn greet(set: &PeerSet, node: NodeId, stream: &mut TlsStream<TcpStream>) -> Result<(), String> {
    let own = &set.own;
    let hello = Hello {
        world: own.world.clone(),
        incarnation: own.incarnation.load(Ordering::Relaxed),
        node: own.node,
        boot: own.boot,
        lane: set.lane,
        lane_count: own.lane_count,
        to: node,
        level: FormatLevel(own.level.load(Ordering::Relaxed)),
        level_max: LEVEL_MAX,
    };
    stream.write_all(&encode(&Message::Hello(hello))).await.map_err(|error| error.to_string())?;
    stream.flush().await.map_err(|error| error.to_string())?;
    let mut buffer = BytesMut::with_capacity(HELLO_BYTES_MAX);
    loop {
        match take(&mut buffer, HELLO_BYTES_MAX).map_err(|error| error.to_string())? {
            Some(Message::Welcome { node: other, .. }) if other == node => return Ok(()),
            Some(Message::Welcome { node: other, .. }) => return Err(format!("node {other} answered")),
            Some(Message::Refused { reason, incarnation, level }) => {
                if level.0 > own.level.load(Ordering::Relaxed) {
                    // Kept, so that a build that does not serve it ends; the peer's reason names what to install.
                    tracing::warn!(%node, "refused: {reason}");
                    set.door.push(Event::FormatLevel { level, from: node });
                }
                if incarnation > own.incarnation.load(Ordering::Relaxed) {
                    set.door.push(Event::WorldReborn { heard: incarnation, from: node });
                }
                return Err(format!("refused: {reason}"));
            }
            Some(_) => return Err("it did not answer the hello".into()),
            None => {}
        }
        if stream.read_buf(&mut buffer).await.map_err(|error| error.to_string())? == 0 {
            return Err("it closed the connection instead of answering the hello".into());
        }
    }
}

/// Sends until the connection is lost; why it was.
async fn pump(set: &PeerSet, link: &Link, stream: TlsStream<TcpStream>) -> String {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let heard = Cell::new(Instant::now());
    tokio::select! {
        reason = hear(&mut reader, &heard) => reason,
        reason = write(set, link, &mut writer) => reason,
        () = silence(&heard) => format!("nothing heard for {} ms", SILENCE_MAX.as_millis()),
        () = link.moved.notified() => "the peer has moved".into(),
    }
}

/// Only pongs come on a connection we dialled.
async fn hear(reader: &mut (impl AsyncRead + Unpin), heard: &Cell<Instant>) -> String {
    let mut buffer = BytesMut::with_capacity(HELLO_BYTES_MAX);
    loop {
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return "closed by the peer".into(),
            Ok(_) => heard.set(Instant::now()),
            Err(error) => return error.to_string(),
        }
        loop {
            match take(&mut buffer, HELLO_BYTES_MAX) {
                Ok(Some(Message::Pong)) => {}
                Ok(Some(_)) => return "it sent something else than a pong".into(),
                Ok(None) => break,
                Err(error) => return error.to_string(),
            }
        }
    }
}

async fn silence(heard: &Cell<Instant>) {
    while heard.get().elapsed() < SILENCE_MAX {
        tokio::time::sleep(SILENCE_MAX.saturating_sub(heard.get().elapsed())).await;
    }
}

async fn write(set: &PeerSet, link: &Link, writer: &mut (impl AsyncWrite + Unpin)) -> String {
    let mut ping = tokio::time::interval(PING_EVERY);
    let mut frames = Vec::new();
    loop {
        if link.is_empty() {
            tokio::select! {
                () = link.wake.notified() => {}
                _ = ping.tick() => {
                    if let Err(error) = write_flushed(writer, &encode(&Message::Ping)).await {
                        return error.to_string();
                    }
                }
            }
        } else if futures_ready(&mut ping).await {
            // Pings are not held up by a queue that never empties.
            if let Err(error) = write_flushed(writer, &encode(&Message::Ping)).await {
                return error.to_string();
            }
        }
        link.take(WRITE_BYTES, WRITE_FRAMES, &mut frames);
        if frames.is_empty() {
            continue;
        }
        match write_frames(writer, &frames).await {
            Ok(bytes) => set.count(bytes, frames.len() as u64, 0),
            Err(error) => return error.to_string(),
        }
        frames.clear();
    }
}

/// Whether the interval has passed, without waiting.
async fn futures_ready(interval: &mut tokio::time::Interval) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(interval.poll_tick(context).is_ready())).await
}

async fn write_flushed(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}

/// All of them in one vectored write where the socket takes it.
async fn write_frames(writer: &mut (impl AsyncWrite + Unpin), frames: &[(LaneId, Bytes)]) -> std::io::Result<u64> {
    let headers: Vec<_> = frames.iter().map(|(lane, frame)| frame_header(*lane, frame.len())).collect();
    let mut parts: Vec<IoSlice<'_>> = Vec::with_capacity(frames.len() * 2);
    let mut bytes = 0;
    for (header, (_, frame)) in headers.iter().zip(frames) {
        parts.push(IoSlice::new(header));
        parts.push(IoSlice::new(frame));
        bytes += header.len() + frame.len();
    }
    let mut left = &mut parts[..];
    while !left.is_empty() {
        let written = writer.write_vectored(left).await?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut left, written);
    }
    writer.flush().await?;
    Ok(bytes as u64)
}
