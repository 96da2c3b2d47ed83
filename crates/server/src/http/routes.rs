//! What each path of the HTTP port answers. Not here: connections (`http`), what `/json` means (`envoy-rls`).

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tollgate_core::Outcome;
use tollgate_envoy_rls::{Code, RateLimitService};
use tollgate_policy::{LEVEL, Policy, Unit, show_span};
use tollgate_store_memory::MemoryStore;

use super::{Answer, Handler};
use crate::node::Node;

/// The most that `/json` reads of a body.
const MAX_BODY: usize = 64 * 1024;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

const INDEX: &str = "\
tollgate
  POST /json             may this request pass? as envoyproxy/ratelimit: 200, 429 over the limit
  GET  /healthz          the process lives
  GET  /readyz           it has rules and is not draining; with details
  GET  /metrics          for Prometheus
  GET  /debug/rlconfig   the rules in force
";

/// The routes of one node.
#[derive(Debug)]
pub struct Routes {
    node: Arc<Node>,
    service: Arc<RateLimitService<MemoryStore>>,
    /// Only this machine can ask, so that it may be told everything.
    loopback: bool,
}

impl Routes {
    /// Routes over `node`, with `service` for `/json`; `loopback` when only this machine can reach them.
    #[must_use]
    pub const fn new(node: Arc<Node>, service: Arc<RateLimitService<MemoryStore>>, loopback: bool) -> Self {
        Self { node, service, loopback }
    }

    fn debug(&self) -> Answer {
        if !self.loopback {
            return text(StatusCode::FORBIDDEN, "only where the HTTP port listens on loopback\n");
        }
        text(StatusCode::OK, rlconfig(self.node.limiter.rules().policy()))
    }

    fn readiness(&self) -> Answer {
        let rules = self.node.limiter.rules();
        let policy = rules.policy();
        let is_ready = self.node.is_ready();
        let body = json!({
            "ready": is_ready,
            "draining": self.node.is_draining(),
            "rules": {
                "loaded": self.node.has_rules(),
                "version": policy.version(),
                "domains": policy.domains().len(),
                "rules": policy.rules().count(),
                "last_error": self.node.reloader.state().fault.as_deref(),
            },
        });
        let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        answer(status, JSON, format!("{body}\n"))
    }

    async fn json(&self, request: Request<Incoming>) -> Answer {
        let body = Limited::new(request.into_body(), MAX_BODY).collect();
        let body = match tokio::time::timeout(BODY_TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return text(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is above {MAX_BODY} bytes\n"));
            }
            Ok(Err(_)) => return text(StatusCode::BAD_REQUEST, "the body ended early\n"),
            Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the body took too long\n"),
        };
        match self.service.json(&body).await {
            Ok(reply) if reply.outcome == Outcome::Deny => {
                answer(StatusCode::TOO_MANY_REQUESTS, JSON, reply.body)
            }
            Ok(reply) => answer(StatusCode::OK, JSON, reply.body),
            Err(status) => {
                let http = match status.code {
                    Code::InvalidArgument | Code::ResourceExhausted => StatusCode::BAD_REQUEST,
                    Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                text(http, format!("{}\n", status.message))
            }
        }
    }
}

impl Handler for Routes {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let allowed: &[Method] = match path.as_str() {
            "/json" => &[Method::POST],
            "/" | "/healthz" | "/healthcheck" | "/readyz" | "/metrics" | "/rlconfig" | "/debug/rlconfig" => {
                &[Method::GET, Method::HEAD]
            }
            _ => return text(StatusCode::NOT_FOUND, format!("there is no {path}\n\n{INDEX}")),
        };
        if !allowed.contains(request.method()) {
            let allowed = if path == "/json" { "POST" } else { "GET, HEAD" };
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes {allowed}\n"));
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return refusal;
        }
        match path.as_str() {
            "/json" => self.json(request).await,
            "/healthz" => text(StatusCode::OK, "ok\n"),
            // The peer's only health path: no also while it drains.
            "/healthcheck" if self.node.is_ready() => text(StatusCode::OK, "OK"),
            "/healthcheck" => text(StatusCode::INTERNAL_SERVER_ERROR, "not ready; /readyz says why\n"),
            "/readyz" => self.readiness(),
            "/metrics" => answer(
                StatusCode::OK,
                tollgate_limiter::observe::CONTENT_TYPE,
                self.node.limiter.metrics().render(),
            ),
            "/rlconfig" | "/debug/rlconfig" => self.debug(),
            _ => text(StatusCode::OK, INDEX),
        }
    }
}

/// The rules in force, one limit a line, in the peer's form and in the order of the files.
fn rlconfig(policy: &Policy) -> String {
    let mut dump = String::new();
    for domain in policy.domains() {
        for rule in domain.rules() {
            let path = rule.path.replace(LEVEL, ".").replace('=', "_");
            let modes = format!("shadow_mode: {}, quota_mode: {}", rule.shadow_mode, rule.quota_mode);
            for limit in &rule.limits {
                let unit = limit.unit.map_or_else(|| show_span(limit.period), unit_name);
                let requests = limit.requests_per_unit;
                let name = domain.name();
                // Writing to a string cannot fail.
                let _ = writeln!(dump, "{name}.{path}: unit={unit} requests_per_unit={requests}, {modes}");
            }
            if rule.unlimited {
                let _ = writeln!(dump, "{}.{path}: unlimited, {modes}", domain.name());
            }
        }
    }
    dump
}

fn unit_name(unit: Unit) -> String {
    unit.name().to_ascii_uppercase()
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, TEXT, body)
}

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
