//! The control plane: where a node finds it, and how it is run.
//!
//! Every row has one name. `tollgate control` leaves the prefix `control-` of its flags out: its `--listen`
//! is `--control-listen` of `tollgate serve --control embedded`.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

use super::layers::Layers;
use super::parse;
use super::row::Heading::{Control, Plane};
use super::row::{OptionalRow, Row, rows};
use super::tls::{self, TlsFiles};

rows! {
    /// The rows of this file.
    ROWS:
    AT: OptionalRow<Option<Uri>> = OptionalRow::new("control", "URL", control_at)
        .help(Control, "Control plane that sends rules, such as http://127.0.0.1:8070; `embedded` runs one in this process");
    TOKEN_FILE: OptionalRow<PathBuf> = OptionalRow::new("control-token-file", "FILE", parse::path)
        .help(Control, "File with the node's token, which `tollgate control` writes to `node-token` in its data folder; \
                        read again for each connection");
    CA: OptionalRow<PathBuf> = OptionalRow::new("control-ca", "FILE", parse::path)
        .help(Control, "Authorities that may sign the control plane's certificate, PEM [default: those of the system]");
    CERT: OptionalRow<PathBuf> = OptionalRow::new("control-cert", "FILE", parse::path)
        .help(Control, "Certificate by which the node proves itself, PEM, where the control plane has a node-client-ca");
    KEY: OptionalRow<PathBuf> = OptionalRow::new("control-key", "FILE", parse::path)
        .help(Control, "Its private key, PEM");
    WAIT: Row<Duration> = Row::new("control-wait", "DURATION", "2s", parse::duration)
        .help(Control, "How long a node without saved rules waits for the first ones before it starts without, not ready");
    NODE_NAME: OptionalRow<String> = OptionalRow::new("node-name", "NAME", name)
        .help(Control, "What people call this node [default: the host name]");
    NODE_LABELS: OptionalRow<(String, String)> = OptionalRow::many("node-label", "KEY=VALUE", label)
        .help(Control, "Label of this node, for staged rollouts, such as zone=a; may be given more than once");
    STATE_DIR: Row<PathBuf> = Row::new("state-dir", "DIR", "./tollgate-state", parse::path)
        .help(Control, "Folder of this node's identity and of the rules that it starts with while the control plane is \
                        away; one for each node");
    LISTEN: Row<String> = Row::new("control-listen", "ADDR", "127.0.0.1:8070", listen)
        .help(Plane, "Address of console, API and node streams; port 0 picks a free one");
    DATA_DIR: Row<PathBuf> = Row::new("control-data-dir", "DIR", "./tollgate-data", parse::path)
        .help(Plane, "Folder of the database and of the node token");
    PUBLIC_URL: OptionalRow<Uri> = OptionalRow::new("control-public-url", "URL", url)
        .help(Plane, "How browsers reach the console, such as \
                        https://limits.example.com; also printed in links");
    PROXY_HOPS: Row<usize> = Row::new("control-proxy-hops", "N", "0", hops)
        .help(Plane, "Proxies before the console, each of which adds the address that it saw to X-Forwarded-For: \
                        attempts to log in and the audit then count by client; 0: by peer");
    DISK_RESERVE: Row<u64> = Row::new("control-disk-reserve", "BYTES", "200MiB", parse::bytes)
        .help(Plane, "Room on the disk that is kept for changes and audit: with less, history is not stored");
    NODE_WAIT: Row<Duration> = Row::new("control-node-wait", "DURATION", "10s", parse::duration)
        .help(Plane, "How long changes of rules wait after a start, at most, until the nodes that were there before have \
                        attached: only they know whether the database is an old copy");
    NODE_CLIENT_CA: OptionalRow<PathBuf> = OptionalRow::new("control-node-client-ca", "FILE", parse::path)
        .help(Plane, "Nodes must show a certificate that one of these authorities \
                        signed, PEM; needs TLS");
}

/// Where the control plane is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlAt {
    /// At this address.
    Url(Uri),
    /// In this process.
    Embedded(Box<ControlSettings>),
}

/// A node's connection to a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeControl {
    /// Where it is.
    pub at: ControlAt,
    /// File with the node's token.
    pub token_file: Option<PathBuf>,
    /// Authorities of its certificate.
    pub ca: Option<PathBuf>,
    /// The node's own certificate.
    pub certificate: Option<TlsFiles>,
    /// Longest wait at the start for the first rules.
    pub wait: Duration,
    /// Name of the node for people; the host name if not given.
    pub name: Option<String>,
    /// Labels of the node, for rollouts and filters.
    pub labels: Vec<(String, String)>,
    /// The folder of its state.
    pub state_dir: PathBuf,
}

/// Settings of running a control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    /// Address to listen on, `host:port`.
    pub listen: String,
    /// The folder of the database.
    pub data_dir: PathBuf,
    /// URL for browsers, if it differs from the address.
    pub public_url: Option<Uri>,
    /// Proxies before it that add to `X-Forwarded-For`.
    pub proxy_hops: usize,
    pub tls: Option<TlsFiles>,
    /// Room on the disk that is kept for changes and audit.
    pub disk_reserve: u64,
    /// Longest wait of changes for nodes after a start.
    pub node_wait: Duration,
    /// Authorities of nodes' certificates.
    pub node_client_ca: Option<PathBuf>,
}

impl NodeControl {
    /// Whether rules may come from a control plane.
    pub(super) fn is_given(layers: &Layers) -> bool {
        layers.given(&AT.setting).is_some()
    }

    /// The settings of a node, if it has a control plane.
    pub(super) fn read(layers: &mut Layers) -> Option<Self> {
        let at = match layers.maybe(&AT)? {
            None => ControlAt::Embedded(Box::new(ControlSettings::read(layers))),
            Some(url) => ControlAt::Url(url),
        };
        let certificate = layers.maybe(&CERT);
        let key = layers.maybe(&KEY);
        if certificate.is_some() != key.is_some() {
            layers.conflict("control-cert and control-key go together; give both");
        }
        let control = Self {
            at,
            token_file: layers.maybe(&TOKEN_FILE),
            ca: layers.maybe(&CA),
            certificate: certificate.zip(key).map(|(cert, key)| TlsFiles { cert, key }),
            wait: layers.one(&WAIT),
            name: layers.maybe(&NODE_NAME),
            labels: layers.all(&NODE_LABELS),
            state_dir: layers.one(&STATE_DIR),
        };
        control.check(layers);
        Some(control)
    }

    fn check(&self, layers: &mut Layers) {
        let ControlAt::Url(url) = &self.at else {
            if self.token_file.is_some() || self.ca.is_some() || self.certificate.is_some() {
                layers.conflict("control-token-file, control-ca and control-cert are for a control plane elsewhere; `control: embedded` needs none");
            }
            return;
        };
        if self.token_file.is_none() {
            layers.conflict(
                "control needs a token: copy the file `node-token` from the data folder of the control plane, and give \
                 it by --control-token-file",
            );
        }
        let is_encrypted = url.scheme_str() == Some("https");
        if !is_encrypted && (self.ca.is_some() || self.certificate.is_some()) {
            layers.conflict("control-ca and control-cert need a control plane at https://");
        }
        if !is_encrypted && !url.host().is_some_and(is_loopback) {
            layers.note(format!(
                "control: {url} is not encrypted: rules can be changed on the way, and the node token read; use https://"
            ));
        }
        if self.labels.len() > tollgate_fleet_proto::MAX_LABELS {
            let most = tollgate_fleet_proto::MAX_LABELS;
            layers.conflict(format!("{} labels of one node; at most {most}", self.labels.len()));
        }
    }
}

impl ControlSettings {
    /// URL for browsers, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match &self.public_url {
            Some(url) => url.to_string().trim_end_matches('/').to_owned(),
            None => format!("{scheme}://{}", self.listen),
        }
    }

    /// The settings of a control plane.
    pub(crate) fn read(layers: &mut Layers) -> Self {
        let settings = Self {
            listen: layers.one(&LISTEN),
            data_dir: layers.one(&DATA_DIR),
            public_url: layers.maybe(&PUBLIC_URL),
            proxy_hops: layers.one(&PROXY_HOPS),
            tls: tls::files(layers),
            disk_reserve: layers.one(&DISK_RESERVE),
            node_wait: layers.one(&NODE_WAIT),
            node_client_ca: layers.maybe(&NODE_CLIENT_CA),
        };
        if settings.node_client_ca.is_some() && settings.tls.is_none() {
            layers.conflict("node-client-ca needs TLS; give tls-cert and tls-key");
        }
        let is_https = settings.public_url.as_ref().is_some_and(|url| url.scheme_str() == Some("https"));
        if is_https && settings.tls.is_none() && settings.proxy_hops == 0 {
            layers.note(
                "control-public-url is https and the control plane has no certificate, so there is a proxy before \
                 it: give control-proxy-hops, such as 1; without, all clients count as one that tries passwords",
            );
        }
        settings
    }
}

/// `http://host:port`, `https://host:port`, or `embedded`, which is `None`.
fn control_at(text: &str) -> Result<Option<Uri>, String> {
    if text.eq_ignore_ascii_case("embedded") {
        return Ok(None);
    }
    let expected = "expected http://host:port, https://host:port or embedded";
    url(text).map(Some).map_err(|_| format!("invalid control plane {text:?}: {expected}"))
}

/// `http://host` or `https://host`, perhaps with a port, without a path.
fn url(text: &str) -> Result<Uri, String> {
    let uri = text.parse::<Uri>().ok();
    let is_usable = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.authority().is_some_and(|it| !it.as_str().contains('@'))
            && uri.path_and_query().is_none_or(|path| path.as_str() == "/")
    };
    uri.filter(is_usable).ok_or_else(|| {
        format!("invalid URL {text:?}: expected something like https://limits.example.com, without a path")
    })
}

/// `host:port`; nodes cannot dial a Unix socket.
fn listen(text: &str) -> Result<String, String> {
    match parse::listen(text) {
        Ok(parse::Listen::At(address)) if !address.starts_with("unix:") => Ok(address),
        _ => Err(format!("invalid address {text:?}: expected host:port, such as 127.0.0.1:8070")),
    }
}

/// One label, `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let expected =
        format!("invalid label {text:?}: expected KEY=VALUE, such as zone=a, each at most 64 characters");
    let (key, value) = text.split_once('=').ok_or_else(|| expected.clone())?;
    let is_usable = |part: &str| part.len() <= 64 && !part.chars().any(char::is_control);
    match !key.is_empty() && is_usable(key) && is_usable(value) {
        true => Ok((key.to_owned(), value.to_owned())),
        false => Err(expected),
    }
}

/// Few enough that a list of addresses is never read far.
fn hops(text: &str) -> Result<usize, String> {
    parse::number(text, 0, 16)
}

/// A name for people.
fn name(text: &str) -> Result<String, String> {
    match (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(format!("invalid name {text:?}: expected 1 to 64 characters")),
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_a_control_plane_is_a_url_without_a_path_or_embedded() {
        for (text, want) in [
            ("http://127.0.0.1:8070", true),
            ("https://limits.example.com", true),
            ("https://limits.example.com/", true),
            ("http://[::1]:8070", true),
            ("EMBEDDED", true),
            ("https://limits.example.com/console", false),
            ("https://user@limits.example.com", false),
            ("127.0.0.1:8070", false),
            ("ftp://limits.example.com", false),
            ("http://", false),
            ("", false),
        ] {
            assert_eq!(control_at(text).is_ok(), want, "{text}");
        }
    }

    #[test]
    fn a_label_has_a_key_and_a_value_of_bounded_length() {
        let long = "x".repeat(65);
        for (text, want) in [
            ("zone=a".to_owned(), true),
            ("zone=".to_owned(), true),
            ("a=b=c".to_owned(), true),
            ("zone".to_owned(), false),
            ("=a".to_owned(), false),
            (format!("zone={long}"), false),
            (format!("zone={}", &long[..64]), true),
            ("zone=a\n".to_owned(), false),
        ] {
            assert_eq!(label(&text).is_ok(), want, "{text:?}");
        }
    }
}
