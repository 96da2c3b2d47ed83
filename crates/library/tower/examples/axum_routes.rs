//! A web service of axum whose routes are limited by client address:
//!
//! ```sh
//! cargo run -p tollgate-tower --example axum_routes
//! ```
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tollgate_tower::{Key, Limit, Quota, RateLimitLayer};
use tower::ServiceExt;

fn routes() -> Result<Router, Box<dyn Error>> {
    let per_client = Limit::new("2/minute".parse()?)?.named("search").by(Key::peer_ip());
    let exports = Limit::new(Quota::per_hour(1))?.named("export");
    Ok(Router::new()
        .route("/search", get(async || "found").layer(RateLimitLayer::new(per_client)))
        .route("/export", get(async || "all of it").layer(RateLimitLayer::new(exports)))
        .route("/health", get(async || "well")))
}

async fn ask(routes: &Router, path: &str, from: &str) -> Result<(StatusCode, String), Box<dyn Error>> {
    let mut request = Request::get(path).body(Body::empty())?;
    // A server does this with `routes.into_make_service_with_connect_info::<SocketAddr>()`.
    request.extensions_mut().insert(ConnectInfo::<SocketAddr>(from.parse()?));
    let response = routes.clone().oneshot(request).await?;
    let status = response.status();
    let body = String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?;
    println!("{from} GET {path}: {status} {body}");
    Ok((status, body))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let routes = routes()?;
    let ann = "192.0.2.1:5001";
    let bob = "192.0.2.2:5002";
    assert_eq!(ask(&routes, "/search", ann).await?.1, "found");
    assert_eq!(ask(&routes, "/search", ann).await?.1, "found");
    let (status, body) = ask(&routes, "/search", ann).await?;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(body.contains(r#""violated-policies":["search"]"#), "{body}");
    assert_eq!(ask(&routes, "/search", bob).await?.1, "found");
    assert_eq!(ask(&routes, "/export", ann).await?.0, StatusCode::OK);
    assert_eq!(ask(&routes, "/export", bob).await?.0, StatusCode::TOO_MANY_REQUESTS);
    for _ in 0..5 {
        assert_eq!(ask(&routes, "/health", ann).await?.1, "well");
    }
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
