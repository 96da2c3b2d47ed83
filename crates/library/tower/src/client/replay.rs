//! Requests that are sent more than once.

use http::Request;

/// Copies the body of a request, so that the request can be sent again.
pub trait Replay<B>: Clone + Send + 'static {
    /// The same body; `None` if it cannot be copied.
    fn replay(&self, body: &B) -> Option<B>;
}

/// No request is sent twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReplay;

/// Bodies that can be cloned, such as `http_body_util::Full`, `String` or `()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayClone;

impl<B> Replay<B> for NoReplay {
    fn replay(&self, _: &B) -> Option<B> {
        None
    }
}

impl<B: Clone> Replay<B> for ReplayClone {
    fn replay(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

pub(super) fn copy<B>(replay: &impl Replay<B>, request: &Request<B>) -> Option<Request<B>> {
    let mut copy = Request::new(replay.replay(request.body())?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    *copy.version_mut() = request.version();
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}
