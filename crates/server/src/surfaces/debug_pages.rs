//! The debug port of envoyproxy/ratelimit: rules and counts for people and their tools. Off unless its
//! environment is recognised.

use std::sync::Arc;

use tollgate_http_api::{DebugPages, NodeStatus};
use tollgate_http_kit::{HttpSurface, SurfaceSettings};

use crate::acceptor::Acceptor;
use crate::settings::parse::{self, Listen};
use crate::settings::row::Heading::Listen as Where;
use crate::settings::row::{Row, rows};
use crate::surface::{Mount, MountContext, Mounted, SurfaceKind};

rows! {
    /// The rows of this surface.
    ROWS:
    LISTEN: Row<Listen> = Row::new("debug-pages", "ADDR", "off", parse::listen)
        .envoy_compat(&["DEBUG_HOST", "DEBUG_PORT"])
        .help(Where, "Address of /rlconfig, /stats and /healthcheck as on the debug port of envoyproxy/ratelimit, for \
                      every client that can connect; with its environment, 0.0.0.0:6070");
}

pub(crate) static KIND: SurfaceKind =
    SurfaceKind { listen: &LISTEN, rows: ROWS, read: |_| Arc::new(DebugPagesSettings) };

/// The debug pages have no settings but their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugPagesSettings;

impl Mount for DebugPagesSettings {
    fn mount(&self, process: &MountContext<'_>) -> Mounted {
        let settings = bounds(process);
        let shared = Arc::new(settings.shared());
        let acceptor = |_| {
            let node = Arc::clone(process.node) as Arc<dyn NodeStatus>;
            let pages = DebugPages::new(Arc::clone(&process.node.limiter), node);
            Acceptor::of(Arc::new(HttpSurface::sharing(pages, settings.clone(), Arc::clone(&shared))))
        };
        Mounted { acceptors: (0..process.serving.workers).map(acceptor).collect(), metrics: None }
    }

    fn alpn(&self) -> &'static [&'static str] {
        &["http/1.1"]
    }

    fn decides(&self) -> bool {
        false
    }

    fn unprotected(&self) -> Option<&'static str> {
        Some("without a token, so anyone who can reach it sees the rules (set --debug-pages, or DEBUG_HOST)")
    }
}

/// The bounds of a port that serves pages, and no client in a hurry.
pub(super) fn bounds(process: &MountContext<'_>) -> SurfaceSettings {
    SurfaceSettings {
        header_timeout: process.serving.request_timeout,
        body_timeout: process.serving.request_timeout,
        max_buffered_bytes: process.serving.max_buffered,
        max_unread_bytes: process.serving.max_buffered,
        ..SurfaceSettings::default()
    }
}
