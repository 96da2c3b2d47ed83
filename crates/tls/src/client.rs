//! What a TLS client must know, read from files, and again for a new connection when they have changed. Not here: who decides that a
//! connection is encrypted.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::config::{ConfigError, Tls};

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// The certificates in use, and the files that they came from.
pub(super) struct Client {
    files: Tls,
    active: Mutex<Active>,
    hasher: RandomState,
}

struct Active {
    config: Arc<ClientConfig>,
    /// What the files held when they were last read, as a hash: no second copy of a key.
    seen: u64,
}

impl Client {
    /// Reads the files.
    pub(super) fn load(files: Tls) -> Result<Self, ConfigError> {
        let (hasher, contents) = (RandomState::new(), Contents::read(&files));
        let active = Active { config: contents.client(&files)?, seen: hasher.hash_one(contents.identity()) };
        Ok(Self { files, active: Mutex::new(active), hasher })
    }

    /// What a new connection uses: the files are read again, and where they cannot be used, what was in use stays, and that is logged
    /// once. The system's authorities are read again only together with a file.
    pub(super) fn config(&self) -> Arc<ClientConfig> {
        let contents = Contents::read(&self.files);
        let found = self.hasher.hash_one(contents.identity());
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut active.seen, found) != found {
            match contents.client(&self.files) {
                Ok(config) => {
                    tracing::info!(
                        "the store's TLS files have changed: new connections use what they hold now"
                    );
                    active.config = config;
                }
                Err(error) => tracing::warn!("{error}; what was read before stays in use"),
            }
        }
        active.config.clone()
    }
}

impl std::fmt::Debug for Client {
    /// Names the files; what was read from them is for nobody's log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("files", &self.files).finish_non_exhaustive()
    }
}

/// What the files hold, or why they cannot be read; absent where none is named.
struct Contents {
    authorities: Option<io::Result<Vec<u8>>>,
    certificate: Option<io::Result<Vec<u8>>>,
    key: Option<io::Result<Vec<u8>>>,
}

impl Contents {
    fn read(files: &Tls) -> Self {
        let read = |file: &Option<_>| file.as_deref().map(read);
        Self {
            authorities: read(&files.ca_file),
            certificate: read(&files.certificate_file),
            key: read(&files.key_file),
        }
    }

    /// Equal for equal contents and for equal faults.
    fn identity(&self) -> impl std::hash::Hash {
        [&self.authorities, &self.certificate, &self.key]
            .map(|read| read.as_ref().map(|read| read.as_deref().map_err(io::Error::kind)))
    }

    /// As rustls wants it.
    fn client(&self, files: &Tls) -> Result<Arc<ClientConfig>, ConfigError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let other = |error: rustls::Error| ConfigError::Setting { what: format!("TLS: {error}") };
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(other)?;
        let builder = if files.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            let named = files.ca_file.as_deref().zip(self.authorities.as_ref());
            builder.with_root_certificates(roots(named)?)
        };
        let certificate = files.certificate_file.as_deref().zip(self.certificate.as_ref());
        let key = files.key_file.as_deref().zip(self.key.as_ref());
        let config = match (certificate, key) {
            (Some((certificate, chain)), Some((key, secret))) => {
                let chain = certificates(certificate, chain)?;
                let secret = PrivateKeyDer::from_pem_slice(readable(key, secret)?);
                let secret = secret.map_err(|error| in_file(key, error))?;
                builder.with_client_auth_cert(chain, secret).map_err(|error| in_file(certificate, error))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Arc::new(config))
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

fn in_file(file: &Path, what: impl ToString) -> ConfigError {
    ConfigError::Tls { file: file.to_owned(), what: what.to_string() }
}

fn readable<'a>(file: &Path, read: &'a io::Result<Vec<u8>>) -> Result<&'a [u8], ConfigError> {
    read.as_deref().map_err(|error| in_file(file, error))
}

fn certificates(
    file: &Path,
    read: &io::Result<Vec<u8>>,
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let list = CertificateDer::pem_slice_iter(readable(file, read)?).collect::<Result<Vec<_>, _>>();
    let list = list.map_err(|error| in_file(file, error))?;
    if list.is_empty() {
        return Err(in_file(file, "no certificate in it"));
    }
    Ok(list)
}

/// The authorities to trust: those of the file that is named, else those of the system.
fn roots(named: Option<(&Path, &io::Result<Vec<u8>>)>) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    match named {
        Some((file, read)) => {
            for certificate in certificates(file, read)? {
                roots.add(certificate).map_err(|error| in_file(file, error))?;
            }
        }
        None => {
            // Those that cannot be read are as if not there; with none at all no server would ever be believed.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(ConfigError::Setting {
                    what: "TLS: this machine has no list of authorities; name a file with the server's"
                        .to_owned(),
                });
            }
        }
    }
    Ok(roots)
}

/// Believes every certificate: for tests, by an explicit setting.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
