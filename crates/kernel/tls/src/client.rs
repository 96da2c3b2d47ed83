//! The certificates and authorities of a TLS client, read from files, and read again for a new connection
//! when they have changed. Not here: whether a connection is encrypted.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::pem::{Digest, PemFile, TlsError};

/// The files by which a client checks servers and proves its identity. All are PEM, of at most 1 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsClientFiles {
    /// File of the authorities to trust; those of the system when absent.
    pub ca_file: Option<PathBuf>,
    /// File of the client's certificate, where the server asks for one; goes with `key_file`.
    pub certificate_file: Option<PathBuf>,
    /// File of the certificate's key.
    pub key_file: Option<PathBuf>,
    /// Accept any certificate, also another host's. For tests.
    pub insecure: bool,
}

/// The certificates in use, and the files that they came from.
pub struct TlsClient {
    files: TlsClientFiles,
    active: Mutex<Active>,
}

struct Active {
    config: Arc<ClientConfig>,
    /// Digests of the files when they were last read.
    seen: [Option<Digest>; 3],
}

impl TlsClientFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] names the file that cannot be used, and why.
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        Contents::read(self).config(self)
    }
}

impl TlsClient {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] names the file that cannot be used, and why.
    pub fn load(files: TlsClientFiles) -> Result<Self, TlsError> {
        let contents = Contents::read(&files);
        let active = Active { config: Arc::new(contents.config(&files)?), seen: contents.digests() };
        Ok(Self { files, active: Mutex::new(active) })
    }

    /// The configuration for a new connection. The files are read again; where they cannot be used, the
    /// previous contents stay in use, and that is logged once. The system's authorities are read again only
    /// together with a file.
    pub fn config(&self) -> Arc<ClientConfig> {
        let contents = Contents::read(&self.files);
        let found = contents.digests();
        let mut active = self.active.lock();
        if std::mem::replace(&mut active.seen, found) != found {
            match contents.config(&self.files) {
                Ok(config) => {
                    tracing::info!("TLS files changed; new connections use them");
                    active.config = Arc::new(config);
                }
                Err(error) => tracing::warn!("TLS files cannot be used; keeping the previous ones: {error}"),
            }
        }
        active.config.clone()
    }
}

impl std::fmt::Debug for TlsClient {
    /// Names the files, and shows nothing of their contents.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsClient").field("files", &self.files).finish_non_exhaustive()
    }
}

/// The contents of the files; absent where no file is named.
struct Contents {
    authorities: Option<PemFile>,
    certificate: Option<PemFile>,
    key: Option<PemFile>,
}

impl Contents {
    fn read(files: &TlsClientFiles) -> Self {
        let read = |file: &Option<PathBuf>| file.as_deref().map(PemFile::read);
        Self {
            authorities: read(&files.ca_file),
            certificate: read(&files.certificate_file),
            key: read(&files.key_file),
        }
    }

    fn digests(&self) -> [Option<Digest>; 3] {
        [&self.authorities, &self.certificate, &self.key].map(|file| file.as_ref().map(PemFile::digest))
    }

    fn config(&self, files: &TlsClientFiles) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::new)?;
        let builder = if files.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            builder.with_root_certificates(match &self.authorities {
                Some(file) => file.authorities()?,
                None => system_authorities()?,
            })
        };
        Ok(match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(certificate.certificates()?, key.private_key()?)
                .map_err(|error| certificate.error(error))?,
            _ => builder.with_no_client_auth(),
        })
    }
}

/// Authorities that cannot be read are left out; without any, no server would ever be trusted.
fn system_authorities() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(TlsError::new("this machine has no list of authorities; name a file with the server's"));
    }
    Ok(roots)
}

/// Accepts every certificate: for tests, by an explicit setting.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
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
