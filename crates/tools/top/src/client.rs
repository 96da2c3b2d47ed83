//! Reads the data to show from a server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollgate_clock::SystemClock;
use tollgate_core::Clock;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use crate::address::Address;
use crate::exposition::Exposition;
use crate::reading::{Readiness, Reading, Rules};
use crate::unix::Socket;

/// Maximum time of one reading.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of one response: 10,000 rules with their top keys take a few MiB.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum size of the response that says why a request is not allowed.
const MAX_PROBLEM: u64 = 1 << 16;

/// That response, of `application/problem+json`.
#[derive(serde::Deserialize)]
struct Problem {
    detail: String,
}

/// Why there is no reading.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("cannot read {}", path.display())]
    File { path: std::path::PathBuf, source: std::io::Error },
    #[error("{}: no PEM certificate found; give the file of the certificate to trust", path.display())]
    NoCertificate { path: std::path::PathBuf },
    #[error("this machine has no list of authorities; give --ca FILE with the server's (PEM)")]
    NoAuthorities,
    #[error(
        "no response from {url}: {cause}; is `tollgate serve` running there, and is that its HTTP address?"
    )]
    Silent { url: String, cause: Box<ureq::Error> },
    #[error("{url} requires the admin token; give its file by --token-file, or set TOLLGATE_ADMIN_TOKEN")]
    NeedsToken { url: String },
    #[error("{url} rejected the admin token; check the file of --token-file, or TOLLGATE_ADMIN_TOKEN")]
    WrongToken { url: String },
    /// Whatever token is sent: the server has none, or answers other names only.
    #[error("{url} is not allowed by the server: {detail}")]
    NotAllowed { url: String, detail: String },
    /// Too many wrong tokens came from this address.
    #[error("{url} is not available for now: {detail}; correct the token before the next try")]
    Slowed { url: String, detail: String },
    #[error(
        "{url} is not available (status 503): {detail}; the server starts, ends or is overloaded: its log and /readyz \
         say which"
    )]
    Unavailable { url: String, detail: String },
    #[error("{url} returned status {status}; is that a Tollgate server's HTTP address?")]
    Status { url: String, status: u16 },
    #[error("{url} returned an unexpected response ({what}); is that a Tollgate server of this version?")]
    Strange { url: String, what: String },
}

/// Which servers are trusted in TLS.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trust<'a> {
    /// Those whose certificate this file vouches for; otherwise those that this machine's authorities do.
    pub(crate) ca: Option<&'a Path>,
    /// Accepts any certificate.
    pub(crate) insecure: bool,
}

/// Sends requests to `address`, each of which takes at most `timeout`.
pub(crate) fn agent(address: &Address, trust: Trust<'_>, timeout: Duration) -> Result<Agent, ClientError> {
    let mut tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .disable_verification(trust.insecure);
    if let Some(path) = trust.ca {
        let pem = read(path)?;
        let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        if certificates.is_empty() {
            return Err(ClientError::NoCertificate { path: path.to_owned() });
        }
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
    } else if address.is_https() && !trust.insecure {
        let found = rustls_native_certs::load_native_certs().certs;
        if found.is_empty() {
            return Err(ClientError::NoAuthorities);
        }
        let found: Vec<_> = found.iter().map(|found| Certificate::from_der(found).to_owned()).collect();
        tls = tls.root_certs(RootCerts::new_with_certs(&found));
    }
    let config = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .proxy(None)
        .max_redirects(0)
        .tls_config(tls.build())
        .build();
    Ok(match address.socket() {
        Some(path) => Agent::with_parts(config, Socket(path.to_owned()), NoNames),
        None => config.new_agent(),
    })
}

/// A socket needs no address of a name.
#[derive(Debug)]
struct NoNames;

impl Resolver for NoNames {
    fn resolve(
        &self,
        _: &ureq::http::Uri,
        _: &ureq::config::Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        Ok(self.empty())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ClientError> {
    std::fs::read(path).map_err(|source| ClientError::File { path: path.to_owned(), source })
}

/// Connection settings of one server.
pub(crate) struct HttpClient {
    agent: Agent,
    address: Address,
    token: Option<String>,
    clock: SystemClock,
}

impl HttpClient {
    pub(crate) fn new(
        address: Address,
        token_file: Option<&Path>,
        ca: Option<&Path>,
    ) -> Result<Self, ClientError> {
        let token = match token_file {
            Some(path) => Some(String::from_utf8_lossy(&read(path)?).trim().to_owned()),
            None => std::env::var("TOLLGATE_ADMIN_TOKEN").ok(),
        };
        let agent = agent(&address, Trust { ca, insecure: false }, TIMEOUT)?;
        Ok(Self { agent, address, token, clock: SystemClock::new() })
    }

    /// The address, for people.
    pub(crate) fn shown(&self) -> String {
        self.address.to_string()
    }

    /// The current state of the server.
    pub(crate) fn read(&self) -> Result<Reading, ClientError> {
        let rules: Rules = self.json("/v1/rules", &[200])?;
        let readiness: Readiness = self.json("/readyz", &[200, 503])?;
        let metrics = Exposition::parse(&self.get("/metrics", &[200])?);
        Ok(Reading { at: self.clock.now(), rules, readiness, metrics })
    }

    fn json<T: serde::de::DeserializeOwned>(&self, path: &str, good: &[u16]) -> Result<T, ClientError> {
        let text = self.get(path, good)?;
        serde_json::from_str(&text)
            .map_err(|error| ClientError::Strange { url: self.address.shown(path), what: error.to_string() })
    }

    fn get(&self, path: &str, good: &[u16]) -> Result<String, ClientError> {
        let url = self.address.shown(path);
        let mut request = self.agent.get(self.address.url(path));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let silent = |cause| ClientError::Silent { url: url.clone(), cause: Box::new(cause) };
        let mut response = request.call().map_err(silent)?;
        let status = response.status().as_u16();
        if !good.contains(&status) {
            let text = response.body_mut().with_config().limit(MAX_PROBLEM).read_to_string();
            let problem = text.ok().and_then(|text| serde_json::from_str::<Problem>(&text).ok());
            let detail = problem.map(|problem| problem.detail);
            return Err(match status {
                401 if self.token.is_none() => ClientError::NeedsToken { url },
                401 => ClientError::WrongToken { url },
                403 => {
                    let otherwise = "it answers only on its own machine, or has no admin token";
                    ClientError::NotAllowed { url, detail: detail.unwrap_or_else(|| otherwise.to_owned()) }
                }
                429 => {
                    let otherwise = "too many requests or wrong tokens came from this address";
                    ClientError::Slowed { url, detail: detail.unwrap_or_else(|| otherwise.to_owned()) }
                }
                503 => {
                    let otherwise = "the reply has no reason";
                    ClientError::Unavailable { url, detail: detail.unwrap_or_else(|| otherwise.to_owned()) }
                }
                status => ClientError::Status { url, status },
            });
        }
        response.body_mut().with_config().limit(MAX_BYTES).read_to_string().map_err(silent)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Sends `reply` to one request, and returns its URL.
    fn answering(reply: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                request.push(byte[0]);
            }
            stream.write_all(reply.as_bytes()).expect("sent");
        });
        url
    }

    #[test]
    fn a_reading_that_is_not_allowed_says_whose_token_is_missing() {
        let unauthorized = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
        let forbidden =
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 33\r\n\r\n{\"detail\":\"the server has none\"}\n";
        let strange = "HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno";
        for (reply, token, want) in [
            (unauthorized, None, "/v1/rules requires the admin token; give its file by --token-file"),
            (
                unauthorized,
                Some("guess"),
                "/v1/rules rejected the admin token; check the file of --token-file",
            ),
            (forbidden, None, "/v1/rules is not allowed by the server: the server has none"),
            (forbidden, Some("guess"), "/v1/rules is not allowed by the server: the server has none"),
            (
                "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 34\r\n\r\n{\"detail\":\"try again in 30 s\"}    ",
                Some("guess"),
                "/v1/rules is not available for now: try again in 30 s; correct the token before the next try",
            ),
            (
                "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
                None,
                "/v1/rules is not available (status 503): the reply has no reason; the server starts, ends or is",
            ),
            (
                "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
                None,
                "returned status 404; is that a Tollgate server's HTTP address?",
            ),
            (
                strange,
                None,
                "is not allowed by the server: it answers only on its own machine, or has no admin",
            ),
        ] {
            let mut client =
                HttpClient::new(answering(reply).parse().expect("a URL"), None, None).expect("a client");
            client.token = token.map(str::to_owned);
            let error = client.read().expect_err("not allowed").to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn a_server_is_read_over_a_unix_socket() {
        let folder = std::env::temp_dir().join(format!("tollgate-top-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("http.sock");
        let listener = UnixListener::bind(&path).expect("a free path");
        let server = std::thread::spawn(move || {
            for body in ["{\"version\":\"v1\"}", "{\"ready\":true}", "a 1\n"] {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).expect("a request");
                    request.push(byte[0]);
                }
                let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream.write_all(text.as_bytes()).expect("sent");
            }
        });
        let address: Address = format!("unix:{}", path.display()).parse().expect("an address");
        let client = HttpClient::new(address.clone(), None, None).expect("a client");
        let reading = client.read().expect("a reading");
        assert_eq!((reading.rules.version.as_str(), reading.readiness.ready), ("v1", true));
        assert_eq!(reading.metrics.sum("a", &[]), 1.0);
        server.join().expect("it ends");
        std::fs::remove_dir_all(&folder).expect("removed");
        let error = client.read().expect_err("nothing is there").to_string();
        let want = format!("no response from /v1/rules at {address}: ");
        assert!(error.starts_with(&want) && error.contains("tollgate serve"), "{error}");
    }
}
