//! Rollouts.

use tollgate_http_kit::openapi::Description;

use crate::calls::{Call, RolloutCall as C};
use crate::describe::{Describe as _, replies};
use crate::params::{RolloutsQuery, WithdrawBody};
use crate::rows::{ApiOperation, get, post};
use crate::views::{Rollout, Rollouts};

fn asked() -> Description {
    replies::<Rollout>().or_stale::<Rollout>()
}

pub(super) fn rows() -> Vec<ApiOperation> {
    vec![
        get(
            "/api/v1/rollouts",
            Call::Rollout(C::List),
            "listRollouts",
            "Lists rollouts, the newest first",
            || replies::<Rollouts>().queried_by::<RolloutsQuery>(),
        ),
        get(
            "/api/v1/apps/{app}/rollout",
            Call::Rollout(C::Get),
            "getRollout",
            "Returns the rollout of an app that is open, or else the last one, with its ETag",
            replies::<Rollout>,
        ),
        post(
            "/api/v1/apps/{app}/rollout/pause",
            Call::Rollout(C::Pause),
            "pauseRollout",
            "Begins no further step; needs If-Match",
            asked,
        ),
        post(
            "/api/v1/apps/{app}/rollout/resume",
            Call::Rollout(C::Resume),
            "resumeRollout",
            "Carries on; the step is watched again from its beginning; needs If-Match",
            asked,
        ),
        post(
            "/api/v1/apps/{app}/rollout/advance",
            Call::Rollout(C::Advance),
            "advanceRollout",
            "Begins the next step without waiting for the gates; after the last step the rollout is done",
            asked,
        ),
        post(
            "/api/v1/apps/{app}/rollout/withdraw",
            Call::Rollout(C::Withdraw),
            "withdrawRollout",
            "Publishes the content of before as a new version on all nodes; needs If-Match and a reason",
            || asked().takes_body::<WithdrawBody>(r#"{"reason": "too strict for agoda"}"#),
        ),
    ]
}
