//! Which surfaces speak TLS, and with which files. Not here: reading the files, TLS itself (`tollgate_net`).

use std::path::PathBuf;

use super::layers::Layers;

/// A surface that clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// Envoy's service.
    Grpc,
    /// HTTP.
    Http,
    /// The Redis protocol.
    Resp,
}

impl Surface {
    /// All of them, as the start screen lists them.
    pub const ALL: [Self; 3] = [Self::Grpc, Self::Http, Self::Resp];

    /// As people write it: `grpc`, `http` or `resp`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Resp => "resp",
        }
    }
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, PEM.
    pub cert: PathBuf,
    /// The private key, PEM.
    pub key: PathBuf,
}

/// TLS of all surfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// What the server shows; `None` is cleartext everywhere.
    pub files: Option<TlsFiles>,
    /// Who speaks TLS; empty without files.
    pub surfaces: Vec<Surface>,
    /// Who must have signed the certificates of gRPC clients.
    pub grpc_client_ca: Option<PathBuf>,
}

impl TlsSettings {
    /// The files for `surface`, where it speaks TLS.
    #[must_use]
    pub fn of(&self, surface: Surface) -> Option<&TlsFiles> {
        self.files.as_ref().filter(|_| self.surfaces.contains(&surface))
    }
}

/// `grpc,http` and such; empty is none.
fn surfaces(text: &str) -> Result<Vec<Surface>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let found = Surface::ALL.into_iter().find(|surface| surface.name().eq_ignore_ascii_case(name));
            found.ok_or_else(|| format!("{name:?} is no surface; write some of grpc,http,resp"))
        })
        .collect()
}

/// Reads the rows of TLS, and says which of them do not go together.
pub(super) fn read(layers: &mut Layers) -> TlsSettings {
    let path = |text: &str| Ok(PathBuf::from(text));
    let (cert, key) = (layers.maybe("tls-cert", path), layers.maybe("tls-key", path));
    let wanted = layers.maybe("tls", surfaces);
    let grpc_client_ca = layers.maybe("grpc-client-ca", path);
    if cert.is_some() != key.is_some() {
        layers.fault("settings", "tls-cert and tls-key go together; give both");
    }
    let files = cert.zip(key).map(|(cert, key)| TlsFiles { cert, key });
    let surfaces = match &files {
        Some(_) => wanted.unwrap_or_else(|| Surface::ALL.to_vec()),
        None => {
            if wanted.is_some_and(|wanted| !wanted.is_empty()) {
                layers.fault("settings", "tls needs a certificate; give tls-cert and tls-key");
            }
            Vec::new()
        }
    };
    let settings = TlsSettings { files, surfaces, grpc_client_ca };
    if settings.grpc_client_ca.is_some() && settings.of(Surface::Grpc).is_none() {
        layers.fault("settings", "grpc-client-ca needs TLS on gRPC; give tls-cert and tls-key");
    }
    settings
}
