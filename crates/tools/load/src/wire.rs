//! A connection: the socket, TLS if wanted, and the bytes in both directions.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tollgate_clock::SystemClock;
use tollgate_core::Clock as _;
use tollgate_tls::TlsClientFiles;

use crate::codec::Broken;
use crate::lane::Lane;
use crate::tally::Tally;
use crate::{Plan, Protocol, RunError, Target, TargetAddress};

/// Bytes read at once, and the longest reply.
const INPUT: usize = 1 << 16;
const MAX_INPUT: usize = 1 << 24;

trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

pub(crate) struct Wire {
    io: Box<dyn Io>,
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    written: usize,
}

/// Makes connections to one target.
#[derive(Clone)]
pub(crate) struct Dialler {
    target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    patience: Duration,
}

impl Dialler {
    pub(crate) fn new(plan: &Plan) -> Result<Self, RunError> {
        let tls = plan.target.is_tls.then(|| tls(plan)).transpose()?;
        Ok(Self { target: plan.target.clone(), tls, patience: plan.patience })
    }

    /// A new connection.
    ///
    /// # Errors
    /// When the target does not accept connections, or the TLS handshake fails.
    pub(crate) async fn dial(&self) -> Result<Wire, RunError> {
        let dialled = tokio::time::timeout(self.patience, self.connect()).await;
        let dialled = dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let io = dialled.map_err(|cause| RunError::unreachable(&self.target, cause))?;
        Ok(Wire { io, input: vec![0; INPUT], filled: 0, output: Vec::new(), written: 0 })
    }

    async fn connect(&self) -> io::Result<Box<dyn Io>> {
        let (host, port) = match &self.target.place {
            TargetAddress::Tcp { host, port } => (host.as_str(), *port),
            TargetAddress::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        };
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            Some((connector, name)) => Box::new(connector.connect(name.clone(), stream).await?),
            None => Box::new(stream),
        })
    }
}

fn tls(plan: &Plan) -> Result<(TlsConnector, ServerName<'static>), RunError> {
    let fault = |what: String| RunError::Tls { what };
    if plan.ca.is_none() {
        let what = "give the certificate that vouches for the server with --ca FILE (PEM)";
        return Err(fault(what.to_owned()));
    }
    let (certificate_file, key_file) = plan.identity.clone().unzip();
    let ca_file = plan.ca.clone();
    let files = TlsClientFiles { ca_file, certificate_file, key_file, ..TlsClientFiles::default() };
    let mut config = files.config().map_err(|error| fault(error.to_string()))?;
    config.alpn_protocols = match plan.target.protocol {
        Protocol::Grpc => vec![b"h2".to_vec()],
        Protocol::Http => vec![b"http/1.1".to_vec()],
        Protocol::Resp => Vec::new(),
    };
    let TargetAddress::Tcp { host, .. } = &plan.target.place else {
        return Err(fault("a Unix socket has no name that a certificate could be for".to_owned()));
    };
    let name = ServerName::try_from(host.clone()).map_err(|error| fault(error.to_string()))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

impl Wire {
    /// Sends the first bytes of the protocol.
    pub(crate) fn open(&mut self, lane: &mut Lane) {
        lane.open(&mut self.output);
    }

    /// Sends and reads as much as is possible without waiting; ready when the lane has done all of its work.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        lane: &mut Lane,
        tally: &mut Tally,
        clock: &SystemClock,
    ) -> Poll<Result<(), Broken>> {
        let mut now = clock.now();
        loop {
            lane.fill(now, &mut self.output, tally);
            self.write(cx)?;
            if lane.is_done() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut self.input[self.filled..]);
            match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broken(&error))),
                Poll::Ready(Ok(())) => {}
            }
            let count = buffer.filled().len();
            if count == 0 {
                return Poll::Ready(Err(Broken::from("the server closed the connection")));
            }
            self.filled += count;
            now = clock.now();
            let read = lane.read(&self.input[..self.filled], &mut self.output, now, tally)?;
            self.input.copy_within(read..self.filled, 0);
            self.filled -= read;
            if self.filled == self.input.len() {
                if self.filled >= MAX_INPUT {
                    return Poll::Ready(Err(Broken::from("a reply of more than 16 MiB")));
                }
                self.input.resize(self.filled * 2, 0);
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        while self.written < self.output.len() {
            match Pin::new(&mut self.io).poll_write(cx, &self.output[self.written..]) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(Broken::from("the server closed the connection")),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Err(broken(&error)),
            }
        }
        self.output.clear();
        self.written = 0;
        // TLS may have kept some back; a plain socket does nothing here.
        match Pin::new(&mut self.io).poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(broken(&error)),
            _ => Ok(()),
        }
    }
}

fn broken(error: &io::Error) -> Broken {
    Broken::Off(format!("the connection broke: {error}"))
}
