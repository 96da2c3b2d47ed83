//! Which quotas can be counted: by the store that is configured, and by leases.

use tollgate_core::{Algorithm, LeakyForm, Quota, Refill};
use tollgate_store::Sharing;

/// Whether the configured store can count a quota with this sharing. `Err` contains the reason and the
/// remedy.
///
/// # Example
/// ```
/// # use tollgate_policy::*;
/// let nothing = Countable::by(|_, _| Err("this store counts nothing"));
/// let user = DescriptorSpec::new("user").rule(RuleSpec::new(Limit::per(5, Unit::Minute)?));
/// let shop = DomainSpec::new("shop").descriptor(user);
/// let built = PolicyBuilder::new().countable(nothing).domain(shop).build();
/// let want = "shop: descriptors[0].rate_limit: fixed_window: this store counts nothing";
/// assert_eq!(built.expect_err("an error").to_string(), want);
/// # Ok::<(), LimitError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Countable {
    quotas: fn(&Quota, Sharing) -> Result<(), &'static str>,
    slots: Result<(), &'static str>,
}

impl Countable {
    /// Accepts the quotas that `check` accepts, and all slots.
    #[must_use]
    pub const fn by(check: fn(&Quota, Sharing) -> Result<(), &'static str>) -> Self {
        Self { quotas: check, slots: Ok(()) }
    }

    /// The same, except that slots (`algorithm: concurrency`) cannot be kept, for this reason.
    #[must_use]
    pub const fn without_slots(mut self, reason: &'static str) -> Self {
        self.slots = Err(reason);
        self
    }

    pub(crate) const fn check_slots(self) -> Result<(), &'static str> {
        self.slots
    }

    pub(crate) fn check(self, quota: &Quota, sharing: Sharing) -> Result<(), &'static str> {
        (self.quotas)(quota, sharing)
    }
}

impl Default for Countable {
    /// Accepts every quota.
    fn default() -> Self {
        Self::by(|_, _| Ok(()))
    }
}

impl std::fmt::Debug for Countable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Countable")
    }
}

impl PartialEq for Countable {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.quotas, other.quotas) && self.slots == other.slots
    }
}

impl Eq for Countable {}

/// Whether a shared store can lease permits of `quota` ahead of time. (Quotas whose numbers are too small or
/// too large for leases to pay off are leasable too; the store counts them centrally.)
pub(crate) fn is_leasable(quota: &Quota) -> bool {
    match *quota.algorithm() {
        Algorithm::TokenBucket { burst, initial, overdraft: 0, refill: Refill::Continuous } => {
            initial.is_none_or(|initial| initial == burst.unwrap_or(quota.limit()))
        }
        Algorithm::LeakyBucket { form: LeakyForm::Meter, .. } | Algorithm::FixedWindow { .. } => true,
        _ => false,
    }
}
