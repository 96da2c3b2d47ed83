//! Metrics on a port of their own, as envoyproxy/ratelimit has them. They are on the HTTP port too.

use std::sync::Arc;

use tollgate_http_api::MetricsPage;
use tollgate_http_kit::HttpSurface;

use super::debug_pages::bounds;
use crate::acceptor::Acceptor;
use crate::settings::parse::{self, Listen};
use crate::settings::row::Heading::Listen as Where;
use crate::settings::row::{Row, rows};
use crate::surface::{Mount, MountContext, Mounted, SurfaceKind};

rows! {
    /// The rows of this surface.
    ROWS:
    LISTEN: Row<Listen> = Row::new("metrics", "ADDR", "off", parse::listen)
        .envoy_compat(&["USE_PROMETHEUS", "PROMETHEUS_ADDR"])
        .help(Where, "Address of a port with nothing but the metrics, which are at /metrics of the HTTP port anyway");
    PATH: Row<String> = Row::new("metrics-path", "URL-PATH", "/metrics", path)
        .envoy_compat(&["PROMETHEUS_PATH"])
        .help(Where, "Path of the metrics on that port");
}

pub(crate) static KIND: SurfaceKind = SurfaceKind {
    listen: &LISTEN,
    rows: ROWS,
    read: |layers| Arc::new(MetricsSettings { path: layers.one(&PATH) }),
};

/// A path as requests have it.
fn path(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.bytes().all(|c| c.is_ascii_graphic() && !b"?#".contains(&c));
    match is_path {
        true => Ok(text.to_owned()),
        false => Err(format!("invalid path {text:?}: expected something like /metrics")),
    }
}

/// Settings of the port with the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Where on that port they are.
    pub path: String,
}

impl Mount for MetricsSettings {
    fn mount(&self, process: &MountContext<'_>) -> Mounted {
        let settings = bounds(process);
        let shared = Arc::new(settings.shared());
        let acceptor = |_| {
            let page = MetricsPage::new(Arc::clone(&process.node.limiter), self.path.clone());
            Acceptor::of(Arc::new(HttpSurface::sharing(page, settings.clone(), Arc::clone(&shared))))
        };
        Mounted { acceptors: (0..process.serving.workers).map(acceptor).collect(), metrics: None }
    }

    fn alpn(&self) -> &'static [&'static str] {
        &["http/1.1"]
    }

    fn decides(&self) -> bool {
        false
    }
}
