//! Turns PEM files into the configuration of a rustls server, or names the file that is wrong. Not here: when
//! to read.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::{Error, ServerConfig};
use tollgate_tls::{Digest, PemFile, TlsError};

use super::expiry;
use super::named_clients::NamedClients;

/// Where a surface's certificate comes from. All files are PEM, of at most 1 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to its root.
    pub cert: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
    /// Certificates of which one must have signed a client's certificate; `None` asks clients for none.
    pub client_ca: Option<PathBuf>,
    /// DNS name or IP address that a client's certificate must hold, among its subject alternative names.
    /// Without `client_ca` it has no effect.
    pub client_name: Option<String>,
    /// Clients without a certificate are let in too, and the surface distinguishes them.
    pub is_client_optional: bool,
}

/// Configuration of new connections.
pub(super) struct Active {
    pub(super) config: Arc<ServerConfig>,
    pub(super) not_after: Option<i64>,
}

/// Contents of the files, or why they cannot be read.
pub(super) struct Contents {
    cert: PemFile,
    key: PemFile,
    client_ca: Option<PemFile>,
}

impl Contents {
    pub(super) fn read(files: &TlsFiles) -> Self {
        let TlsFiles { cert, key, client_ca, .. } = files;
        let client_ca = client_ca.as_deref().map(PemFile::read);
        Self { cert: PemFile::read(cert), key: PemFile::read(key), client_ca }
    }

    /// Equal for equal contents and for equal faults.
    pub(super) fn digests(&self) -> [Option<Digest>; 3] {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()].map(|file| file.map(PemFile::digest))
    }

    pub(super) fn active(&self, files: &TlsFiles, alpn: &[Vec<u8>]) -> Result<Active, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = self.cert.certificates()?;
        let not_after = chain.first().and_then(|certificate| expiry::not_after(certificate));
        let certified = CertifiedKey::new(chain, signing_key(&self.key, &provider)?);
        certified.keys_match().map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                let cert = files.cert.display();
                self.key.error(format!("is not the key of {cert}; give the two that belong together"))
            }
            error => self.cert.error(format!("holds no usable certificate first ({error})")),
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.cert.error(error))?;
        let builder = match &self.client_ca {
            Some(file) => {
                let signed = verifier(file, provider, files.is_client_optional)?;
                builder.with_client_cert_verifier(match &files.client_name {
                    Some(name) => Arc::new(NamedClients { signed, name: server_name(name)? }),
                    None => signed,
                })
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = alpn.to_vec();
        Ok(Active { config: Arc::new(config), not_after })
    }
}

/// A client's certificate must come from one of the authorities in `file`.
fn verifier(
    file: &PemFile,
    provider: Arc<CryptoProvider>,
    is_client_optional: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(file.authorities()?), provider);
    let verifier = if is_client_optional { verifier.allow_unauthenticated() } else { verifier };
    verifier.build().map_err(|error| file.error(error))
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    let invalid = |_| {
        let what = "invalid name of clients' certificates";
        TlsError::new(format!("{what} {name:?}: expected a DNS name or an IP address"))
    };
    ServerName::try_from(name.to_owned()).map_err(invalid)
}

fn signing_key(file: &PemFile, provider: &CryptoProvider) -> Result<Arc<dyn SigningKey>, TlsError> {
    provider.key_provider.load_private_key(file.private_key()?).map_err(|_| {
        file.error("holds a key that cannot be used; make an RSA, ECDSA (P-256, P-384, P-521) or Ed25519 key")
    })
}
