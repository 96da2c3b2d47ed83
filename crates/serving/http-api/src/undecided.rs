//! Requests that the rules cannot decide, since they cannot be read or there is no room for them: their
//! replies, and how they are counted.
//!
//! A proxy passes on its clients' requests, and treats an error as an outage. So a failure that a client can
//! cause is answered with a decision, by [`Undecided`]; a failure that only a program or the configuration of
//! a proxy can cause is an error.

use std::net::IpAddr;

use hyper::StatusCode;
use tollgate_answers::DenialStatus;
use tollgate_http_kit::reply::{JSON, reply, text};
use tollgate_http_kit::{Problem, Reason, Reply};
use tollgate_limiter::{Rejected, Undecided};
use tollgate_store::Store;

use crate::api::HttpApi;
use crate::query;

impl<S: Store> HttpApi<S> {
    /// Counts and logs a request that is answered by `status` for the reason of `problem`.
    pub(crate) fn reject(&self, peer: Option<IpAddr>, status: StatusCode, problem: &Problem) {
        let status = status.as_str();
        let reason = problem.reason.name();
        self.limiter.request_rejected(Rejected {
            surface: "http",
            peer,
            status,
            reason,
            detail: &problem.detail,
        });
    }

    /// The reply to a head that cannot be read. Nothing in it can be relied on, so a denial has the status
    /// that every proxy passes on: nginx knows only 401 and 403 as denials.
    pub(crate) fn answer_unreadable(&self, peer: Option<IpAddr>, problem: &Problem) -> Reply {
        let status = match self.limiter.settings().undecided {
            Undecided::Deny => StatusCode::FORBIDDEN,
            Undecided::Allow => StatusCode::OK,
            Undecided::Error => problem.status,
        };
        self.reject(peer, status, problem);
        Problem::new(status, problem.detail.clone()).reply()
    }

    /// The reply to a check that `problem` prevents.
    ///
    /// # Errors
    /// The problem itself, where clients of a proxy cannot have caused it or [`Undecided`] says so.
    pub(crate) fn undecided_check(
        &self,
        peer: Option<IpAddr>,
        query: Option<&str>,
        problem: Problem,
    ) -> Result<Reply, Problem> {
        let status = query.and_then(query::denial_status);
        let is_by_client = match problem.reason {
            Reason::TooLarge | Reason::Overload => true,
            // Proxies use `status` to choose the status of denials. A program's own mistake is an error.
            Reason::Malformed => status.is_some(),
            _ => false,
        };
        let admits = match self.limiter.settings().undecided {
            Undecided::Error => return Err(problem),
            _ if !is_by_client => return Err(problem),
            undecided => undecided == Undecided::Allow,
        };
        let status = match status {
            _ if admits => StatusCode::OK,
            None => StatusCode::OK,
            Some(DenialStatus::Fixed(status)) => status,
            Some(DenialStatus::OfRule) => StatusCode::TOO_MANY_REQUESTS,
        };
        self.reject(peer, status, &problem);
        if status != StatusCode::OK {
            return Ok(Problem::new(status, problem.detail).reply());
        }
        Ok(reply(StatusCode::OK, JSON, decision(admits, problem.reason)))
    }

    /// The reply to a reservation that `problem` prevents: a denial, since nothing can be held.
    ///
    /// # Errors
    /// As [`undecided_check`](Self::undecided_check).
    pub(crate) fn undecided_reservation(
        &self,
        peer: Option<IpAddr>,
        problem: Problem,
    ) -> Result<Reply, Problem> {
        // 429 is a denial already: the caller has used up its share.
        let is_by_client = matches!(problem.reason, Reason::TooLarge | Reason::Overload)
            && problem.status != StatusCode::TOO_MANY_REQUESTS;
        if !is_by_client || self.limiter.settings().undecided == Undecided::Error {
            return Err(problem);
        }
        self.reject(peer, StatusCode::OK, &problem);
        let decision = decision(false, problem.reason);
        let body = format!(r#"{{"id":null,"wait_ms":0,"expires_in_ms":0,"decision":{decision}}}"#);
        Ok(reply(StatusCode::OK, JSON, body))
    }

    /// As [`undecided_check`](Self::undecided_check), for `/json`: as envoyproxy/ratelimit answers.
    pub(crate) fn undecided_peer(&self, peer: Option<IpAddr>, problem: &Problem) -> Reply {
        let is_by_client = matches!(problem.reason, Reason::TooLarge | Reason::Overload);
        let decided = match self.limiter.settings().undecided {
            Undecided::Deny => Some((StatusCode::TOO_MANY_REQUESTS, r#"{"overallCode":"OVER_LIMIT"}"#)),
            Undecided::Allow => Some((StatusCode::OK, r#"{"overallCode":"OK"}"#)),
            Undecided::Error => None,
        };
        let (status, answer) = match decided.filter(|_| is_by_client) {
            Some((status, body)) => (status, reply(status, JSON, body)),
            None => (problem.status, text(problem.status, format!("{}\n", problem.detail))),
        };
        self.reject(peer, status, problem);
        answer
    }
}

/// A decision made without rules; no wait changes it.
fn decision(admits: bool, reason: Reason) -> String {
    let (outcome, retry) = if admits { ("admit", "0") } else { ("deny", "null") };
    let reason = reason.name();
    format!(
        r#"{{"outcome":"{outcome}","limit":null,"remaining":null,"delay_ms":0,"retry_after_ms":{retry},"reset_after_ms":null,"rule":null,"degraded":null,"undecided":"{reason}","descriptors":[]}}"#
    )
}
