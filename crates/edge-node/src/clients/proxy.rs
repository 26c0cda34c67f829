//! The client of a proxy: the PROXY protocol, version 2, from the addresses that are listed and from nobody else.
//!
//! Always: a listed proxy begins each connection with a header, or is refused; from anybody else a header is what it is in
//! HTTP, nonsense. At most [`HEADER_BYTES_MAX`] are read for one, within the time a request's head has.
//! Held by: `what_is_no_header_is_refused_without_reading_on`.
//! Not here: which addresses are listed (config), what conditions of policies make of an address (door-s3).

use proxy_header::{ParseConfig, ProxyHeader};
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest header, with all that may come with the addresses.
pub const HEADER_BYTES_MAX: usize = 4 << 10;
/// What a header of version 2 begins with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The part of fixed length: the signature, command, family, and the length of the rest.
const FIXED_BYTES: usize = 16;

/// Who is at the other end of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxied {
    pub address: IpAddr,
    /// Whether the client speaks TLS with the proxy.
    pub secure: bool,
}

/// Why a connection of a listed proxy is not served.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("it sent no PROXY header of version 2; configure it to (HAProxy: send-proxy-v2-ssl), or take it out of the door's proxies in node.toml")]
    NoHeader,
    #[error("its PROXY header has {0} bytes; at most {HEADER_BYTES_MAX} are read")]
    TooLong(usize),
    #[error("its PROXY header is malformed: {0}")]
    Malformed(String),
    #[error("the connection ended in its PROXY header: {0}")]
    Io(#[from] std::io::Error),
}

/// Reads a proxy's header: the client it speaks for. The proxy's own checks of health speak for none.
pub async fn client(stream: &mut (impl AsyncRead + Unpin), proxy: SocketAddr) -> Result<Proxied, ProxyError> {
    let mut header = vec![0; FIXED_BYTES];
    stream.read_exact(&mut header).await?;
    if header[..SIGNATURE.len()] != SIGNATURE {
        return Err(ProxyError::NoHeader);
    }
    let rest = usize::from(u16::from_be_bytes([header[14], header[15]]));
    if FIXED_BYTES + rest > HEADER_BYTES_MAX {
        return Err(ProxyError::TooLong(FIXED_BYTES + rest));
    }
    header.resize(FIXED_BYTES + rest, 0);
    stream.read_exact(&mut header[FIXED_BYTES..]).await?;
    let malformed = |error: proxy_header::Error| ProxyError::Malformed(error.to_string());
    let (parsed, _) = ProxyHeader::parse(&header, ParseConfig::default()).map_err(malformed)?;
    let address = parsed.proxied_address().map_or(proxy.ip(), |client| client.source.ip());
    let secure = parsed.ssl().is_some_and(|ssl| ssl.client_ssl());
    Ok(Proxied { address: address.to_canonical(), secure })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proxy_header::{ProxiedAddress, SslInfo, Tlv};

    const PROXY: &str = "10.0.0.1:4000";

    fn header(secure: bool, padding: usize) -> Vec<u8> {
        let address = ProxiedAddress::stream("203.0.113.7:5".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        let mut tlvs = vec![Tlv::Noop(padding)];
        if secure {
            tlvs.push(Tlv::Ssl(SslInfo::new(true, false, false, 0)));
        }
        let mut out = Vec::new();
        ProxyHeader::with_tlvs(Some(address), tlvs).encode_v2(&mut out).unwrap();
        out
    }

    fn read(bytes: &[u8]) -> Result<(String, bool), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(client(&mut &bytes[..], PROXY.parse().unwrap()));
        found.map(|peer| (peer.address.to_string(), peer.secure)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_client_and_its_tls_are_read() {
        assert_eq!(read(&header(false, 0)), Ok(("203.0.113.7".into(), false)));
        assert_eq!(read(&header(true, 100)), Ok(("203.0.113.7".into(), true)));
        let mut local = Vec::new();
        ProxyHeader::with_local().encode_v2(&mut local).unwrap();
        assert_eq!(read(&local), Ok(("10.0.0.1".into(), false)), "a check of health");
    }

    #[test]
    fn what_is_no_header_is_refused_without_reading_on() {
        assert!(read(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap_err().contains("send-proxy-v2"));
        assert!(read(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n").unwrap_err().contains("send-proxy-v2"));
        assert!(read(&header(false, HEADER_BYTES_MAX)).unwrap_err().contains("at most 4096"));
        let whole = header(true, 10);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err(), "cut at {end}");
        }
        let mut bad = whole;
        bad[12] = 0x31;
        assert!(read(&bad).unwrap_err().contains("malformed"));
    }
}
