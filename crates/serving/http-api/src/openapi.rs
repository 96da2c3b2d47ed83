//! `/openapi.json`: the table of operations, and the types that are served.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;
use tollgate_http_kit::ProblemBody;
use tollgate_http_kit::openapi::{self, About};
use utoipa::ToSchema;

use crate::bodies::{
    CancelRequest, CheckAnswer, CheckBody, CommitRequest, Counters, Explained, Readiness, Release,
    Reservation, ReserveRequest, Rules, Settlement, Slot, SlotRequest, ThrottleRequest, Throttled,
};
use crate::operations::OPERATIONS;

static DOCUMENT: OnceLock<Bytes> = OnceLock::new();

const ABOUT: About = About {
    title: "Tollgate",
    version: env!("CARGO_PKG_VERSION"),
    description: "May this request pass now, later, or not at all? Times are in milliseconds and whole seconds, rounded \
                  up. Errors are application/problem+json and say what is wrong, where, and what to do.",
};

/// The description as JSON.
pub(crate) fn document() -> Bytes {
    DOCUMENT.get_or_init(|| openapi::document(ABOUT, OPERATIONS, &schemas()).to_string().into()).clone()
}

fn schemas() -> BTreeMap<String, Value> {
    let mut all = Vec::new();
    macro_rules! add {
        ($($shape:ty),* $(,)?) => {$(
            all.push((<$shape>::name().into_owned(), <$shape as utoipa::PartialSchema>::schema()));
            <$shape>::schemas(&mut all);
        )*};
    }
    add!(CheckBody, CheckAnswer, ReserveRequest, Reservation, CommitRequest, CancelRequest, Settlement);
    add!(SlotRequest, Slot, Release);
    add!(ThrottleRequest, Throttled, Explained, Counters, Rules, Readiness, ProblemBody<'_>);
    // Shapes of texts and numbers cannot fail.
    all.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default())).collect()
}
