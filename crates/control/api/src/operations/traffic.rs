//! Decisions over time, keys, problems, events, blocks and allowances.

use crate::calls::Call;
use crate::describe::{Describe as _, creates, replies, replies_text};
use crate::params::{
    EventsQuery, HistoryQuery, KeyQuery, LiveKeysQuery, OverrideBody, OverridesQuery, ScanQuery, ScopeQuery,
    TopKeysQuery, UnlimitedQuery,
};
use crate::rows::{ApiOperation, delete, get, post};
use crate::views::{History, Key, ListedKeys, LiveKeys, Override, Overrides, Problems, TopKeys, Unlimited};

const OVERRIDE: &str = r#"{
    "domain": "SIP_HOTEL", "entries": ["key=pushGeoHotelList"], "action": "block", "minutes": 60,
    "reason": "floods the supplier"
}"#;

pub(super) fn rows() -> Vec<ApiOperation> {
    vec![
        get("/api/v1/history", Call::History, "history", "Returns what was decided over time", || {
            replies::<History>().queried_by::<ScopeQuery>().queried_by::<HistoryQuery>()
        }),
        get("/api/v1/keys/top", Call::TopKeys, "topKeys", "Lists the keys that were denied most", || {
            replies::<TopKeys>().queried_by::<ScopeQuery>().queried_by::<TopKeysQuery>()
        }),
        get(
            "/api/v1/keys/scan",
            Call::ScanKeys,
            "scanKeys",
            "Lists the keys of a domain that a Redis store holds, at most 5,000 per reply",
            || replies::<ListedKeys>().queried_by::<ScanQuery>(),
        ),
        get("/api/v1/problems", Call::Problems, "problems", "Lists what is wrong now", replies::<Problems>),
        get(
            "/api/v1/unlimited",
            Call::Unlimited,
            "unlimited",
            "Lists requests that no rule limits, unknown domains, and faults of the nodes' own rule files",
            || replies::<Unlimited>().queried_by::<UnlimitedQuery>(),
        ),
        get(
            "/api/v1/events",
            Call::Events,
            "events",
            "Server-sent events of these topics; a reader comes back with Last-Event-ID",
            || replies_text("text/event-stream").queried_by::<EventsQuery>(),
        ),
        get(
            "/api/v1/apps/{app}/live",
            Call::LiveKeys,
            "liveKeys",
            "Returns the permits that rules of an app have now",
            || replies::<LiveKeys>().queried_by::<LiveKeysQuery>(),
        ),
        get("/api/v1/keys", Call::Key, "inspectKey", "Returns what nodes count for a key", || {
            replies::<Key>().queried_by::<KeyQuery>()
        }),
        delete("/api/v1/keys", Call::ResetKey, "resetKey", "Resets the counters of a key", || {
            replies::<Key>().queried_by::<KeyQuery>()
        }),
        get(
            "/api/v1/overrides",
            Call::Overrides,
            "listOverrides",
            "Lists blocks and allowances in force",
            || replies::<Overrides>().queried_by::<OverridesQuery>(),
        ),
        post(
            "/api/v1/overrides",
            Call::CreateOverride,
            "createOverride",
            "Blocks or allows a key, a caller or a domain for a time",
            || creates::<Override>().takes_body::<OverrideBody>(OVERRIDE),
        ),
        delete(
            "/api/v1/overrides/{id}",
            Call::EndOverride,
            "endOverride",
            "Ends a block or an allowance before its time",
            replies::<Override>,
        ),
    ]
}
