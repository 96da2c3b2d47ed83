//! Rate limiting as [tower](https://docs.rs/tower) layers, on the library [`tollgate`].
//!
//! | to limit | use | example |
//! |---|---|---|
//! | the requests that a server gets: axum, hyper | [`RateLimitLayer`] | `axum_routes` |
//! | the calls that a gRPC service gets: tonic | [`RateLimitLayer`] | `tonic_service` |
//! | the same, but let them wait for their turn | [`QueueLayer`] | |
//! | what requests turn out to use: tokens, bytes | [`PostPaidLayer`] | `axum_tokens` |
//! | how many requests a service works on at the same time | [`ConcurrencyLayer`] | `axum_concurrency` |
//! | the requests that a client sends | [`client::ClientLayer`] | `outgoing_client` |
//!
//! `cargo run -p tollgate-tower --example NAME` runs an example.
//!
//! A [`Limit`] is a [`Quota`] and what to count by: a [`Key`], or several. [`Replies`] says what clients get.
//!
//! # A route
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use tollgate_tower::{Key, Limit, Quota, RateLimitLayer, Replies};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Ten a second for each client address behind one proxy, and a thousand for all together.
//! let per_client = Limit::new(Quota::per_second(10))?.named("client").by(Key::forwarded_ip(1));
//! let layer = RateLimitLayer::new(per_client)
//!     .and(Limit::new(Quota::per_second(1_000))?.named("all"))
//!     .replies(Replies::default().headers("draft-11".parse()?));
//!
//! // With axum: `Router::new().route("/search", get(search)).layer(layer)`. To count by the address that
//! // connects ([`Key::peer_ip`]), serve `app.into_make_service_with_connect_info::<SocketAddr>()`.
//! let service = ServiceBuilder::new()
//!     .layer(layer)
//!     .service(service_fn(async |_: Request<()>| Ok::<_, std::io::Error>(Response::new(String::new()))));
//! let request = Request::get("/search").header("x-forwarded-for", "203.0.113.7").body(())?;
//! let response = service.oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::OK);
//! assert_eq!(response.headers()["ratelimit"], r#""client";r=9;t=1, "all";r=999;t=1"#);
//! # Ok(())
//! # }
//! ```
//!
//! # Requests without the key
//!
//! Nothing is limited by a key that is silently missing. A request without an address or an extension gets
//! 500, and the first one is logged with what to do: then the service is not set up to find them, and all
//! clients would share one limit. A request without a header shares the permits of one key with all others of
//! its kind, so that leaving it out gains nothing. [`MissingKey`] has the other choices.
//!
//! Not here: rules in files, and counters that a fleet shares. The server `tollgate` has both.
#![deny(missing_docs)] // it is published

mod body;
pub mod client;
mod concurrency;
mod grpc;
mod key;
mod layer;
mod limit;
mod post_paid;
mod queue;
mod replies;

pub use body::Body;
pub use concurrency::{Concurrency, ConcurrencyLayer, HeldBody};
pub use key::{Head, Key};
pub use layer::{RateLimit, RateLimitLayer, ResponseFuture};
pub use limit::{Limit, MissingKey};
pub use post_paid::{MeteredBody, PostPaid, PostPaidFuture, PostPaidLayer, Used};
pub use queue::{Queue, QueueLayer};
pub use replies::{BodyError, Replies};
pub use tollgate::{Quota, QuotaError, Quotas};
pub use tollgate_headers::{Generation, Ietf, Reading, Style, TemplateError, UnknownStyle};
