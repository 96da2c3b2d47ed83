//! Address of the service, and the beginning of a connection to it, plain or encrypted. Not here: the
//! protocols.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tollgate_tls::{TlsClient, TlsClientFiles};

use crate::error::AddressError;

/// Calls that may wait at a time.
pub(crate) const MAX_WAITING: usize = 10_000;
/// Longest time of an attempt to connect, whatever callers still wait.
pub(crate) const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Pause after a failed attempt in which no new connection is tried.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Protocol of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Grpc,
}

/// Both directions of a connection.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An address, and the settings to connect to it.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) protocol: Protocol,
    pub(crate) authority: Authority,
    port: u16,
    tls: Option<(TlsClient, ServerName<'static>)>,
}

impl Connector {
    /// Reads an address such as `grpcs://tollgate:8081`.
    pub(crate) fn read(address: &str, files: TlsClientFiles) -> Result<Self, AddressError> {
        let invalid = || AddressError::Invalid(address.to_owned());
        let uri: Uri = address.parse().map_err(|_| invalid())?;
        let (protocol, is_encrypted, port) = match uri.scheme_str() {
            Some("http") => (Protocol::Http, false, 80),
            Some("https") => (Protocol::Http, true, 443),
            Some("grpc") => (Protocol::Grpc, false, 80),
            Some("grpcs") => (Protocol::Grpc, true, 443),
            _ => return Err(invalid()),
        };
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(invalid());
        }
        let authority = uri.authority().ok_or_else(invalid)?.clone();
        let tls = if is_encrypted {
            let name = ServerName::try_from(host(&authority).to_owned()).map_err(|_| invalid())?;
            Some((TlsClient::load(files)?, name))
        } else if files == TlsClientFiles::default() {
            None
        } else {
            return Err(AddressError::NotEncrypted(address.to_owned()));
        };
        let port = authority.port_u16().unwrap_or(port);
        Ok(Self { protocol, authority, port, tls })
    }

    /// The scheme that requests name.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// A new connection, or why there is none.
    pub(crate) async fn open(&self) -> Result<Box<dyn Io>, String> {
        match tokio::time::timeout(CONNECT_WITHIN, self.connect()).await {
            Ok(opened) => opened.map_err(|error| error.to_string()),
            Err(_) => Err("connecting took too long".to_owned()),
        }
    }

    async fn connect(&self) -> std::io::Result<Box<dyn Io>> {
        let stream = TcpStream::connect((host(&self.authority), self.port)).await?;
        stream.set_nodelay(true)?;
        let Some((client, name)) = &self.tls else { return Ok(Box::new(stream)) };
        let mut config = (*client.config()).clone();
        config.alpn_protocols = vec![match self.protocol {
            Protocol::Http => b"http/1.1".to_vec(),
            Protocol::Grpc => b"h2".to_vec(),
        }];
        let stream = TlsConnector::from(Arc::new(config)).connect(name.clone(), stream).await?;
        Ok(Box::new(stream))
    }
}

/// The host without the brackets of an IPv6 address.
fn host(authority: &Authority) -> &str {
    authority.host().trim_start_matches('[').trim_end_matches(']')
}
