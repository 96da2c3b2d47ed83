//! A whole HTTP surface: what an API brings itself, where the kit brings the rest.
//!
//! `cargo run -p tollgate-http-kit --example hello`, then `curl localhost:8000/hello?name=ann`.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "an example that fails says where")]

use std::sync::Arc;

use hyper::{Method, StatusCode};
use tokio::sync::watch;
use tollgate_http_kit::openapi::{Description, TEXT};
use tollgate_http_kit::reply::text;
use tollgate_http_kit::{
    Access, Api, HttpSurface, Operation, Problem, Reply, Request, SurfaceSettings, query,
};
use tollgate_net::{AcceptLimits, ConnectionStats, accept};

struct Hello;

static OPERATIONS: &[Operation<()>] = &[Operation {
    method: Method::GET,
    path: "/hello",
    route: (),
    access: Access::Anyone,
    id: "hello",
    summary: "Greets",
    describe: || Description::text(TEXT),
}];

impl Api for Hello {
    type Route = ();

    fn operations() -> &'static [Operation<()>] {
        OPERATIONS
    }

    async fn answer(self: &Arc<Self>, (): (), request: Request<'_>) -> Result<Reply, Problem> {
        let mut name = None;
        for parameter in query::parameters(request.query().unwrap_or_default()) {
            match parameter? {
                (key, value) if key == "name" => query::once(&mut name, "name", value.into_owned())?,
                (key, _) => return Err(query::unknown(&key, &["name"])),
            }
        }
        Ok(text(StatusCode::OK, format!("hello, {}\n", name.unwrap_or_default())))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await.expect("port 8000 is free");
    println!("listening on http://{}", listener.local_addr().expect("it is bound"));
    let surface = Arc::new(HttpSurface::new(Hello, SurfaceSettings::default()));
    let (_running, drain) = watch::channel(false);
    let limits = Arc::new(AcceptLimits::default());
    let stats = Arc::new(ConnectionStats::default());
    accept(listener, surface, None, limits, stats, drain).await;
}
