//! Certificates: read from files, checked, used for new connections, and read again when the files change.
//!
//! TLS 1.2 and 1.3 by rustls with the aws-lc-rs provider. Not here: whose certificate may do what beyond "signed by the
//! client CA", and when to look at the files again (the server says).

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// Where a surface's certificate comes from. All files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to its root.
    pub cert: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
    /// Certificates of which one must have signed a client's certificate; `None` asks clients for none.
    pub client_ca: Option<PathBuf>,
}

/// What is wrong with a file: where, what, and what to do instead. Holds nothing of a key.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", .file.display())]
pub struct TlsError {
    file: PathBuf,
    what: String,
}

/// A certificate in use and the files that it came from.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    alpn: Vec<Vec<u8>>,
    active: ArcSwap<ServerConfig>,
    seen: Mutex<Seen>,
    hasher: RandomState,
}

/// What the files held, as hashes: no second copy of a key.
#[derive(Debug)]
struct Seen {
    active: u64,
    last: u64,
}

impl Tls {
    /// Reads `files`; connections agree on one of `alpn` (`h2`, `http/1.1`), or on nothing where either side names none.
    ///
    /// # Errors
    /// [`TlsError`] names the file that cannot be used, and why.
    pub fn load(files: TlsFiles, alpn: &[&str]) -> Result<Self, TlsError> {
        let alpn: Vec<_> = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let texts = Texts::read(&files);
        let hasher = RandomState::new();
        let active = hasher.hash_one(texts.identity());
        let config = texts.config(&files, &alpn)?;
        Ok(Self {
            files,
            alpn,
            active: ArcSwap::from_pointee(config),
            seen: Mutex::new(Seen { active, last: active }),
            hasher,
        })
    }

    /// Reads the files again; true when new connections get another certificate from now on. Existing ones go on as they are.
    ///
    /// Reads a few small files and blocks meanwhile; call it every few seconds and when asked to reload.
    ///
    /// # Errors
    /// [`TlsError`] when what the files hold now cannot be used, once for each such content; the certificate stays in use.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = Texts::read(&self.files);
        let found = self.hasher.hash_one(texts.identity());
        if found == std::mem::replace(&mut seen.last, found) || found == seen.active {
            return Ok(false);
        }
        self.active.store(Arc::new(texts.config(&self.files, &self.alpn)?));
        seen.active = found;
        Ok(true)
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.active.load_full())
    }
}

/// The files' contents, or why they could not be read.
struct Texts {
    cert: Read,
    key: Read,
    client_ca: Option<Read>,
}

type Read = Result<Vec<u8>, io::Error>;

impl Texts {
    fn read(files: &TlsFiles) -> Self {
        Self {
            cert: fs::read(&files.cert),
            key: fs::read(&files.key),
            client_ca: files.client_ca.as_ref().map(fs::read),
        }
    }

    /// Equal for equal contents and equal faults.
    fn identity(&self) -> [Option<Result<&[u8], io::ErrorKind>>; 3] {
        [Some(&self.cert), Some(&self.key), self.client_ca.as_ref()]
            .map(|read| read.map(|read| read.as_deref().map_err(io::Error::kind)))
    }

    fn config(&self, files: &TlsFiles, alpn: &[Vec<u8>]) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = certificates(&files.cert, &self.cert)?;
        let key = private_key(&files.key, &self.key)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| fault(&files.cert, error))?;
        let builder = match (&files.client_ca, &self.client_ca) {
            (Some(file), Some(text)) => builder.with_client_cert_verifier(verifier(file, text, provider)?),
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => fault(
                &files.key,
                format!("is not the key of {}; give the two that were made together", files.cert.display()),
            ),
            error => fault(&files.cert, error),
        })?;
        config.alpn_protocols = alpn.to_vec();
        Ok(config)
    }
}

fn verifier(
    file: &Path,
    text: &Read,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, text)? {
        roots.add(certificate).map_err(|error| fault(file, error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| fault(file, error))
}

fn certificates(file: &Path, text: &Read) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = readable(file, text)?;
    let found = CertificateDer::pem_slice_iter(text)
        .collect::<Result<Vec<_>, pem::Error>>()
        .map_err(|error| fault(file, format!("is not whole PEM ({error})")))?;
    if found.is_empty() {
        return Err(fault(file, "holds no certificate; it should have a part BEGIN CERTIFICATE"));
    }
    Ok(found)
}

fn private_key(file: &Path, text: &Read) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(readable(file, text)?).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            fault(file, "holds no private key; it should have a part BEGIN PRIVATE KEY, not encrypted")
        }
        error => fault(file, format!("is not whole PEM ({error})")),
    })
}

fn readable<'t>(file: &Path, text: &'t Read) -> Result<&'t [u8], TlsError> {
    text.as_deref().map_err(|error| fault(file, format!("cannot be read: {error}")))
}

fn fault(file: &Path, what: impl ToString) -> TlsError {
    TlsError { file: file.to_owned(), what: what.to_string() }
}
