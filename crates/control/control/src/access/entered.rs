//! Where a request came from, and the user that a login or a token resolves to.

use crate::access::actor::Who;
use crate::access::preferences::Preferences;

/// Where a request came from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'o> {
    pub ip: &'o str,
    /// The browser or program, as it named itself.
    pub agent: &'o str,
    /// The request, as the log names it.
    pub request_id: &'o str,
}

/// The user that a claim resolves to.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) who: Who,
    pub(crate) preferences: Preferences,
    /// Whether this use should be recorded.
    pub(crate) is_stale: bool,
}
