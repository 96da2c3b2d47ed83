//! Descriptors whose value names a class of priority.

use tollgate_core::Algorithm;

use super::{DescriptorSpec, Limits, RuleSpec, ValueSpec};

impl RuleSpec {
    /// Whether its only limit is that of a class of priority.
    pub(crate) fn has_classes(&self) -> bool {
        matches!(&self.limits, Limits::One(limit)
            if matches!(limit.quota.algorithm(), Algorithm::PriorityBuckets { .. }))
    }
}

impl DescriptorSpec {
    /// A descriptor for each class of its limit, which is one of
    /// [`Algorithm::PriorityBuckets`](tollgate_core::Algorithm): the value names the class, and `names` are
    /// the values in the order of the weights. A last one takes every other value as the last class. All of
    /// them share a counter per value of the entries before.
    ///
    /// # Example
    /// ```
    /// # use tollgate_core::Algorithm;
    /// # use tollgate_policy::*;
    /// let algorithm = Algorithm::PriorityBuckets { burst: None, weights: [3, 1].into(), class: 0 };
    /// let rule = RuleSpec::new(Limit::new(100, Unit::Second, algorithm)?);
    /// let classes = DescriptorSpec::new("priority").rule(rule).by_class(["paying", "free"]);
    /// let shop = classes.into_iter().fold(DomainSpec::new("shop"), DomainSpec::descriptor);
    /// let policy = PolicyBuilder::new().domain(shop).build()?;
    /// let find = |value| {
    ///     let entries = [Entry::new("priority", value)];
    ///     let rule = policy.domain("shop").and_then(|shop| shop.find(&entries)).expect("a rule");
    ///     let mut key = Vec::new();
    ///     rule.write_key(0, "shop", &entries, &mut key);
    ///     (rule.limits[0].burst(), String::from_utf8_lossy(&key).into_owned())
    /// };
    /// let key = || "shop|priority~*|priority_buckets".to_owned();
    /// assert_eq!(find("paying"), (75, key()));
    /// assert_eq!(find("free"), (25, key()));
    /// assert_eq!(find("whatever"), (25, key()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn by_class(self, names: impl IntoIterator<Item = impl Into<String>>) -> Vec<Self> {
        let of_class = |class: usize, value: ValueSpec| {
            let mut spec = self.clone().value(value);
            if let Some(RuleSpec { limits: Limits::One(limit), .. }) = &mut spec.rule {
                **limit = limit.of_class(class);
            }
            spec
        };
        let names = names.into_iter().enumerate();
        let mut specs: Vec<Self> =
            names.map(|(class, name)| of_class(class, ValueSpec::text(name))).collect();
        specs.push(of_class(specs.len().saturating_sub(1), ValueSpec::any()));
        specs
    }
}
