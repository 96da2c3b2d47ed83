//! Server-sent events: what has changed, as soon as it has.
//!
//! A reply ends after its events, and readers come back by themselves with the id of the last one
//! (`Last-Event-ID`), as the standard has it. So each event is preceded by the same checks of the login as
//! any request, nothing is buffered for slow readers, and proxies that hold replies back until their end
//! work.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use tollgate_api::params::EventsQuery;
use tollgate_api::views::Done;
use tollgate_control::events::{Revisions, Topic};
use tollgate_http_kit::{Reply, reply::reply};

use super::history;
use super::json::sorted;
use crate::console::Console;
use crate::web::{Failure, Visit};

/// A reply without events ends after this time, so that readers see that the server is there.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Changes that come within this time are one event.
const TOGETHER: Duration = Duration::from_millis(100);

pub(super) async fn wait(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let EventsQuery { topics, after } = EventsQuery::read(visit)?;
    let _reader = console.rooms.events(visit)?;
    let events = &console.control.live().events;
    let mut revisions = events.watch();
    let id = visit.last_event.as_deref().unwrap_or(&after);
    // A new reader learns the id to begin with.
    let seen = if id.is_empty() { *revisions.borrow() } else { events.seen(id) };
    let is_new = |now: &Revisions| topics.iter().any(|topic| now.is_after(&seen, *topic));
    if !id.is_empty() {
        let changed = tokio::select! {
            changed = tokio::time::timeout(LONGEST_WAIT, revisions.wait_for(is_new)) => changed.is_ok(),
            // No one reads the reply; the place is free at once.
            () = visit.left() => false,
        };
        if changed {
            tokio::time::sleep(TOGETHER).await;
        }
        console.who(visit).await?; // the login or the token may have ended meanwhile
    }
    let now = *revisions.borrow();
    let mut text = String::from("retry: 1000\n");
    for topic in topics.into_iter().filter(|topic| now.is_after(&seen, *topic)) {
        let data = match topic {
            Topic::History => sorted(&history::newest(console, visit).await?),
            _ => sorted(&Done {}),
        };
        text += &format!("event: {}\ndata: {data}\n\n", topic.name());
    }
    text += &format!("id: {}\n\n", events.id(&now));
    Ok(reply(StatusCode::OK, HeaderValue::from_static("text/event-stream"), text))
}
