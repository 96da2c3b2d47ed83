//! Calls that fail before the rules decide: their replies, and how they are counted.
//!
//! A proxy passes on what its clients send, and takes an error for an outage.

use std::net::IpAddr;

use bytes::Bytes;
use tollgate_limiter::{Rejected, Undecided};
use tollgate_store::Store;

use crate::body::framed;
use crate::proto::check::CheckResponse;
use crate::proto::rls;
use crate::service::{GRPC, RateLimitService, check, slots};
use crate::status::{Reason, Status};

impl<S: Store> RateLimitService<S> {
    /// The reply to a call that failed with `status`: a decision, if a client of a proxy can have caused the
    /// failure, `question` asks for a decision, and [`Undecided`] says so. Counts and logs it.
    #[cold]
    pub(crate) fn failed(
        &self,
        question: Option<CallKind>,
        peer: Option<IpAddr>,
        status: Status,
    ) -> Result<Bytes, Status> {
        let admits = self.undecided(&status);
        let decided = question.zip(admits).and_then(|(question, admits)| question.decided(admits));
        let (answered, reason) = match (&decided, admits) {
            (Some(_), Some(true)) => ("OK", status.reason),
            (Some(_), _) => ("OVER_LIMIT", status.reason),
            (None, _) => (status.code.name(), status.reason),
        };
        self.reject(peer, answered, reason, &status.message);
        decided.ok_or(status)
    }

    /// Whether a request is admitted that has failed with `status`; `None` if it is answered by the status.
    pub(crate) fn undecided(&self, status: &Status) -> Option<bool> {
        match self.limiter.settings().undecided {
            _ if !status.reason.is_of_client() => None,
            Undecided::Deny => Some(false),
            Undecided::Allow => Some(true),
            Undecided::Error => None,
        }
    }

    /// Counts and logs a call that was not answered by the rules.
    pub(crate) fn reject(&self, peer: Option<IpAddr>, status: &str, reason: Reason, detail: &str) {
        self.limiter.request_rejected(Rejected {
            surface: GRPC,
            peer,
            status,
            reason: reason.name(),
            detail,
        });
    }
}

/// Kind of a call that the limiter answers.
#[derive(Clone, Copy)]
pub(crate) enum CallKind {
    Check,
    /// A call of our own service for programs.
    Exact(check::Method),
    Slot(slots::Method),
}

impl CallKind {
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Some(Self::Check),
            "/tollgate.check.v1.CheckService/Check" => Some(Self::Exact(check::Method::Check)),
            "/tollgate.check.v1.CheckService/Lease" => Some(Self::Exact(check::Method::Lease)),
            "/tollgate.check.v1.CheckService/Return" => Some(Self::Exact(check::Method::Return)),
            "/tollgate.slots.v1.SlotService/Acquire" => Some(Self::Slot(slots::Method::Acquire)),
            "/tollgate.slots.v1.SlotService/Release" => Some(Self::Slot(slots::Method::Release)),
            _ => None,
        }
    }

    /// A decision without rules, encoded and framed; `None` for a call that is not about one request.
    fn decided(self, admits: bool) -> Option<Bytes> {
        match self {
            Self::Check => {
                let code = if admits { rls::Code::Ok } else { rls::Code::OverLimit };
                let overall_code = code as i32;
                Some(framed(&rls::RateLimitResponse { overall_code, ..Default::default() }))
            }
            Self::Exact(check::Method::Check) => {
                Some(framed(&CheckResponse { admitted: admits, ..Default::default() }))
            }
            _ => None,
        }
    }
}
