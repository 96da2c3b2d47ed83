//! From a request to its answer: which operation, whether it may be asked, its body, and one panic's worth of damage.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, StatusCode};
use tollgate_human_text::did_you_mean;
use tollgate_store::Store;

use crate::answer::{Answer, HTML, JSON, Refusal, answer, text};
use crate::api::HttpApi;
use crate::operations::{self, Access, CHECK, Operation, Route};
use crate::{admin, body, explain, openapi, page, query};

/// The most that `/json` reads of a body, as before there were settings for it.
const MAX_PEER_BODY: usize = 64 * 1024;

impl<S: Store + 'static> HttpApi<S> {
    /// Answers `request`. A panic costs this one request.
    pub(crate) async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Answer {
        let mut routed = pin!(self.route(request));
        let answered = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| routed.as_mut().poll(cx))) {
            Ok(poll) => poll,
            Err(_) => {
                tracing::error!("a request over HTTP met a fault of this server; it was answered 500");
                Poll::Ready(Err(Refusal::fault()))
            }
        });
        answered.await.unwrap_or_else(|refusal| refused(&refusal))
    }

    async fn route(self: &Arc<Self>, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let (head, body) = request.into_parts();
        if head.uri.path() != CHECK || !(head.method == Method::POST || head.method == Method::GET) {
            return Box::pin(self.other(head, body)).await;
        }
        let mut bytes = Bytes::new();
        if head.method == Method::POST {
            must_be_json(&head.headers)?;
            let most = self.settings.max_body_bytes.max(self.settings.max_batch_bytes);
            bytes = body::read(body, most, self.settings.body_timeout, &self.budget).await?;
        }
        self.check(&head, &bytes).await
    }

    /// Everything that is not asked all the time.
    async fn other(self: &Arc<Self>, head: Parts, body: Incoming) -> Result<Answer, Refusal> {
        let operation = match find(&head) {
            Found::Operation(operation) => operation,
            Found::Answer(answer) => return Ok(answer),
        };
        if operation.access == Access::Admin {
            admin::check(&head.headers, &self.settings)?;
        }
        let query = head.uri.query().unwrap_or_default();
        match operation.route {
            Route::Check => self.check(&head, &Bytes::new()).await,
            Route::Reserve => self.reserve(&head, &self.json_body(&head, body).await?).await,
            Route::Commit => self.commit(&self.json_body(&head, body).await?).await,
            Route::Cancel => self.cancel(&self.json_body(&head, body).await?).await,
            Route::Explain => {
                let one = query::one(query, self.caps)?;
                Ok(explain::answer(self.limiter.rules().policy(), &one, &self.settings.style))
            }
            Route::Keys => self.keys(&head.method, &query::one(query, self.caps)?).await,
            Route::Rules => self.heavy(|api| api.rules()).await,
            Route::PeerJson => Ok(self.peer_json(body).await),
            Route::Metrics => {
                self.heavy(|api| {
                    let content_type = HeaderValue::from_static(tollgate_limiter::observe::CONTENT_TYPE);
                    answer(StatusCode::OK, content_type, api.limiter.metrics().render())
                })
                .await
            }
            Route::Health => Ok(text(StatusCode::OK, "ok\n")),
            // The peer's only health path: no also while it drains.
            Route::PeerHealth if self.node.state().is_ready => Ok(text(StatusCode::OK, "OK")),
            Route::PeerHealth => Ok(text(StatusCode::INTERNAL_SERVER_ERROR, "not ready; /readyz says why\n")),
            Route::Ready => Ok(self.readiness()),
            Route::RuleDump => {
                self.heavy(|api| text(StatusCode::OK, explain::rlconfig(api.limiter.rules().policy()))).await
            }
            Route::OpenApi => Ok(answer(StatusCode::OK, JSON, openapi::document())),
            Route::Page => {
                let mut page = answer(StatusCode::OK, HTML, self.page());
                let policy = HeaderValue::from_static(page::SECURITY_POLICY);
                page.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
                page.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
                Ok(page)
            }
        }
    }

    async fn json_body(&self, head: &Parts, body: Incoming) -> Result<Bytes, Refusal> {
        must_be_json(&head.headers)?;
        body::read(body, self.settings.max_body_bytes, self.settings.body_timeout, &self.budget).await
    }

    /// Runs `work`, which may take milliseconds with thousands of rules, where no decision waits for it; a few at once.
    async fn heavy(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Answer + Send + 'static,
    ) -> Result<Answer, Refusal> {
        let _turn = self.heavy.acquire().await.map_err(|_| Refusal::fault())?;
        let api = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&api)).await.map_err(|_| Refusal::fault())
    }

    /// `/json`: as envoyproxy/ratelimit answers it, also its errors, which are plain text.
    async fn peer_json(&self, body: Incoming) -> Answer {
        let body = match body::read(body, MAX_PEER_BODY, self.settings.body_timeout, &self.budget).await {
            Ok(body) => body,
            Err(refusal) => return text(refusal.status, format!("{}\n", refusal.detail)),
        };
        (self.json)(body).await.map(|body| Full::new(body.into()))
    }
}

enum Found {
    Operation(&'static Operation),
    /// There is no such operation, or it was only asked what there is.
    Answer(Answer),
}

fn find(head: &Parts) -> Found {
    let path = head.uri.path();
    if head.method == Method::OPTIONS && path == "*" {
        return Found::Answer(options("GET, HEAD, POST, DELETE, OPTIONS"));
    }
    let operations = operations::at(path);
    let method = if head.method == Method::HEAD { &Method::GET } else { &head.method };
    if let Some(operation) = operations.clone().find(|operation| operation.method == method) {
        return Found::Operation(operation);
    }
    if operations.clone().next().is_none() {
        return Found::Answer(not_found(path));
    }
    let allowed = operations::allowed(operations);
    if head.method == Method::OPTIONS {
        return Found::Answer(options(&allowed));
    }
    let detail = format!("{path} takes {allowed}");
    let mut refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, detail).answer();
    allow(&mut refusal, &allowed);
    Found::Answer(refusal)
}

fn options(allowed: &str) -> Answer {
    let mut options = Answer::default();
    *options.status_mut() = StatusCode::NO_CONTENT;
    allow(&mut options, allowed);
    options
}

fn allow(answer: &mut Answer, allowed: &str) {
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        answer.headers_mut().insert(ALLOW, allowed);
    }
}

fn not_found(path: &str) -> Answer {
    let paths: Vec<&str> = operations::OPERATIONS.iter().map(|operation| operation.path).collect();
    let bare = path.trim_end_matches('/');
    let near = if paths.contains(&bare) {
        Some(format!("did you mean {bare}?"))
    } else {
        did_you_mean(path, &paths)
    };
    let hint = near.unwrap_or_else(|| "/ and /openapi.json say what there is".to_owned());
    let shown: String = path.chars().take(100).collect();
    Refusal::new(StatusCode::NOT_FOUND, format!("there is no {shown}; {hint}")).answer()
}

fn refused(refusal: &Refusal) -> Answer {
    let mut answer = refusal.answer();
    if refusal.status == StatusCode::UNAUTHORIZED {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tollgate\""));
    }
    answer
}

/// Refuses bodies that say they are no JSON. Those that say nothing are taken at their word, and so are those that say what
/// `curl -d` says unless told otherwise.
fn must_be_json(fields: &HeaderMap) -> Result<(), Refusal> {
    let Some(content_type) = fields.get(CONTENT_TYPE) else { return Ok(()) };
    if *content_type == JSON {
        return Ok(());
    }
    let essence = content_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    match &*essence.trim_ascii().to_ascii_lowercase() {
        b"application/json" | b"application/x-www-form-urlencoded" => Ok(()),
        essence if essence.starts_with(b"application/") && essence.ends_with(b"+json") => Ok(()),
        _ => {
            let detail = "the body must be JSON; send it with `Content-Type: application/json`";
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}
