//! Requests that a surface could not answer by the rules: how many, and why.
//!
//! Nobody is limited by a rule that is not asked, so these are counted by surface, status and reason, and
//! logged. Not here: what such a request is answered with (the surfaces).

use std::net::IpAddr;

use parking_lot::Mutex;
use tollgate_human_text::shorten_to;

/// Most series; more are counted as one. Statuses and reasons are few, so this is a bound for faults only.
const MOST: usize = 256;

/// Characters of a detail in the log.
const LONGEST_DETAIL: usize = 200;

/// A request that was not answered by the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected<'a> {
    /// `grpc`, `http`, `resp`.
    pub surface: &'static str,
    /// Where the client is, if it has an address.
    pub peer: Option<IpAddr>,
    /// What it was answered, as the protocol calls it: `400`, `INVALID_ARGUMENT`.
    pub status: &'a str,
    /// One of a few words.
    pub reason: &'static str,
    /// A sentence for people.
    pub detail: &'a str,
}

/// How many requests of a surface were answered with a status for a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejections {
    /// As in [`Rejected`].
    pub surface: &'static str,
    /// As in [`Rejected`].
    pub status: String,
    /// As in [`Rejected`].
    pub reason: &'static str,
    /// Since the observer was made.
    pub count: u64,
}

/// The counts, in the order of their first requests.
#[derive(Debug, Default)]
pub(crate) struct RejectionCounts(Mutex<Vec<Rejections>>);

impl RejectionCounts {
    pub(crate) fn all(&self) -> Vec<Rejections> {
        self.0.lock().clone()
    }

    /// Counts and logs one.
    #[cold]
    pub(crate) fn note(&self, rejected: Rejected<'_>) {
        self.count(rejected);
        let Rejected { surface, peer, status, reason, detail } = rejected;
        let peer = peer.map(tracing::field::display);
        // How many of these lines are written per second is the log's business.
        tracing::warn!(
            surface,
            peer,
            status,
            reason,
            detail = shorten_to(detail, LONGEST_DETAIL),
            "request rejected"
        );
    }

    fn count(&self, Rejected { surface, status, reason, .. }: Rejected<'_>) {
        let mut counts = self.0.lock();
        let is_same =
            |it: &&mut Rejections| (it.surface, it.status.as_str(), it.reason) == (surface, status, reason);
        if let Some(same) = counts.iter_mut().find(is_same) {
            same.count += 1;
            return;
        }
        if counts.len() < MOST {
            let status = status.to_owned();
            counts.push(Rejections { surface, status, reason, count: 1 });
        } else if let Some(last) = counts.last_mut() {
            // The last series stands for all that came later.
            last.status.replace_range(.., "(others)");
            last.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_counted_apart_up_to_their_cap_and_then_together() {
        let counts = RejectionCounts::default();
        for number in 0..1_000 {
            let status = &number.to_string();
            for _ in 0..2 {
                let (surface, reason) = ("http", "invalid");
                counts.count(Rejected { surface, peer: None, status, reason, detail: "" });
            }
        }
        let all = counts.all();
        assert_eq!((all.len(), all.iter().map(|it| it.count).sum()), (MOST, 2_000));
        assert_eq!((all[0].status.as_str(), all[0].count), ("0", 2));
        let last = all.last().expect("some");
        assert_eq!((last.status.as_str(), last.count), ("(others)", 2 * (1_000 - MOST as u64 + 1)));
    }
}
