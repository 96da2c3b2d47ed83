//! Notifications of changes: a number for each topic, which grows.
//!
//! A reader names the numbers that it has seen, and waits until one is higher. So nothing is kept for
//! readers, a slow one gets the latest state, and one that comes back misses nothing.

use tokio::sync::watch;

use crate::ids::secret;

/// A subject that readers may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Reports were stored.
    History,
    /// The state of a node.
    Nodes,
    /// A change was committed.
    Changes,
    /// The state of a rollout.
    Rollouts,
    /// The list of problems.
    Problems,
}

const TOPICS: usize = 5;

impl Topic {
    pub const ALL: [Self; TOPICS] =
        [Self::History, Self::Nodes, Self::Changes, Self::Rollouts, Self::Problems];

    /// Its name in requests and events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Nodes => "nodes",
            Self::Changes => "changes",
            Self::Rollouts => "rollouts",
            Self::Problems => "problems",
        }
    }

    /// The topic of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Number of changes of each topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revisions([u64; TOPICS]);

impl Revisions {
    /// Whether `topic` has changed since `seen`.
    #[must_use]
    pub const fn is_after(&self, seen: &Self, topic: Topic) -> bool {
        self.0[topic as usize] > seen.0[topic as usize]
    }
}

/// The numbers of all topics, and their readers.
#[derive(Debug)]
pub struct Events {
    /// Numbers of another process mean nothing here.
    process: String,
    revisions: watch::Sender<Revisions>,
}

impl Default for Events {
    fn default() -> Self {
        let process = secret().map_or_else(|_| "0".to_owned(), |it| it[..8].to_owned());
        Self { process, revisions: watch::Sender::default() }
    }
}

impl Events {
    /// `topic` has changed.
    pub fn note(&self, topic: Topic) {
        self.revisions.send_modify(|it| it.0[topic as usize] += 1);
    }

    /// The numbers now, and from now on.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Revisions> {
        self.revisions.subscribe()
    }

    /// `revisions` as readers name them.
    #[must_use]
    pub fn id(&self, revisions: &Revisions) -> String {
        let numbers: Vec<_> = revisions.0.iter().map(ToString::to_string).collect();
        format!("{}-{}", self.process, numbers.join("."))
    }

    /// The numbers that a reader naming `id` has seen: none, if the id is of another process or was not made
    /// here.
    #[must_use]
    pub fn seen(&self, id: &str) -> Revisions {
        let numbers = id.split_once('-').filter(|(process, _)| *process == self.process);
        let mut seen = Revisions::default();
        if let Some((_, numbers)) = numbers {
            for (place, number) in seen.0.iter_mut().zip(numbers.split('.')) {
                *place = number.parse().unwrap_or_default();
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_comes_back_misses_nothing() {
        let events = Events::default();
        events.note(Topic::History);
        let id = events.id(&events.watch().borrow());
        events.note(Topic::Changes);
        let now = *events.watch().borrow();
        let seen = events.seen(&id);
        let changed = |seen: &Revisions| Topic::ALL.map(|topic| now.is_after(seen, topic));
        assert_eq!(changed(&seen), [false, false, true, false, false]);
        assert_eq!(events.seen(&events.id(&now)), now);
        // The numbers of another process, and what nobody made, count as nothing seen.
        for id in ["", "x", "x-1.1.1.1.1", &id.replace('-', "")] {
            assert_eq!(changed(&events.seen(id)), [true, false, true, false, false], "{id}");
        }
        assert!(Topic::ALL.iter().all(|topic| Topic::of(topic.name()) == Some(*topic)));
    }
}
