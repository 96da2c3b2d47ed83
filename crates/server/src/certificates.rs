//! The certificates in use: loaded at the start, looked at again while the server runs. Not here: TLS (`tollgate_net`).

use std::sync::Arc;

use tollgate_net::{Tls, TlsError, TlsFiles};

use crate::settings::{Surface, TlsSettings};

/// The certificate of each surface that speaks TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates(Vec<(Surface, Arc<Tls>)>);

impl Certificates {
    /// Reads what `settings` name.
    pub(crate) fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        let mut all = Vec::new();
        for surface in Surface::ALL {
            let Some(files) = settings.of(surface) else { continue };
            let alpn: &[&str] = match surface {
                Surface::Grpc => &["h2"],
                Surface::Http => &["http/1.1"],
                Surface::Resp => &[],
            };
            let client_ca = settings.grpc_client_ca.clone().filter(|_| surface == Surface::Grpc);
            let files = TlsFiles { cert: files.cert.clone(), key: files.key.clone(), client_ca };
            all.push((surface, Arc::new(Tls::load(files, alpn)?)));
        }
        Ok(Self(all))
    }

    /// What `surface` speaks, where that is TLS.
    pub(crate) fn of(&self, surface: Surface) -> Option<Arc<Tls>> {
        self.0.iter().find(|(of, _)| *of == surface).map(|(_, tls)| Arc::clone(tls))
    }

    /// Until when each is good, in seconds of the Unix epoch.
    pub(crate) fn not_after(&self) -> impl Iterator<Item = (Surface, i64)> {
        self.0.iter().filter_map(|(surface, tls)| Some((*surface, tls.not_after()?)))
    }

    /// Reads the files again; faulty ones change nothing. Each change and each fault is told once.
    pub(crate) fn look(&self) {
        for (surface, tls) in &self.0 {
            match tls.reload_if_changed() {
                Ok(true) => {
                    tracing::info!(surface = surface.name(), "new connections get the new certificate")
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(surface = surface.name(), %error, "the certificate in use stays");
                }
            }
        }
    }
}
