//! Logins of programs, apps, and rules that are rows of numbers.

use crate::calls::Call;
use crate::describe::{Describe as _, creates, replies};
use crate::params::{AppBody, DraftQuery, LoginBody, RuleBody, RulesQuery};
use crate::rows::{ApiOperation, delete, get, post, put};
use crate::views::{App, Apps, Done, Name, PublishedVersion, Rule, Rules, Suggestion, TrialCompared};

const APP: &str = r#"{"app": "SIP_HOTEL", "description": "hotel supplier interface"}"#;
const RULE: &str = r#"{"key": "pushGeoHotelList", "max_permits": 100, "rate": 50}"#;

pub(super) fn rows() -> Vec<ApiOperation> {
    vec![
        post("/api/v1/login", Call::LogIn, "login", "Begins a login and sets its cookie", || {
            replies::<Name>().takes_body::<LoginBody>(r#"{"name": "ann", "password": "a long passphrase"}"#)
        }),
        post("/api/v1/logout", Call::LogOut, "logout", "Ends the login", replies::<Done>),
        get("/api/v1/apps", Call::Apps, "listApps", "Lists the apps", replies::<Apps>),
        post("/api/v1/apps", Call::CreateApp, "createApp", "Creates an app", || {
            creates::<App>().takes_body::<AppBody>(APP)
        }),
        get("/api/v1/apps/{app}", Call::App, "getApp", "Returns an app with its ETag", replies::<App>),
        put("/api/v1/apps/{app}", Call::ChangeApp, "changeApp", "Changes an app; needs If-Match", || {
            replies::<App>().or_stale::<App>().takes_body::<AppBody>(APP)
        }),
        delete(
            "/api/v1/apps/{app}",
            Call::DisableApp,
            "disableApp",
            "Disables an app: its rules leave the nodes; needs If-Match",
            || replies::<App>().or_stale::<App>(),
        ),
        get("/api/v1/rules", Call::Rules, "searchRules", "Lists the rules of all apps", || {
            replies::<Rules>().queried_by::<RulesQuery>()
        }),
        get("/api/v1/apps/{app}/rules", Call::AppRules, "listRules", "Lists the rules of an app", || {
            replies::<Rules>().queried_by::<RulesQuery>()
        }),
        post(
            "/api/v1/apps/{app}/rules",
            Call::CreateRule,
            "createRule",
            "Creates a rule, which is published at once",
            || creates::<Rule>().takes_body::<RuleBody>(RULE).queried_by::<DraftQuery>().publishes_or_waits(),
        ),
        get(
            "/api/v1/apps/{app}/rules/{key}",
            Call::Rule,
            "getRule",
            "Returns a rule with its ETag",
            replies::<Rule>,
        ),
        put(
            "/api/v1/apps/{app}/rules/{key}",
            Call::ChangeRule,
            "changeRule",
            "Replaces a rule; needs If-Match",
            || {
                replies::<Rule>()
                    .or_stale::<Rule>()
                    .takes_body::<RuleBody>(RULE)
                    .queried_by::<DraftQuery>()
                    .publishes_or_waits()
            },
        ),
        delete(
            "/api/v1/apps/{app}/rules/{key}",
            Call::DeleteRule,
            "deleteRule",
            "Deletes a rule; needs If-Match",
            || {
                replies::<PublishedVersion>()
                    .or_stale::<Rule>()
                    .queried_by::<DraftQuery>()
                    .publishes_or_waits()
            },
        ),
        get(
            "/api/v1/apps/{app}/rules/{key}/suggestion",
            Call::Suggestion,
            "suggestNumbers",
            "Returns a rate and a burst from the traffic of the last hour, or null",
            replies::<Suggestion>,
        ),
        get(
            "/api/v1/apps/{app}/rules/{key}/trial",
            Call::Trial,
            "compareTrial",
            "Returns what the numbers of a trial and those in force have denied, or null",
            replies::<TrialCompared>,
        ),
    ]
}
