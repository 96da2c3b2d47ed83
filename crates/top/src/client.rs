//! Reads what is shown from a server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollgate_clock::SystemClock;
use tollgate_core::Clock;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::exposition::Exposition;
use crate::reading::{Readiness, Reading, Rules};

/// Maximum time of one reading.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of one response: 10,000 rules with their top keys take a few MiB.
const MAX_BYTES: u64 = 64 << 20;

/// Why there is no reading.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: std::path::PathBuf, source: std::io::Error },
    #[error("{}: no PEM certificate found; give the file of the certificate to trust", path.display())]
    NoCertificate { path: std::path::PathBuf },
    #[error("invalid URL {url:?}: expected http://HOST:PORT or https://HOST:PORT")]
    Address { url: String },
    #[error(
        "no response from {url}: {source}; is `tollgate serve` running there, and is that its HTTP address?"
    )]
    Silent { url: String, source: Box<ureq::Error> },
    #[error("{url} requires the admin token; give its file by --token-file, or set TOLLGATE_ADMIN_TOKEN")]
    Forbidden { url: String },
    #[error("{url} returned status {status}; is that a Tollgate server's HTTP address?")]
    Status { url: String, status: u16 },
    #[error("{url} returned an unexpected response ({what}); is that a Tollgate server of this version?")]
    Strange { url: String, what: String },
}

/// One server.
pub(crate) struct Client {
    agent: Agent,
    base: String,
    token: Option<String>,
    clock: SystemClock,
}

impl Client {
    pub(crate) fn new(url: &str, token_file: Option<&Path>, ca: Option<&Path>) -> Result<Self, ClientError> {
        let base = url.trim_end_matches('/').to_owned();
        if !(base.starts_with("http://") || base.starts_with("https://")) {
            return Err(ClientError::Address { url: url.to_owned() });
        }
        let read = |path: &Path| {
            std::fs::read(path).map_err(|source| ClientError::File { path: path.to_owned(), source })
        };
        let token = match token_file {
            Some(path) => Some(String::from_utf8_lossy(&read(path)?).trim().to_owned()),
            None => std::env::var("TOLLGATE_ADMIN_TOKEN").ok(),
        };
        let mut tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        if let Some(path) = ca {
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
        }
        let config = Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .tls_config(tls.build())
            .build();
        Ok(Self { agent: config.new_agent(), base, token, clock: SystemClock::new() })
    }

    /// The address, for people.
    pub(crate) fn shown(&self) -> &str {
        &self.base
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
            .map_err(|error| ClientError::Strange { url: self.url(path), what: error.to_string() })
    }

    fn get(&self, path: &str, good: &[u16]) -> Result<String, ClientError> {
        let url = self.url(path);
        let mut request = self.agent.get(&url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let silent = |source| ClientError::Silent { url: url.clone(), source: Box::new(source) };
        let mut response = request.call().map_err(silent)?;
        match response.status().as_u16() {
            status if good.contains(&status) => {}
            401 | 403 => return Err(ClientError::Forbidden { url }),
            status => return Err(ClientError::Status { url, status }),
        }
        response.body_mut().with_config().limit(MAX_BYTES).read_to_string().map_err(silent)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}
