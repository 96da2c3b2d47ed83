//! Resources that the visitors of a console share, and the part of each visitor: bodies, events, look-ups,
//! and turns for slow work.

use std::sync::Arc;

use tollgate_control::ControlError;
use tollgate_shares::{Place, Places, Room, machine};

use crate::turns::Turns;
use crate::web::Visit;

/// Bodies of users that arrive or are worked on.
const BODIES: Room = Room { places: 2_000, bytes: 192 << 20 };
/// The part of these for editors of every app and administrators only.
const BODIES_RESERVE: Room = Room { places: 200, bytes: 32 << 20 };
/// Bodies of those who are not logged in. They hold names and passwords.
const STRANGERS: Room = Room { places: 1_000, bytes: 16 << 20 };
/// Readers of events that wait, and how many of them only editors of every app and administrators may be.
const EVENTS: (u64, u64) = (500, 50);
/// Look-ups of keys on nodes, and how many of them only editors of every app and administrators may make.
const LOOK_UPS: (u64, u64) = (32, 4);

/// The places that visitors of a console share.
#[derive(Debug)]
pub(crate) struct Rooms {
    bodies: Arc<Places>,
    strangers: Arc<Places>,
    events: Arc<Places>,
    look_ups: Arc<Places>,
    turns: Turns,
}

impl Rooms {
    pub(crate) fn new() -> Self {
        Self {
            bodies: Places::new(BODIES, BODIES_RESERVE),
            strangers: Places::new(STRANGERS, Room::default()),
            events: Places::of(EVENTS.0, EVENTS.1),
            look_ups: Places::of(LOOK_UPS.0, LOOK_UPS.1),
            turns: Turns::new(),
        }
    }

    /// A place for a body of at most `bytes`.
    ///
    /// # Errors
    /// [`ControlError::TooMany`], as all of these.
    pub(crate) fn body(&self, visit: &Visit, bytes: usize) -> Result<Place, ControlError> {
        let room = Room { places: 1, bytes: bytes as u64 };
        match visit.user() {
            Some(user) => self.bodies.take(&[(&user, 1)], room, visit.is_operator()),
            None => self.strangers.take(&[(&machine(&visit.ip), 1)], room, false),
        }
        .map_err(|_| ControlError::TooMany { seconds: 5 })
    }

    /// A place to wait for events.
    pub(crate) fn events(&self, visit: &Visit) -> Result<Place, ControlError> {
        take(&self.events, visit)
    }

    /// Readers of events that wait now.
    pub(crate) fn event_readers(&self) -> usize {
        usize::try_from(self.events.in_use().places).unwrap_or(usize::MAX)
    }

    /// A place to ask nodes about keys.
    pub(crate) fn look_up(&self, visit: &Visit) -> Result<Place, ControlError> {
        take(&self.look_ups, visit)
    }

    /// The turns for what takes long.
    pub(crate) const fn turns(&self) -> &Turns {
        &self.turns
    }
}

fn take(places: &Arc<Places>, visit: &Visit) -> Result<Place, ControlError> {
    let taken = places.take(&[(&visit.user(), 1)], Room::PLACE, visit.is_operator());
    taken.map_err(|_| ControlError::TooMany { seconds: 5 })
}

/// Whether what `path` names takes a time that grows with an app.
pub(crate) fn takes_long(path: &str, is_safe: bool) -> bool {
    const LONG: &[&str] = &["explain", "check", "preview", "diff", "export", "import", "replay"];
    let mut segments = path.split('/').skip(1);
    let first = segments.next().unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    // The page of a change set checks it.
    let is_text = !is_safe && path.contains("/files/");
    LONG.contains(&last) || is_text || (first == "changes" && segments.next().is_some())
}

#[cfg(test)]
mod tests {
    use super::takes_long;

    #[test]
    fn what_grows_with_an_app_waits_for_a_turn_and_nothing_else_does() {
        for (path, long) in [
            ("/api/v1/explain", true),
            ("/api/v1/changes/preview", true),
            ("/api/v1/changes/0190/check", true),
            ("/api/v1/changes/0190", false),
            ("/api/v1/export", true),
            ("/api/v1/import", true),
            ("/apps/shop/versions/3/diff", true),
            ("/changes/0190", true),
            ("/changes", false),
            ("/rules", false),
            ("/apps/shop/files/web", false),
            ("/login", false),
            ("/", false),
        ] {
            assert_eq!(takes_long(path, true), long, "{path}");
        }
        assert!(takes_long("/apps/shop/files/web", false), "a text is checked");
    }
}
