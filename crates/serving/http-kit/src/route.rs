//! From a request to its reply: which operation, whether it may be called, and one panic's worth of damage.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, StatusCode};
use tollgate_human_text::{clip_to, did_you_mean};

use crate::api::{Api, HttpSurface};
use crate::body::Request;
use crate::operations::{self, Access, Operation};
use crate::problem::Problem;
use crate::reply::Reply;

impl<A: Api> HttpSurface<A> {
    /// Answers `request`; `finish` gets the reply where it is made, so that it is moved less. A panic costs
    /// this one request.
    pub(crate) async fn answer(&self, request: Request<'_>, finish: impl Fn(Reply) -> Reply) -> Reply {
        let peer = request.peer();
        let problem = |problem: Problem| {
            self.api.rejected(peer, &problem);
            finish(problem.reply())
        };
        let mut routed = pin!(self.route(request));
        poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| routed.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(Ok(reply))) => Poll::Ready(finish(reply)),
            Ok(Poll::Ready(Err(rejected))) => Poll::Ready(problem(rejected)),
            Err(_) => {
                tracing::error!("a request over HTTP panicked; it was answered 500");
                Poll::Ready(problem(Problem::internal()))
            }
        })
        .await
    }

    async fn route(&self, request: Request<'_>) -> Result<Reply, Problem> {
        let operation = match find(A::operations(), &request) {
            Some(operation) => operation,
            None => return self.unknown(&request),
        };
        if operation.access == Access::Admin {
            self.settings.admin.check(request.headers(), request.caller)?;
        }
        self.api.answer(operation.route, request).await
    }

    /// The reply where there is no such operation, or only the question which there are.
    #[cold]
    fn unknown(&self, request: &Request<'_>) -> Result<Reply, Problem> {
        let path = request.path();
        let operations = A::operations();
        let is_question = *request.method() == Method::OPTIONS;
        if is_question && path == "*" {
            return Ok(options(&operations::allowed(operations.iter())));
        }
        let there = operations::at(operations, path);
        if there.clone().next().is_none() {
            return Err(not_found(operations, path));
        }
        let allowed = operations::allowed(there);
        if is_question {
            return Ok(options(&allowed));
        }
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes {allowed}"));
        self.api.rejected(request.peer(), &problem);
        let mut reply = problem.reply();
        allow(&mut reply, &allowed);
        Ok(reply)
    }
}

fn find<R>(operations: &'static [Operation<R>], request: &Request<'_>) -> Option<&'static Operation<R>> {
    let path = request.path();
    let method = request.method();
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let mut whole = operations.iter();
    let whole = whole.find(|operation| operation.method == *method && operation.path == path);
    whole.or_else(|| {
        let is_it = |it: &&Operation<R>| it.method == *method && operations::matches(it.path, path);
        operations.iter().find(is_it)
    })
}

fn options(allowed: &str) -> Reply {
    let mut options = Reply::default();
    *options.status_mut() = StatusCode::NO_CONTENT;
    allow(&mut options, allowed);
    options
}

fn allow(reply: &mut Reply, allowed: &str) {
    if let Ok(allowed) = HeaderValue::try_from(allowed) {
        reply.headers_mut().insert(ALLOW, allowed);
    }
}

fn not_found<R>(operations: &[Operation<R>], path: &str) -> Problem {
    let paths: Vec<&str> = operations.iter().map(|operation| operation.path).collect();
    let bare = path.trim_end_matches('/');
    let near = if paths.contains(&bare) {
        Some(format!("did you mean {bare}?"))
    } else {
        did_you_mean(path, &paths)
    };
    let hint = near.unwrap_or_else(|| "/ and /openapi.json list all paths".to_owned());
    Problem::new(StatusCode::NOT_FOUND, format!("unknown path {}; {hint}", clip_to(path, 100)))
}
