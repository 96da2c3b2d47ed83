//! The certificates that surfaces use, reloaded when their files change.

use std::sync::Arc;

use tollgate_net::{Tls, TlsError, TlsFiles};

use crate::settings::Settings;

/// The certificate of each surface that uses TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct Certificates(Vec<(&'static str, Arc<Tls>)>);

impl Certificates {
    /// Reads the files of `settings`.
    pub(crate) fn load(settings: &Settings) -> Result<Self, TlsError> {
        let mut all = Vec::new();
        for surface in &settings.surfaces {
            let Some(files) = settings.tls.of(surface.name()) else { continue };
            let client_ca = surface.client_ca().map(ToOwned::to_owned);
            let client_name = surface.client_name().map(ToOwned::to_owned);
            let cert = files.cert.clone();
            let key = files.key.clone();
            let files = TlsFiles { cert, key, client_ca, client_name, is_client_optional: false };
            all.push((surface.name(), Arc::new(Tls::load(files, surface.mount().alpn())?)));
        }
        Ok(Self(all))
    }

    /// The certificate of `surface`, if it uses TLS.
    pub(crate) fn of(&self, surface: &str) -> Option<Arc<Tls>> {
        self.0.iter().find(|(name, _)| *name == surface).map(|(_, tls)| Arc::clone(tls))
    }

    /// When each expires, in seconds of the Unix epoch.
    pub(crate) fn not_after(&self) -> impl Iterator<Item = (&'static str, i64)> {
        self.0.iter().filter_map(|(surface, tls)| Some((*surface, tls.not_after()?)))
    }

    /// Reloads files that have changed; invalid ones change nothing. Each change and each error is logged
    /// once.
    pub(crate) fn reload(&self) {
        for (surface, tls) in &self.0 {
            match tls.reload_if_changed() {
                Ok(true) => tracing::info!(surface, "certificate reloaded for new connections"),
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(surface, %error, "certificate reload failed; keeping the current one");
                }
            }
        }
    }
}
