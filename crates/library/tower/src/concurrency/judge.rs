//! End of a call, judged by its response or its error.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use http::header::HeaderMap;
use http::status::StatusCode;
use tollgate::adaptive::Finish;

use crate::grpc;

type OfFields = dyn Fn(StatusCode, &HeaderMap) -> Finish + Send + Sync;
type OfError = dyn Fn(&dyn Any) -> bool + Send + Sync;

/// Rules by which a call counts as overload.
#[derive(Clone)]
pub(super) struct Judge {
    of_fields: Arc<OfFields>,
    of_error: Vec<Arc<OfError>>,
}

impl Default for Judge {
    fn default() -> Self {
        Self { of_fields: Arc::new(finish_of), of_error: Vec::new() }
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge").finish_non_exhaustive()
    }
}

impl Judge {
    pub(super) fn set_of_fields(
        &mut self,
        judge: impl Fn(StatusCode, &HeaderMap) -> Finish + Send + Sync + 'static,
    ) {
        self.of_fields = Arc::new(judge);
    }

    pub(super) fn add_of_error<E: 'static>(
        &mut self,
        is_overload: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) {
        let judge = move |error: &dyn Any| error.downcast_ref::<E>().is_some_and(&is_overload);
        self.of_error.push(Arc::new(judge));
    }

    /// Judges the fields of a head or of trailers.
    pub(super) fn fields(&self, status: StatusCode, fields: &HeaderMap) -> Finish {
        (self.of_fields)(status, fields)
    }

    /// Judges an error of the inner service.
    pub(super) fn error<E: 'static>(&self, error: &E) -> Finish {
        let is_overload = is_timeout(error) || self.of_error.iter().any(|judge| judge(error));
        if is_overload { Finish::Overload } else { Finish::Ignored }
    }
}

/// The usual meaning of a status, or of the gRPC status where there is one.
fn finish_of(status: StatusCode, fields: &HeaderMap) -> Finish {
    match grpc::status(fields) {
        // DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNAVAILABLE
        Some(b"4" | b"8" | b"14") => return Finish::Overload,
        // CANCELLED, UNKNOWN, UNIMPLEMENTED, INTERNAL, DATA_LOSS
        Some(b"1" | b"2" | b"12" | b"13" | b"15") => return Finish::Ignored,
        Some(_) => return Finish::Success,
        None => {}
    }
    match status {
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Finish::Overload,
        status if status.is_server_error() => Finish::Ignored,
        _ => Finish::Success,
    }
}

fn is_timeout<E: 'static>(error: &E) -> bool {
    let error: &dyn Any = error;
    if let Some(error) = error.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        return has_timeout(&**error);
    }
    let elapsed = error.downcast_ref::<tokio::time::error::Elapsed>();
    elapsed.is_some() || error.downcast_ref::<io::Error>().is_some_and(|error| has_timeout(error))
}

/// Most causes of an error that are looked at.
const MOST_CAUSES: usize = 32;

/// Whether `error` or a cause of it is a timeout.
fn has_timeout(error: &(dyn Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |&error| {
        // An `io::Error` made of another error skips that error.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        wrapped.map_or_else(|| error.source(), |wrapped| Some(wrapped))
    });
    causes.take(MOST_CAUSES).any(|error| {
        let timed_out = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        error.is::<tokio::time::error::Elapsed>() || error.downcast_ref().is_some_and(timed_out)
    })
}
