//! Rules of this program by app and name: the rules that [`rate_limit`](crate::rate_limit) registers, and
//! their quotas, which can be set at run time.
//!
//! A rule without a quota admits everything. It is registered when its function is called for the first time;
//! a quota may be set before.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tollgate_core::QuotaError;

use crate::bounds::Bounds;
use crate::denied::Denied;
use crate::direct::RateLimiter;
use crate::key::LimitKey;
use crate::keyed::KeyedRateLimiter;
use crate::quota::Quota;

/// The most rules that one program may have.
const MAX_RULES: usize = 10_000;

static RULES: Mutex<BTreeMap<(String, String), Arc<RegisteredLimit>>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
struct RegisteredLimit {
    /// Site of the function that registered it first.
    site: OnceLock<(u64, &'static str)>,
    limiter: OnceLock<KeyedRateLimiter<[u8]>>,
}

/// A rule, for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleInfo {
    /// The app that it belongs to.
    pub app: String,
    /// Its name within the app.
    pub name: String,
    /// Permits that one call takes.
    pub need_permits: u64,
    /// Purpose of the rule, for people; as the attribute's `desc`.
    pub desc: &'static str,
    /// Whether a function has registered it, and not only [`set_quota`] named it.
    pub is_registered: bool,
    /// Bounds of its quota; `None` without a quota, so that everything is admitted.
    pub bounds: Option<Bounds>,
}

/// Why a quota was not set. The quota before stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetQuotaError {
    /// A number of the quota is out of its bounds.
    #[error(transparent)]
    Quota(#[from] QuotaError),
    /// The rule is not registered, and no more rules can be named.
    #[error("{max} rules are named already, the most of one program; is the name right?", max = MAX_RULES)]
    TooManyRules,
}

/// Sets the quota of a rule, for all calls from now on; permits that were taken stay taken.
///
/// A rule that no function has registered yet has this quota from its first call on.
///
/// # Errors
/// [`SetQuotaError`]; the quota before stays in force.
///
/// # Example
/// ```
/// use tollgate::{Quota, registry};
///
/// registry::set_quota("HOTEL_SIP", "AVAILABILITY", Quota::per_second(50))?;
/// let rule = registry::all().into_iter().find(|rule| rule.name == "AVAILABILITY").expect("named");
/// assert!(!rule.is_registered);
/// assert_eq!(rule.bounds.map(|bounds| bounds.limit), Some(50));
/// # Ok::<(), registry::SetQuotaError>(())
/// ```
pub fn set_quota(app: &str, name: &str, quota: Quota) -> Result<(), SetQuotaError> {
    quota.checked()?; // names no rule for a quota that cannot be
    let rule = rule(app, name).ok_or(SetQuotaError::TooManyRules)?;
    rule.set_quota(quota)?;
    Ok(())
}

/// All rules, by app and name.
#[must_use]
pub fn all() -> Vec<RuleInfo> {
    let rules = RULES.lock();
    let info = |((app, name), rule): (&(String, String), &Arc<RegisteredLimit>)| RuleInfo {
        app: app.clone(),
        name: name.clone(),
        need_permits: rule.site.get().map_or(1, |site| site.0),
        desc: rule.site.get().map_or("", |site| site.1),
        is_registered: rule.site.get().is_some(),
        bounds: rule.limiter.get().map(KeyedRateLimiter::bounds),
    };
    rules.iter().map(info).collect()
}

/// The rule of this name, or a new one. `None` if there are too many rules.
fn rule(app: &str, name: &str) -> Option<Arc<RegisteredLimit>> {
    let mut rules = RULES.lock();
    let has_room = rules.len() < MAX_RULES;
    let rule = rules.entry((app.to_owned(), name.to_owned()));
    match rule {
        std::collections::btree_map::Entry::Occupied(there) => Some(Arc::clone(there.get())),
        std::collections::btree_map::Entry::Vacant(place) => {
            has_room.then(|| Arc::clone(place.insert(Arc::default())))
        }
    }
}

impl RegisteredLimit {
    fn set_quota(&self, quota: Quota) -> Result<(), QuotaError> {
        let made = RateLimiter::keyed(quota.clone())?;
        match self.limiter.set(made) {
            Ok(()) => Ok(()),
            Err(_) => self.limiter.get().map_or(Ok(()), |limiter| limiter.reconfigure(quota)),
        }
    }

    fn register(&self, site: &Site) {
        self.site.get_or_init(|| (site.need_permits, site.desc));
        // A quota set at run time precedes that of the attribute.
        if let Some(quota) = site.quota.and_then(|text| text.parse::<Quota>().ok())
            && let Ok(limiter) = RateLimiter::keyed(quota)
        {
            self.limiter.get_or_init(|| limiter);
        }
    }
}

/// Site of a limited function: made by [`rate_limit`](crate::rate_limit), one for each function.
#[derive(Debug)]
pub struct Site {
    app: &'static str,
    name: &'static str,
    need_permits: u64,
    desc: &'static str,
    quota: Option<&'static str>,
    template: Option<&'static str>,
    rule: OnceLock<Option<Arc<RegisteredLimit>>>,
}

impl Site {
    /// For the attribute.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        app: &'static str,
        name: &'static str,
        need_permits: u64,
        desc: &'static str,
        quota: Option<&'static str>,
        template: Option<&'static str>,
    ) -> Self {
        Self { app, name, need_permits, desc, quota, template, rule: OnceLock::new() }
    }

    /// For the attribute: takes the permits of one call.
    #[doc(hidden)]
    pub fn check<K: LimitKey + ?Sized>(&'static self, key: &K) -> Result<(), RuleDenied> {
        let rule = self.rule.get_or_init(|| {
            let rule = rule(self.app, self.name)?;
            rule.register(self);
            Some(rule)
        });
        let Some(limiter) = rule.as_ref().and_then(|rule| rule.limiter.get()) else { return Ok(()) };
        match limiter.check_n(&*key.key_bytes(), self.need_permits) {
            Ok(_) => Ok(()),
            Err(denied) => Err(self.denied(denied, limiter.bounds())),
        }
    }

    #[cold]
    const fn denied(&'static self, denied: Denied, bounds: Bounds) -> RuleDenied {
        RuleDenied { site: self, denied, bounds }
    }
}

/// A limit denied a call of a function. Nothing was taken, and the function was not run. Its message names
/// the rule; [`denied`](Self::denied), its source, says when to come back.
#[derive(Clone, Copy, Debug)]
pub struct RuleDenied {
    site: &'static Site,
    denied: Denied,
    bounds: Bounds,
}

impl RuleDenied {
    /// The app that the rule belongs to.
    #[must_use]
    pub const fn app(&self) -> &'static str {
        self.site.app
    }

    /// Its name within the app.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.site.name
    }

    /// Purpose of the rule, for people.
    #[must_use]
    pub const fn desc(&self) -> &'static str {
        self.site.desc
    }

    /// The text for clients, with placeholders such as `{{retry_after}}`.
    #[must_use]
    pub const fn template(&self) -> Option<&'static str> {
        self.site.template
    }

    /// The denial: when to come back.
    #[must_use]
    pub const fn denied(&self) -> Denied {
        self.denied
    }

    /// Bounds of the rule's quota.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        self.bounds
    }
}

impl std::fmt::Display for RuleDenied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.app(), self.name())?;
        if !self.desc().is_empty() {
            write!(f, " ({})", self.desc())?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleDenied {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.denied)
    }
}

impl From<RuleDenied> for Denied {
    fn from(denied: RuleDenied) -> Self {
        denied.denied
    }
}

/// Return value of a limited function when its limit denies the call.
///
/// A `Result` whose error can be made from [`RuleDenied`] or is a `Box<dyn Error>`, and an `Option`. With the
/// feature `http` also a `Response` with a body of text, such as axum's. Any other type needs
/// `fallback = path`, or an implementation of this trait.
#[diagnostic::on_unimplemented(
    message = "a denied call cannot return `{Self}`",
    label = "what does a denied call return?",
    note = "return a `Result` whose error implements `From<RuleDenied>`, implement `FromDenied`, \
            or write `fallback = path` in the attribute"
)]
pub trait FromDenied {
    /// The value that is returned for this denial.
    fn from_denied(denied: RuleDenied) -> Self;
}

impl<T, E: From<RuleDenied>> FromDenied for Result<T, E> {
    fn from_denied(denied: RuleDenied) -> Self {
        Err(E::from(denied))
    }
}

impl<T> FromDenied for Option<T> {
    fn from_denied(_: RuleDenied) -> Self {
        None
    }
}

#[cfg(feature = "http")]
mod http_reply {
    use http::header::{CONTENT_TYPE, HeaderValue};
    use http::{Response, StatusCode};
    use tollgate_headers::{
        Content, LimitState, PROBLEM_JSON, Style, Template, Values, fill, problem, write,
    };

    use super::{FromDenied, RuleDenied};

    const PROBLEM: HeaderValue = HeaderValue::from_static(PROBLEM_JSON);
    const JSON: HeaderValue = HeaderValue::from_static("application/json");
    const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

    /// 429 with `Retry-After` and `X-RateLimit-…`, and the template as its body, or `problem+json`.
    impl<B: From<String>> From<RuleDenied> for Response<B> {
        fn from(denied: RuleDenied) -> Self {
            let bounds = denied.bounds;
            let limit = LimitState {
                burst: bounds.burst,
                ..LimitState::new(denied.name(), bounds.window.unwrap_or_default(), &denied.denied.decision())
            };
            let status = StatusCode::TOO_MANY_REQUESTS;
            let template = denied.template().and_then(|text| Some((text, text.parse::<Template>().ok()?)));
            let (content_type, body) = match template {
                Some((text, template)) => {
                    let is_json = text.trim_start().starts_with(['{', '[']) && !text.starts_with("{{");
                    let content = if is_json { Content::Json } else { Content::Plain };
                    let values = Values { domain: denied.app(), rule: denied.name(), limit: Some(limit) };
                    (if is_json { JSON } else { TEXT }, fill(&template, content, &values))
                }
                None => (PROBLEM, problem(&[limit], status.as_u16())),
            };
            let mut response = Self::new(B::from(body));
            *response.status_mut() = status;
            write(&[limit], false, &Style::default(), response.headers_mut());
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            response
        }
    }

    impl<B: From<String>> FromDenied for Response<B> {
        fn from_denied(denied: RuleDenied) -> Self {
            Self::from(denied)
        }
    }
}
