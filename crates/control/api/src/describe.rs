//! Descriptions of operations, made of the types that they read and reply.

use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_http_kit::openapi::{Description, JSON, schema};
use utoipa::{IntoParams, ToSchema};

use crate::params::OldNodesQuery;
use crate::views::ChangeSet;

/// Statuses with which any operation may fail.
const ERRORS: &[u16] = &[400, 401, 403, 404, 409, 412, 413, 422, 428, 429, 503, 507];

/// A reference to the schema of `T`, which is one of those in `document.rs`.
pub(crate) fn reference<T: ToSchema>() -> Value {
    schema(&T::name())
}

/// Replies 200 with a `T`.
pub(crate) fn replies<T: ToSchema>() -> Description {
    Description::json(reference::<T>()).fails(ERRORS)
}

/// Replies 201 with a `T`.
pub(crate) fn creates<T: ToSchema>() -> Description {
    Description::default().answers(201, JSON, reference::<T>()).fails(ERRORS)
}

/// Replies 200 with text of this type.
pub(crate) fn replies_text(content_type: &'static str) -> Description {
    Description::text(content_type).fails(ERRORS)
}

/// Further parts of a description.
pub(crate) trait Describe {
    /// Takes the parameters of `Q`.
    fn queried_by<Q: IntoParams>(self) -> Self;

    /// Takes a body `B`; `example` is one as JSON.
    fn takes_body<B: ToSchema + DeserializeOwned>(self, example: &str) -> Self;

    /// An old etag is replied to by 412 with the object as it is now.
    fn or_stale<T: ToSchema>(self) -> Self;

    /// Publishes: takes `old_nodes`.
    fn publishes(self) -> Self;

    /// Publishes, or replies 202 with the change set that waits for approvals or is a draft.
    fn publishes_or_waits(self) -> Self;
}

impl Describe for Description {
    fn queried_by<Q: IntoParams>(self) -> Self {
        // Shapes of texts and numbers cannot fail.
        let parameter = |it| serde_json::to_value(it).unwrap_or_default();
        self.with(Q::into_params(|| None).into_iter().map(parameter))
    }

    fn takes_body<B: ToSchema + DeserializeOwned>(self, example: &str) -> Self {
        debug_assert!(serde_json::from_str::<B>(example).is_ok(), "not a {}: {example}", B::name());
        self.takes(reference::<B>(), serde_json::from_str(example).unwrap_or_default())
    }

    fn or_stale<T: ToSchema>(self) -> Self {
        self.answers(412, JSON, reference::<T>())
    }

    fn publishes(self) -> Self {
        self.queried_by::<OldNodesQuery>()
    }

    fn publishes_or_waits(self) -> Self {
        self.answers(202, JSON, reference::<ChangeSet>()).publishes()
    }
}
