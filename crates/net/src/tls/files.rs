//! From the bytes of PEM files to what rustls needs, or to the name of the file that is wrong. Not here: when to read.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::{Error, RootCertStore, ServerConfig};

use super::{Active, TlsError, TlsFiles, expiry};

/// The largest file that is read. The bundle of all public authorities has a quarter of it.
const MAX_BYTES: u64 = 1 << 20;

/// What the files hold, or why they cannot be read.
pub(super) struct Contents {
    cert: io::Result<Vec<u8>>,
    key: io::Result<Vec<u8>>,
    client_ca: Option<io::Result<Vec<u8>>>,
}

impl Contents {
    pub(super) fn read(files: &TlsFiles) -> Self {
        let TlsFiles { cert, key, client_ca } = files;
        Self { cert: read(cert), key: read(key), client_ca: client_ca.as_deref().map(read) }
    }

    /// Equal for equal contents and for equal faults.
    pub(super) fn identity(&self) -> impl std::hash::Hash {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()]
            .map(|read| read.map(|read| read.as_deref().map_err(io::Error::kind)))
    }

    pub(super) fn active(&self, files: &TlsFiles, alpn: &[Vec<u8>]) -> Result<Active, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = certificates(&files.cert, &self.cert)?;
        let not_after = chain.first().and_then(|certificate| expiry::not_after(certificate));
        let certified = CertifiedKey::new(chain, signing_key(&files.key, &self.key, &provider)?);
        certified.keys_match().map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                let cert = files.cert.display();
                TlsError::new(
                    &files.key,
                    format!("is not the key of {cert}; give the two that belong together"),
                )
            }
            error => TlsError::new(&files.cert, format!("holds no usable certificate first ({error})")),
        })?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(&files.cert, error))?;
        let builder = match (&files.client_ca, &self.client_ca) {
            (Some(file), Some(text)) => builder.with_client_cert_verifier(verifier(file, text, provider)?),
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = alpn.to_vec();
        Ok(Active { config: Arc::new(config), not_after })
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    Ok(bytes)
}

/// A client's certificate must come from one of the authorities in `file`.
fn verifier(
    file: &Path,
    text: &io::Result<Vec<u8>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, text)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError::new(file, format!("holds an unusable certificate ({error})")))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| TlsError::new(file, error))
}

fn certificates(file: &Path, text: &io::Result<Vec<u8>>) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_slice_iter(readable(file, text)?).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if found.is_empty() => {
            Err(TlsError::new(file, "holds no certificate; it needs a part BEGIN CERTIFICATE (PEM)"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(broken(file, &error)),
    }
}

fn signing_key(
    file: &Path,
    text: &io::Result<Vec<u8>>,
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, TlsError> {
    let key = PrivateKeyDer::from_pem_slice(readable(file, text)?).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::new(
            file,
            "holds no private key; it needs a part BEGIN PRIVATE KEY (PEM), not encrypted",
        ),
        error => broken(file, &error),
    })?;
    provider.key_provider.load_private_key(key).map_err(|_| {
        TlsError::new(
            file,
            "holds a key that cannot be used; make an RSA, ECDSA (P-256, P-384, P-521) or Ed25519 key",
        )
    })
}

fn readable<'t>(file: &Path, text: &'t io::Result<Vec<u8>>) -> Result<&'t [u8], TlsError> {
    match text {
        Ok(text) => Ok(text),
        Err(error) => Err(TlsError::new(file, format!("cannot be read: {error}"))),
    }
}

/// Says what kind of fault it is, and nothing of the text: it may be a key's.
fn broken(file: &Path, error: &pem::Error) -> TlsError {
    let what = match error {
        pem::Error::MissingSectionEnd { .. } => {
            "ends within a part; write it whole, to another name, and rename it"
        }
        _ => "is not PEM; it needs parts from BEGIN to END with base64 between them",
    };
    TlsError::new(file, what)
}
