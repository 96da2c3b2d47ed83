//! Certificates that exist for one test: an authority, the certificates it has signed, and a client that
//! trusts it.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// A certificate authority of its own.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate for `localhost` and `127.0.0.1` and its key, both as PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate as PEM.
    pub cert: String,
    /// Its private key as PEM.
    pub key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority")
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// An authority unlike any other.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of a test");
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Its own certificate as PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for `name`, good until the first day of `year`.
    #[must_use]
    pub fn issue(&self, name: &str, year: i32) -> Issued {
        self.issue_for(&["localhost", "127.0.0.1"], name, year)
    }

    /// The same for these hosts: names or addresses.
    #[must_use]
    pub fn issue_for(&self, hosts: &[&str], name: &str, year: i32) -> Issued {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.0).expect("a certificate");
        Issued { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// A store that trusts this authority alone.
    #[must_use]
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("a root");
        roots
    }

    /// A client that trusts this authority alone, shows `own` where it is asked to, and speaks one of `alpn`.
    #[must_use]
    pub fn client(&self, own: Option<&Issued>, alpn: &[&str]) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(self.roots());
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let cert = CertificateDer::from_pem_slice(own.cert.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(vec![cert], key).expect("a pair")
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

impl Issued {
    /// Writes `tls.crt` and `tls.key` into `folder`, over those that are there; returns their paths in this
    /// order.
    pub fn write(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let cert = folder.join("tls.crt");
        let key = folder.join("tls.key");
        std::fs::write(&cert, &self.cert).expect("written");
        std::fs::write(&key, &self.key).expect("written");
        (cert, key)
    }
}
