//! The HTTP API.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use serde_json::json;
use tollgate_envoy_rls::Limits;
use tollgate_headers::{Style, UnknownStyle};
use tollgate_http_api::{HttpApi, HttpSettings as ApiSettings, NodeStatus};
use tollgate_http_kit::{AdminAccess, HttpSurface, Shared, SurfaceSettings, Token};
use tollgate_net::Address;
use tollgate_policy::Policy;

use super::grpc;
use crate::acceptor::Acceptor;
use crate::example;
use crate::family::Family;
use crate::settings::layers::Layers;
use crate::settings::parse::{self, Listen};
use crate::settings::row::Heading::{Answers, Guard, Listen as Where};
use crate::settings::row::{OptionalRow, Row, rows};
use crate::settings::secret::{Secret, secret_file};
use crate::shell;
use crate::surface::{Mount, MountContext, Mounted, SurfaceKind};

rows! {
    /// The rows of this surface.
    ROWS:
    LISTEN: Row<Listen> = Row::new("http", "ADDR", "127.0.0.1:8080", parse::listen)
        .envoy_compat(&["HOST", "PORT"])
        .help(Where, "Address of /v1/check, /json, /healthz, /readyz, /metrics and more; port 0 picks a free one, \
                      `unix:/path` is a Unix socket, `off` disables it");
    MAX_BATCH: Row<usize> = Row::new("max-batch", "N", "1000", |text| parse::number(text, 1, 100_000))
        .help(Where, "Maximum requests of one batch over HTTP");
    IDLE_TIMEOUT: Row<Duration> = Row::new("idle-timeout", "DURATION", "75s", parse::timeout)
        .help(Where, "An HTTP connection without a request for this long is closed");
    ADMIN_TOKEN: OptionalRow<Secret> = OptionalRow::secret("admin-token")
        .help(Guard, "Required by /v1/keys, /v1/rules, /v1/usage and /debug as `Authorization: Bearer …`; without it, they work on \
                      loopback only");
    ADMIN_TOKEN_FILE: OptionalRow<Secret> = OptionalRow::new("admin-token-file", "FILE", secret_file)
        .help(Guard, "File whose only line is the admin token, which /v1/keys, /v1/rules, /v1/usage and /debug require; \
                      TOLLGATE_ADMIN_TOKEN sets it directly");
    HEADERS: Row<Style> = Row::new("headers", "STYLE", "legacy", style)
        .one_of(&["off", "legacy", "draft-03", "draft-07", "draft-11", "legacy,draft-11"])
        .help(Answers, "Header fields that report limits to HTTP clients: `off`, `legacy` (X-RateLimit-…), `draft-03`, \
                        `draft-07` or `draft-11` (RateLimit of the IETF), or both as `legacy,draft-11`");
}

pub(crate) static KIND: SurfaceKind =
    SurfaceKind { listen: &LISTEN, rows: ROWS, read: |layers| Arc::new(HttpSettings::read(layers)) };

/// Fields of a request. A proxy passes on as many as its clients send.
const MOST_FIELDS: usize = 24_000;

fn style(text: &str) -> Result<Style, String> {
    text.parse().map_err(|error: UnknownStyle| error.to_string())
}

/// Settings of the HTTP surface.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpSettings {
    /// Requests of one batch.
    pub max_batch: usize,
    /// A connection without a request for this long is closed.
    pub idle_timeout: Duration,
    /// Required by the routes for operators.
    pub admin_token: Option<Secret>,
    /// Header fields that report limits.
    pub headers: Style,
}

impl HttpSettings {
    fn read(layers: &mut Layers) -> Self {
        let admin_token = layers.either(&ADMIN_TOKEN, &ADMIN_TOKEN_FILE);
        let note = admin_token.as_ref().and_then(|token| token.note_if_short("admin-token"));
        layers.notes.extend(note);
        Self {
            max_batch: layers.one(&MAX_BATCH),
            idle_timeout: layers.one(&IDLE_TIMEOUT),
            admin_token,
            headers: layers.one(&HEADERS),
        }
    }

    fn of_api(&self, process: &MountContext<'_>) -> ApiSettings {
        let serving = process.serving;
        ApiSettings {
            style: self.headers,
            max_body_bytes: serving.max_body,
            max_batch_bytes: serving.max_body * 4,
            max_batch: self.max_batch,
            ..ApiSettings::default()
        }
    }

    fn of_surface(&self, process: &MountContext<'_>) -> SurfaceSettings {
        let token = self.admin_token.as_ref().and_then(|secret| Token::new(secret.reveal()));
        let is_loopback = process.address.is_some_and(Address::is_local);
        let request_timeout = process.serving.request_timeout;
        SurfaceSettings {
            admin: AdminAccess { token, is_loopback },
            header_timeout: request_timeout,
            body_timeout: request_timeout,
            idle_timeout: self.idle_timeout,
            max_buffered_bytes: process.serving.max_buffered,
            max_unread_bytes: process.serving.max_buffered,
            max_header_bytes: process.serving.max_header,
            max_header_fields: MOST_FIELDS,
            ..SurfaceSettings::default()
        }
    }
}

impl Mount for HttpSettings {
    fn mount(&self, process: &MountContext<'_>) -> Mounted {
        let settings = self.of_surface(process);
        let shared = Arc::new(settings.shared());
        let api = |_| {
            let limiter = Arc::clone(&process.node.limiter);
            let clock = Arc::clone(&process.node.clock);
            let node = Arc::clone(process.node) as Arc<dyn NodeStatus>;
            let envoy = grpc::service(process, Limits::default()).over_http(self.headers);
            let api = HttpApi::new(limiter, clock, node, Arc::new(envoy), self.of_api(process));
            Acceptor::of(Arc::new(HttpSurface::sharing(api, settings.clone(), Arc::clone(&shared))))
        };
        let acceptors = (0..process.serving.workers).map(api).collect();
        Mounted { acceptors, metrics: Some(Box::new(Metrics(shared))) }
    }

    fn alpn(&self) -> &'static [&'static str] {
        &["http/1.1"]
    }

    fn unprotected(&self) -> Option<&'static str> {
        self.admin_token.is_none().then_some(
            "without an admin token, so /v1/keys, /v1/rules, /v1/usage and /debug are disabled (set TOLLGATE_ADMIN_TOKEN)",
        )
    }

    fn try_command(&self, address: &Address, has_tls: bool, policy: &Policy) -> Option<String> {
        // The certificate is for a host name, not for this address.
        let (options, scheme) = if has_tls { ("-sk", "https") } else { ("-s", "http") };
        let curl = match address {
            Address::Tcp(address) => format!("curl {options} {scheme}://{}", reachable(*address)),
            Address::Unix(path) => {
                let path = shell::quote(&path.display().to_string());
                format!("curl {options} --unix-socket {path} {scheme}://localhost")
            }
        };
        let Some((domain, descriptor)) = example::of(policy) else { return Some(format!("{curl}/readyz")) };
        let entries: Vec<_> =
            descriptor.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        // Not by serde_json, so that the domain comes first.
        let body = format!(r#"{{"domain":{},"descriptors":{}}}"#, json!(domain.name()), json!([entries]));
        Some(format!("{curl}/v1/check -d {}", shell::quote(&body)))
    }
}

/// Metrics of all workers.
#[derive(Debug)]
struct Metrics(Arc<Shared>);

impl Collector for Metrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let to = &mut to;
        let shared = &*self.0;
        let help = "Bytes of partially received bodies over HTTP";
        Family::gauge("tollgate_http_buffered_bytes", help).write(to, shared.buffered_bytes() as u64)?;
        let help = "Bytes of replies over HTTP that clients do not take";
        Family::gauge("tollgate_http_unread_bytes", help).write(to, shared.unread_bytes() as u64)?;
        let guesses = shared.guesses();
        let help = "Requests with a wrong admin token";
        Family::counter("tollgate_http_wrong_tokens", help).write(to, guesses.wrong())?;
        let help = "Requests with an admin token that were rejected because the address had sent too many wrong ones";
        Family::counter("tollgate_http_slowed_tokens", help).write(to, guesses.slowed())?;
        let closed = [("slow_reader", shared.slow_readers()), ("over_budget", shared.over_budget())];
        let help = "HTTP connections closed because the client did not take its replies, by reason";
        Family::counter("tollgate_http_closed", help).write_by(to, "reason", closed)
    }
}

/// An unspecified address cannot be connected to everywhere; loopback can.
pub(crate) fn reachable(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            std::net::SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            std::net::SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_try_has_an_address_that_can_be_reached() {
        for (listening, want) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("192.0.2.7:80", "192.0.2.7:80"),
        ] {
            let listening: std::net::SocketAddr = listening.parse().expect("an address");
            assert_eq!(reachable(listening).to_string(), want);
        }
    }
}
