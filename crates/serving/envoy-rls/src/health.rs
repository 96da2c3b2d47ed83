//! `grpc.health.v1.Health`: does this server want calls? The answer is the same for every name that it knows.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio::sync::watch;

use crate::body::parsed;
use crate::outgoing::{Gone, Outgoing};
use crate::proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse, ServingStatus,
};
use crate::status::{Code, Status};

/// Known names: the server as a whole, the name that envoyproxy/ratelimit uses, and those of the services.
const NAMES: [&str; 4] =
    ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService", "tollgate.slots.v1.SlotService"];

/// Methods of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Check,
    List,
    Watch,
}

/// Inputs of health: whether the server is ready, and whether this connection drains.
pub(crate) struct Signs {
    pub(crate) ready: watch::Receiver<bool>,
    pub(crate) drain: watch::Receiver<bool>,
}

/// Answers one call.
pub(crate) async fn serve(method: Method, message: Bytes, mut outgoing: Outgoing, signs: Signs) {
    let now = serving(*signs.ready.borrow());
    let result = match method {
        Method::List => match parsed::<HealthListRequest>(message) {
            Ok(_) => {
                let statuses: BTreeMap<_, _> = NAMES.map(|name| (name.to_owned(), now)).into();
                outgoing.send(&HealthListResponse { statuses }).await.map(Ok)
            }
            Err(status) => Ok(Err(status)),
        },
        Method::Check => match parsed::<HealthCheckRequest>(message) {
            Ok(request) if NAMES.contains(&request.service.as_str()) => outgoing.send(&now).await.map(Ok),
            Ok(_) => Ok(Err(Status::new(Code::NotFound, "no service of that name"))),
            Err(status) => Ok(Err(status)),
        },
        Method::Watch => match parsed::<HealthCheckRequest>(message) {
            Ok(request) => watch(&request.service, &mut outgoing, signs).await.map(Err),
            Err(status) => Ok(Err(status)),
        },
    };
    if let Ok(result) = result {
        outgoing.finish(result);
    }
}

/// Reports every change until the peer ends the call or the connection drains.
async fn watch(service: &str, outgoing: &mut Outgoing, mut signs: Signs) -> Result<Status, Gone> {
    let is_known = NAMES.contains(&service);
    let mut reported = None;
    loop {
        let is_draining = *signs.drain.borrow_and_update();
        let is_ready = *signs.ready.borrow_and_update();
        let now = match is_known {
            true => serving(is_ready && !is_draining),
            false => HealthCheckResponse { status: ServingStatus::ServiceUnknown as i32 },
        };
        if reported != Some(now) {
            outgoing.send(&now).await?;
            reported = Some(now);
        }
        if is_draining {
            return Ok(Status::new(Code::Unavailable, "this connection is going away"));
        }
        tokio::select! {
            () = outgoing.gone() => return Err(Gone),
            _ = signs.drain.wait_for(|&drain| drain) => {}
            // Without a sender nothing changes any more.
            Ok(()) = signs.ready.changed() => {}
        }
    }
}

fn serving(is_ready: bool) -> HealthCheckResponse {
    let status = if is_ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status as i32 }
}
