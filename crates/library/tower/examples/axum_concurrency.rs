//! A web service of axum that works on as many requests at the same time as it can stand:
//!
//! ```sh
//! cargo run -p tollgate-tower --example axum_concurrency
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Request, StatusCode};
use tokio::sync::Notify;
use tollgate::AdaptiveLimiter;
use tollgate::adaptive::Gradient2;
use tollgate_tower::ConcurrencyLayer;
use tower::ServiceExt;

/// `/export` is for one at a time, and the next waits up to a minute. `/search` finds its limit itself.
fn routes(go: &Arc<Notify>, search: &AdaptiveLimiter) -> Router {
    let go = Arc::clone(go);
    let export = async move || {
        go.notified().await;
        "all of it"
    };
    let one = ConcurrencyLayer::fixed(1).max_wait(Duration::from_secs(60)).max_waiting(1);
    let adaptive = ConcurrencyLayer::adaptive(search.clone()).retry_after(Duration::from_secs(3));
    Router::new()
        .route("/export", get(export).layer(one))
        .route("/search", get(async || "found").layer(adaptive))
}

async fn ask(routes: Router, path: &str) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
    let response = routes.oneshot(Request::get(path).body(Body::empty())?).await?;
    let status = response.status();
    let retry_after = response.headers().get("retry-after");
    println!("GET {path}: {status}, retry after {retry_after:?}");
    Ok(status)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let go = Arc::new(Notify::new());
    let search = AdaptiveLimiter::new(Gradient2::default())?;
    let routes = routes(&go, &search);

    // One works, one waits, and the third is rejected at once.
    let works = tokio::spawn(ask(routes.clone(), "/export"));
    let waits = tokio::spawn(ask(routes.clone(), "/export"));
    tokio::task::yield_now().await;
    assert_eq!(ask(routes.clone(), "/export").await?, StatusCode::SERVICE_UNAVAILABLE);
    go.notify_one();
    assert_eq!(works.await??, StatusCode::OK);
    go.notify_one();
    assert_eq!(waits.await??, StatusCode::OK);

    // What takes long or fails for overload lowers the limit of `/search`, at most once a second.
    assert_eq!(ask(routes, "/search").await?, StatusCode::OK);
    println!("/search: {} of {} in flight", search.in_flight(), search.limit());
    assert_eq!((search.in_flight(), search.limit()), (0, 20));
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error + Send + Sync>> {
    main()
}
