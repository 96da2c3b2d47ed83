//! Opens the stream to the control plane.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream;
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tollgate_fleet_proto::{ATTACH, ControlSays, FromNode, MAX_CONTROL_MESSAGE_BYTES, NodeSays};
use tollgate_tls::TlsClient;
use tonic::codegen::Service;
use tonic::metadata::MetadataValue;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

/// Timeout of one attempt to connect.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest token, in bytes.
const MAX_TOKEN: usize = 4096;

/// Where the control plane is, and how to prove who the node is.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// `http://host:port` or `https://host:port`.
    pub uri: Uri,
    /// Certificates for `https`; read again for each connection when they have changed.
    pub tls: Option<Arc<TlsClient>>,
    /// File with the node's token; read again for each connection.
    pub token_file: Option<PathBuf>,
}

/// Why there is no stream. The node keeps its rules and tries again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The token file cannot be used.
    #[error("cannot read the token in {}", path.display())]
    Token { path: PathBuf, source: io::Error },
    /// The address has no host, or needs TLS settings that are missing.
    #[error("invalid address {0}: expected http://host:port, or https://host:port with TLS settings")]
    Address(Uri),
    /// The control plane cannot be reached. The transport's error is part of the message, not a source: only
    /// its own words are shown, and not the errors of connections below it.
    #[error("cannot reach {uri}: {cause}")]
    Unreachable { uri: Uri, cause: tonic::transport::Error },
    /// It rejected the stream.
    #[error("the control plane rejected the stream: {}", .0.message())]
    Rejected(tonic::Status),
    /// No answer in time.
    #[error("no answer within {PATIENCE:?}")]
    Silent,
}

impl Endpoint {
    /// Opens a stream that sends what `outgoing` receives.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub async fn attach(
        &self,
        outgoing: mpsc::Receiver<FromNode>,
    ) -> Result<Streaming<ControlSays>, ConnectError> {
        tokio::time::timeout(PATIENCE, self.try_attach(outgoing)).await.unwrap_or(Err(ConnectError::Silent))
    }

    async fn try_attach(
        &self,
        mut outgoing: mpsc::Receiver<FromNode>,
    ) -> Result<Streaming<ControlSays>, ConnectError> {
        let unreachable = |cause| ConnectError::Unreachable { uri: self.uri.clone(), cause };
        let connector = Connector::to(self)?;
        // The connector encrypts; the transport must not try to.
        let channel = tonic::transport::Endpoint::from(connector.plain_uri()?)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(5))
            .keep_alive_while_idle(true)
            .connect_with_connector(connector)
            .await
            .map_err(unreachable)?;
        let mut client =
            tonic::client::Grpc::new(channel).max_decoding_message_size(MAX_CONTROL_MESSAGE_BYTES);
        client.ready().await.map_err(unreachable)?;
        let says =
            stream::poll_fn(move |context| outgoing.poll_recv(context).map(|it| it.map(NodeSays::from)));
        let mut request = Request::new(says);
        if let Some(token) = self.token()? {
            request.metadata_mut().insert("authorization", token);
        }
        let codec = ProstCodec::<NodeSays, ControlSays>::default();
        let answer = client.streaming(request, PathAndQuery::from_static(ATTACH), codec).await;
        Ok(answer.map_err(ConnectError::Rejected)?.into_inner())
    }

    fn token(&self) -> Result<Option<MetadataValue<tonic::metadata::Ascii>>, ConnectError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let invalid = |message: &str| io::Error::new(io::ErrorKind::InvalidData, message);
        let token = std::fs::read_to_string(path).and_then(|text| match text.trim() {
            "" => Err(invalid("it is empty")),
            token if token.len() > MAX_TOKEN => Err(invalid("it is too long")),
            token => MetadataValue::try_from(format!("Bearer {token}"))
                .map_err(|_| invalid("it has characters that a header cannot have")),
        });
        let mut token = token.map_err(|source| ConnectError::Token { path: path.clone(), source })?;
        token.set_sensitive(true);
        Ok(Some(token))
    }
}

/// Opens TCP or TLS connections to one address.
#[derive(Clone)]
struct Connector {
    host: String,
    port: u16,
    tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Connector {
    fn to(endpoint: &Endpoint) -> Result<Self, ConnectError> {
        let uri = &endpoint.uri;
        let invalid = || ConnectError::Address(uri.clone());
        let host = uri.host().ok_or_else(invalid)?.trim_matches(['[', ']']).to_owned();
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (uri.port_u16().unwrap_or(80), None),
            Some("https") => {
                let mut config = (*endpoint.tls.as_ref().ok_or_else(invalid)?.config()).clone();
                config.alpn_protocols = vec![b"h2".to_vec()];
                let name = ServerName::try_from(host.clone()).map_err(|_| invalid())?;
                (uri.port_u16().unwrap_or(443), Some((Arc::new(config), name)))
            }
            _ => return Err(invalid()),
        };
        Ok(Self { host, port, tls })
    }

    fn plain_uri(&self) -> Result<Uri, ConnectError> {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let uri = format!("http://{host}:{}", self.port);
        uri.parse().map_err(|_| ConnectError::Address(Uri::default()))
    }

    async fn open(self) -> io::Result<TokioIo<Box<dyn Io>>> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tcp.set_nodelay(true)?;
        let io: Box<dyn Io> = match self.tls {
            None => Box::new(tcp),
            Some((config, name)) => {
                Box::new(tokio_rustls::TlsConnector::from(config).connect(name, tcp).await?)
            }
        };
        Ok(TokioIo::new(io))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(self.clone().open())
    }
}
