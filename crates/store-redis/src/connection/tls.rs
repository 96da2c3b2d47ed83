//! What a TLS client must know, read from files once. Not here: who decides that a connection is encrypted.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::config::{ConfigError, Tls};

/// The settings as rustls wants them.
pub(super) fn client(tls: &Tls) -> Result<Arc<ClientConfig>, ConfigError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let other = |error: rustls::Error| ConfigError::Setting { what: format!("TLS: {error}") };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(other)?;
    let builder = if tls.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        builder.with_root_certificates(roots(tls.ca_file.as_deref())?)
    };
    let config = match (&tls.certificate_file, &tls.key_file) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate)?;
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| in_file(key, error))?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| in_file(certificate, error))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn in_file(file: &Path, what: impl ToString) -> ConfigError {
    ConfigError::Tls { file: file.to_owned(), what: what.to_string() }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let list = CertificateDer::pem_file_iter(file).map_err(|error| in_file(file, error))?;
    let list = list.collect::<Result<Vec<_>, _>>().map_err(|error| in_file(file, error))?;
    if list.is_empty() {
        return Err(in_file(file, "no certificate in it"));
    }
    Ok(list)
}

/// The authorities to trust: those of `file`, else those of the system.
fn roots(file: Option<&Path>) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates(file)? {
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
