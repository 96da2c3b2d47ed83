//! Which surfaces use TLS, and with which files. Not here: reading the files, TLS itself (`tollgate_net`).

use std::path::PathBuf;

use super::layers::Layers;
use super::parse;
use super::row::Heading::Guard;
use super::row::{OptionalRow, rows};
use crate::surface::Surface;

rows! {
    /// The rows of this file.
    ROWS:
    CERT: OptionalRow<PathBuf> = OptionalRow::new("tls-cert", "FILE", parse::path)
        .envoy_compat(&["GRPC_SERVER_TLS_CERT"])
        .help(Guard, "Certificate and its chain, PEM; reloaded when it changes");
    KEY: OptionalRow<PathBuf> = OptionalRow::new("tls-key", "FILE", parse::path)
        .envoy_compat(&["GRPC_SERVER_TLS_KEY"])
        .help(Guard, "Its private key, PEM; reloaded when it changes");
    SURFACES: OptionalRow<Vec<String>> = OptionalRow::new("tls", "SURFACES", parse::names)
        .envoy_compat(&["GRPC_SERVER_USE_TLS"])
        .help(Guard, "Surfaces that use TLS, such as `grpc,resp` [default: all of them if there is a certificate]");
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
    /// The server's certificate; without one there is no TLS.
    pub files: Option<TlsFiles>,
    /// Names of the surfaces that use TLS; empty without files.
    pub surfaces: Vec<&'static str>,
}

impl TlsSettings {
    /// The files for the surface called `name`, if it uses TLS.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&TlsFiles> {
        self.files.as_ref().filter(|_| self.surfaces.contains(&name))
    }

    pub(super) fn read(layers: &mut Layers, surfaces: &[Surface]) -> Self {
        let wanted = layers.maybe(&SURFACES).map(|names| known(&names, layers, surfaces));
        let files = files(layers);
        let names = match &files {
            Some(_) => wanted.unwrap_or_else(|| surfaces.iter().map(Surface::name).collect()),
            None => {
                if wanted.is_some_and(|wanted| !wanted.is_empty()) {
                    layers.conflict("tls needs a certificate; give tls-cert and tls-key");
                }
                Vec::new()
            }
        };
        let settings = Self { files, surfaces: names };
        for surface in surfaces {
            let name = surface.name();
            if surface.client_ca().is_some() && settings.of(name).is_none() {
                layers.conflict(format!("{name}-client-ca needs TLS on {name}; give tls-cert and tls-key"));
            }
        }
        settings
    }
}

/// The certificate with its key.
pub(super) fn files(layers: &mut Layers) -> Option<TlsFiles> {
    let cert = layers.maybe(&CERT);
    let key = layers.maybe(&KEY);
    if cert.is_some() != key.is_some() {
        layers.conflict("tls-cert and tls-key go together; give both");
    }
    cert.zip(key).map(|(cert, key)| TlsFiles { cert, key })
}

/// The surfaces called `names`, in any case.
fn known(names: &[String], layers: &mut Layers, surfaces: &[Surface]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for wanted in names {
        match surfaces.iter().map(Surface::name).find(|name| name.eq_ignore_ascii_case(wanted)) {
            Some(name) => found.push(name),
            None => {
                let all: Vec<_> = surfaces.iter().map(Surface::name).collect();
                let what = format!("unknown surface {wanted:?}: expected some of {}", all.join(","));
                layers.invalid(&SURFACES.setting, what);
            }
        }
    }
    found
}
