//! Requests that a surface could not answer by the rules: their numbers and reasons.
//!
//! No rule limits such a request, so these are counted by surface, status and reason, and logged. Not here:
//! the reply to such a request (the surfaces).

use std::net::IpAddr;

use parking_lot::Mutex;
use tollgate_human_text::shorten_to;

/// Most series; further ones are counted as one. Statuses and reasons are few, so this is a bound for faults
/// only.
const MOST: usize = 256;

/// Characters of a detail in the log.
const LONGEST_DETAIL: usize = 200;

/// A request that was not answered by the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected<'a> {
    /// `grpc`, `http`, `resp`.
    pub surface: &'static str,
    /// Address of the client, if it has one.
    pub peer: Option<IpAddr>,
    /// Status of the reply, as the protocol names it: `400`, `INVALID_ARGUMENT`.
    pub status: &'a str,
    /// Reason in a word or a few, as a label.
    pub reason: &'static str,
    /// The reason as a sentence, for people.
    pub detail: &'a str,
}

/// Number of requests of a surface that were answered with a status for a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejections {
    /// As in [`Rejected`].
    pub surface: &'static str,
    /// As in [`Rejected`].
    pub status: String,
    /// As in [`Rejected`].
    pub reason: &'static str,
    /// Requests since the observer was made.
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
        // The limit of the log decides how many of these lines are written per second.
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
            // The last series includes all that came later.
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
                let surface = "http";
                let reason = "invalid";
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
