//! The three surfaces as the settings want them: what each bears, who may ask, and how they are shared out to workers.

use std::sync::Arc;
use std::time::Duration;

use tollgate_envoy_rls::{Limits, RateLimitService};
use tollgate_http_api::{HttpApi, HttpSettings};
use tollgate_http_kit::{AdminAccess, HttpSurface, SurfaceSettings, Token};
use tollgate_net::{AcceptLimits, Figures, Listeners};
use tollgate_resp_api::{Password, RespApi, RespSettings};

use crate::certificates::Certificates;
use crate::counters::{Grpc, Http, Resp};
use crate::node::Node;
use crate::observe::Observed;
use crate::server::Bound;
use crate::settings::{Settings, Surface};
use crate::worker::{Door, Entrance};

/// Every surface of one process, and the way in to each.
pub(crate) struct Surfaces {
    /// One for each worker, so that no core touches what another one counts with.
    http: Vec<Arc<Http>>,
    grpc: Vec<Arc<Grpc>>,
    resp: Arc<Resp>,
    entrances: [(Surface, Entrance); 3],
}

impl Surfaces {
    pub(crate) fn new(
        node: &Arc<Node>,
        settings: &Settings,
        certificates: &Certificates,
        bound: &Bound,
    ) -> Self {
        let limits = Arc::new(AcceptLimits {
            max_connections: settings.max_connections.div_ceil(settings.workers),
            ..AcceptLimits::default()
        });
        let entrance = |surface| Entrance {
            tls: certificates.of(surface),
            limits: Arc::clone(&limits),
            figures: Arc::new(Figures::default()),
        };
        let (limiter, clock) = (|| Arc::clone(&node.limiter), || Arc::clone(&node.clock));
        let is_loopback = bound.http.as_ref().is_some_and(|listeners| listeners.address.ip().is_loopback());
        let (replies, limits) = (&settings.replies, grpc_limits(settings));
        let service = |_| {
            let (replies, limits) = (replies.clone(), limits.clone());
            Arc::new(RateLimitService::new(limiter(), clock(), node.ready(), replies, limits))
        };
        let grpc: Vec<_> = (0..settings.workers).map(service).collect();
        let api = |service: &Arc<Grpc>| {
            let node = Arc::clone(node) as Arc<dyn tollgate_http_api::Node>;
            let json = Arc::new(service.over_http());
            let api = HttpApi::new(limiter(), clock(), node, json, http_settings(settings));
            Arc::new(HttpSurface::new(api, http_surface(settings, is_loopback)))
        };
        let http = grpc.iter().map(api).collect();
        let resp = Arc::new(RespApi::new(limiter(), clock(), resp_settings(settings)));
        Self { http, grpc, resp, entrances: Surface::ALL.map(|surface| (surface, entrance(surface))) }
    }

    /// What metrics tell of them.
    pub(crate) fn observed(&self, node: &Arc<Node>, certificates: &Certificates) -> Observed {
        let connections = self.entrances.each_ref();
        Observed {
            connections: connections.map(|(surface, entrance)| (*surface, Arc::clone(&entrance.figures))),
            resp: Arc::clone(&self.resp),
            http: self.http.clone(),
            node: Arc::clone(node),
            certificates: certificates.clone(),
        }
    }

    /// The doors of each worker: one on every surface that is on.
    pub(crate) fn workers(&self, bound: Bound) -> Vec<Vec<Door>> {
        let sockets = |listeners: Option<Listeners>| listeners.into_iter().flat_map(|it| it.sockets);
        let (mut grpc, mut http, mut resp) = (sockets(bound.grpc), sockets(bound.http), sockets(bound.resp));
        let [(_, to_grpc), (_, to_http), (_, to_resp)] = &self.entrances;
        let doors = |(service, api)| {
            let grpc = grpc.next().map(|socket| Door::new(socket, Arc::clone(service), to_grpc));
            let http = http.next().map(|socket| Door::new(socket, Arc::clone(api), to_http));
            let resp = resp.next().map(|socket| Door::new(socket, Arc::clone(&self.resp), to_resp));
            [grpc, http, resp].into_iter().flatten().collect()
        };
        self.grpc.iter().zip(&self.http).map(doors).collect()
    }
}

fn grpc_limits(settings: &Settings) -> Limits {
    Limits {
        max_connection_age: settings.max_connection_age.unwrap_or(Duration::MAX),
        max_connection_age_grace: settings.max_connection_age_grace,
        drain_timeout: settings.drain_timeout,
        ..Limits::default()
    }
}

fn http_settings(settings: &Settings) -> HttpSettings {
    HttpSettings {
        style: settings.headers,
        max_body_bytes: settings.max_body,
        max_batch_bytes: settings.max_body * 16,
        max_batch: settings.max_batch,
        ..HttpSettings::default()
    }
}

fn http_surface(settings: &Settings, is_loopback: bool) -> SurfaceSettings {
    let token = settings.admin_token.as_ref().and_then(|secret| Token::new(secret.reveal()));
    SurfaceSettings {
        admin: AdminAccess { token, is_loopback },
        header_timeout: settings.request_timeout,
        body_timeout: settings.request_timeout,
        idle_timeout: settings.idle_timeout,
        ..SurfaceSettings::default()
    }
}

fn resp_settings(settings: &Settings) -> RespSettings {
    RespSettings {
        password: settings.resp_password.as_ref().map(|secret| Password::new(secret.reveal())),
        max_bulk_bytes: settings.max_body,
        max_command_bytes: settings.max_body * 4,
        command_timeout: settings.request_timeout,
        write_timeout: settings.request_timeout,
        idle_timeout: settings.resp_idle_timeout,
        ..RespSettings::default()
    }
}
