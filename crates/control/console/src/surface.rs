//! The surface: its table, and the way of each request through it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::task::Poll;

use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY};
use hyper::{HeaderMap, Method};
use tollgate_api::Call;
use tollgate_control::{Claim, Rejected, change_set};
use tollgate_http_kit::openapi::Description;
use tollgate_http_kit::{Access, Api, Operation, Problem, Reply, Request};

use crate::assets;
use crate::console::Console;
use crate::pages::{self, Page};
use crate::rest;
use crate::rooms::takes_long;
use crate::web::{Failure, Visit, check};

/// The target of a row: a page, a call of the API, or an asset.
#[derive(Clone, Copy, Debug)]
pub enum Route {
    #[doc(hidden)]
    Page(Page),
    #[doc(hidden)]
    Call(Call),
    #[doc(hidden)]
    Asset,
    #[doc(hidden)]
    Unknown,
}

/// Headers of every reply. Inline scripts and styles never run.
const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

static OPERATIONS: LazyLock<Vec<Operation<Route>>> = LazyLock::new(|| {
    let mut rows: Vec<_> = tollgate_api::operations().iter().map(routed).collect();
    rows.extend(pages::PAGES.iter().map(|(method, path, page)| Operation {
        method: method.clone(),
        path,
        route: Route::Page(*page),
        access: Access::Anyone,
        id: path,
        summary: "A page of the console",
        describe: Description::default,
    }));
    for (path, route) in [("/assets/{name}", Route::Asset), ("/{*}", Route::Unknown)] {
        rows.push(Operation {
            method: Method::GET,
            path,
            route,
            access: Access::Anyone,
            id: path,
            summary: "What pages load, and what there is not",
            describe: Description::default,
        });
    }
    rows
});

/// An operation of the API as one of the surface.
fn routed(row: &Operation<Call>) -> Operation<Route> {
    Operation {
        method: row.method.clone(),
        path: row.path,
        route: Route::Call(row.route),
        access: row.access,
        id: row.id,
        summary: row.summary,
        describe: row.describe,
    }
}

/// The paths of the pages that a link can lead to.
static SCREENS: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| pages::PAGES.iter().filter(|it| it.0 == Method::GET).map(|it| it.1).collect());

impl Console {
    async fn visit(
        &self,
        route: Route,
        visit: &mut Visit,
        request: &mut Request<'_>,
    ) -> Result<Reply, Failure> {
        if let Route::Asset = route {
            let is_short = assets::accepts_gzip(request.headers());
            return assets::asset(&visit.segment(1), is_short).ok_or(Failure::NoPage);
        }
        visit.screens = &SCREENS;
        visit.is_disk_low = !self.control.live().surroundings().has_room();
        match visit.bearer.take().filter(|_| visit.is_api) {
            // No browser sends a token by itself, so that there is nothing to forge; and a token is never
            // mixed with a cookie.
            Some(token) => {
                visit.cookie = None;
                let claim = Claim::token(&token, visit.origin());
                let (who, _) = self.control.enter(&claim).await?.ok_or(Failure::NoToken)?;
                visit.entered(claim, who);
            }
            None => {
                check(request.headers(), &self.settings.hosts, visit.is_safe)?;
                let claim = visit.cookie.as_ref().map(|cookie| Claim::login(cookie, visit.origin()));
                if let Some(claim) = claim
                    && let Some((who, preferences)) = self.control.enter(&claim).await?
                {
                    visit.entered(claim, who);
                    visit.prefer(&preferences);
                }
            }
        }
        visit.presence = Some(Arc::clone(request.presence()));
        let _body;
        if !visit.is_safe {
            // Rights before work: of those who may change nothing there, nothing large is read.
            let max = visit.longest_body()?;
            // Held to the end, so that few large bodies are in memory at once.
            _body = self.rooms.body(visit, visit.body_bytes(request, max))?;
            visit.read_body(request, max).await?;
        }
        let _turn = match visit.user().filter(|_| takes_long(visit.path(), visit.is_safe)) {
            Some(user) => Some(self.rooms.turns().turn(&user, visit.is_operator()).await?),
            None => None,
        };
        if let (Route::Page(_), Ok(claim)) = (route, visit.claim()) {
            visit.open_changes =
                self.control.read_as(&claim, move |tx, actor| change_set::open(tx, actor)).await?;
        }
        match route {
            Route::Page(page) => pages::answer(self, page, visit).await,
            Route::Call(call) => rest::answer(self, call, visit).await,
            Route::Asset | Route::Unknown => Err(Failure::NoPage),
        }
    }
}

impl Console {
    /// [`reply`](Self::reply), compiled in this crate: a future that is not boxed by a plain function here is
    /// compiled in each crate that serves it.
    #[inline(never)]
    fn reply_boxed<'a>(
        &'a self,
        route: Route,
        request: Request<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send + 'a>> {
        Box::pin(self.reply(route, request))
    }

    async fn reply(&self, route: Route, mut request: Request<'_>) -> Result<Reply, Problem> {
        let mut visit = Visit::new(&request, self.next_request(), self.cookie_name(), &self.settings);
        let visited =
            unwound(self.visit(route, &mut visit, &mut request)).await.unwrap_or(Err(Failure::Panic));
        let reason = visited.as_ref().err().map(Failure::reason);
        let mut reply = match visited {
            Ok(reply) => reply,
            Err(failure) if visit.is_api => rest::failed(&visit, failure),
            Err(failure) => pages::failed(self, &visit, failure).await,
        };
        self.note_rejected(&visit, &reply, reason).await;
        if visit.is_safe && assets::accepts_gzip(request.headers()) {
            reply = assets::shortened(reply).await;
        }
        let fields = reply.headers_mut();
        if let Ok(id) = HeaderValue::try_from(&visit.request_id) {
            fields.insert("x-request-id", id);
        }
        fields.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        Ok(reply)
    }

    /// Records a change of a user that was rejected, whichever function rejected it.
    async fn note_rejected(&self, visit: &Visit, reply: &Reply, reason: Option<String>) {
        let status = reply.status();
        let Some(who) = visit.who.as_ref().filter(|_| !visit.is_safe && status.is_client_error()) else {
            return;
        };
        let rejected = Rejected {
            operation: visit.operation(),
            app: visit.app(),
            status: status.as_u16(),
            reason: reason.unwrap_or_default(),
        };
        if let Err(error) = self.control.note_rejected(who, rejected).await {
            tracing::error!(request = %visit.request_id, %error, "a rejected change could not be recorded");
        }
    }
}

/// The result of `work`, unless it panics: a page that fails shows our own page for that, too.
async fn unwound<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Some),
        Err(_) => Poll::Ready(None),
    })
    .await
}

impl Api for Console {
    type Route = Route;

    fn operations() -> &'static [Operation<Route>] {
        &OPERATIONS
    }

    fn add_fields(&self, fields: &mut HeaderMap) {
        for (name, value) in HEADERS {
            fields.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if self.settings.is_secure {
            let year = HeaderValue::from_static("max-age=31536000");
            fields.insert(STRICT_TRANSPORT_SECURITY, year);
        }
    }

    async fn answer(self: &Arc<Self>, route: Route, request: Request<'_>) -> Result<Reply, Problem> {
        self.reply_boxed(route, request).await
    }
}
