//! Overrides as JSON.

use hyper::StatusCode;
use serde_json::Value;
use tollgate_api::params::{OverrideBody, OverridesQuery};
use tollgate_api::views;
use tollgate_control::overrides::{self, OverrideInput};
use tollgate_control::{Fault, FieldFaults};
use tollgate_http_kit::Reply;

use super::body::read;
use super::json::{json, ok};
use crate::blocking::find_met;
use crate::console::Console;
use crate::web::{Failure, Visit};

pub(super) async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let OverridesQuery { search, limit } = OverridesQuery::read(visit)?;
    let listed = console.control.read_as(&claim, move |tx, actor| overrides::list(tx, actor, &search, limit));
    let (found, total) = listed.await?;
    Ok(ok(&views::Overrides { overrides: found.into_iter().map(views::Override::from).collect(), total }))
}

pub(super) async fn create(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let OverrideBody { domain, entries, action, minutes, reason, whole_domain } = read(visit)?;
    // A member that was forgotten does not block everybody.
    if entries.is_empty() && !whole_domain {
        let mut faults = FieldFaults::default();
        faults.add("entries", Fault::WholeDomain);
        return Err(faults.check().map_or_else(Failure::from, |()| Failure::NoPage));
    }
    let minutes = match minutes {
        Value::Null => String::new(),
        Value::Number(number) => number.to_string(),
        _ => {
            let mut faults = FieldFaults::default();
            faults.add("minutes", Fault::Whole { min: 1, max: overrides::MAX_MINUTES });
            return Err(faults.check().map_or_else(Failure::from, |()| Failure::NoPage));
        }
    };
    let input = OverrideInput { domain, entries, action, minutes, reason };
    let made = console.control.create_override(&claim, input).await?;
    let met = find_met(console, &made).await;
    let shown =
        views::Override { rules: Some(met.rules), rules_met: Some(met.total), ..views::Override::from(made) };
    Ok(json(StatusCode::CREATED, &shown))
}

pub(super) async fn end(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let ended = console.control.end_override(&visit.claim()?, &visit.segment(3)).await?;
    Ok(ok(&views::Override::from(ended)))
}
