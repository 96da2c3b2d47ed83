//! All surfaces. A new one is a file here, and a line in [`ALL`].

pub(crate) mod debug_pages;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod metrics;
pub(crate) mod resp;

pub use self::debug_pages::DebugPagesSettings;
pub use self::grpc::GrpcSettings;
pub use self::http::HttpSettings;
pub use self::metrics::MetricsSettings;
pub use self::resp::RespSettings;
use crate::surface::SurfaceKind;

/// Every surface, in the order in which they are listed to people.
pub(crate) static ALL: [&SurfaceKind; 5] =
    [&grpc::KIND, &http::KIND, &resp::KIND, &debug_pages::KIND, &metrics::KIND];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::watch;
    use tollgate_envoy_rls::RateLimitService;
    use tollgate_http_api::HttpApi;
    use tollgate_http_kit::HttpSurface;
    use tollgate_net::{Peer, Stream, Surface};
    use tollgate_resp_api::RespApi;

    use crate::any_store::AnyStore;

    const fn size_of_future<S, F>(_: &impl Fn(Arc<S>, Stream, Peer, watch::Receiver<bool>) -> F) -> usize {
        size_of::<F>()
    }

    /// Each connection has one, also an idle one; `an_idle_connection_costs_what_the_page_says` measures all
    /// that an idle one costs.
    #[test]
    fn the_future_of_a_connection_stays_as_small_as_it_is() {
        let resp = size_of_future(&RespApi::<AnyStore>::serve_client::<Stream>);
        let http = size_of_future(&HttpSurface::<HttpApi<AnyStore>>::serve_client::<Stream>);
        let grpc = size_of_future(&RateLimitService::<AnyStore>::serve_client::<Stream>);
        for (surface, bytes, most) in
            [("Redis protocol", resp, 2_700), ("HTTP", http, 1_400), ("gRPC", grpc, 3_400)]
        {
            assert!((most / 2..=most).contains(&bytes), "{surface}: {bytes} bytes, at most {most}");
        }
    }
}
