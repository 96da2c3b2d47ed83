//! SHA-256 of rules: the version of a set of rules, and the identity of a rule. The same rules have the same
//! digest in every process, on every machine and in every release, so digests may be stored and compared.
//!
//! Every item is written so that different rules never make the same bytes: texts and lists after their
//! length, choices as a name or a number. Structs are taken apart field by field, so that a new field does
//! not compile until it is here. A change of what is written here changes every stored digest: raise `FORMAT`
//! with it.

use sha2::{Digest as _, Sha256};
use tollgate_core::{Algorithm, Align, LeakyForm, LeavingCell, Period, Refill};
use tollgate_headers::{Part, Template};

use crate::domain::Domain;
use crate::limit::Limit;
use crate::response::Response;
use crate::spec::{DescriptorSpec, Limits, ListedValue, RuleSpec, ValueMatch};

/// Names the encoding. Part of every digest.
const FORMAT: &str = "tollgate rules 1";

/// Bytes of a digest that are shown, as two hexadecimal digits each.
const SHOWN: usize = 6;

/// The version of a set of rules. Domains may come in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct VersionDigest {
    domains: Vec<(String, [u8; 32])>,
}

impl VersionDigest {
    /// Adds `domain`; `digest` is that of its descriptors.
    pub(crate) fn add(&mut self, digest: DomainDigest, domain: &Domain) {
        let mut writer = digest.0;
        writer.flag(false); // no further descriptor
        writer.choice(domain.charge.name());
        writer.option(domain.response.as_ref(), Writer::response);
        // Last, and only where it is said, so that the digests of other domains stay as they are.
        if let Some(unmatched) = domain.unmatched {
            writer.choice(unmatched.name());
        }
        self.domains.push((domain.name.clone(), writer.finish()));
    }

    /// Twelve hexadecimal digits.
    pub(crate) fn finish(mut self) -> String {
        self.domains.sort_unstable();
        let mut writer = Writer::new();
        writer.number(self.domains.len() as u64);
        for (name, digest) in &self.domains {
            writer.text(name);
            writer.bytes(digest);
        }
        writer.finish().iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The descriptors of one domain, in their order.
#[derive(Clone, Debug)]
pub(crate) struct DomainDigest(Writer);

impl DomainDigest {
    pub(crate) fn new() -> Self {
        Self(Writer::new())
    }

    /// One descriptor with all that is below it.
    pub(crate) fn add(&mut self, descriptor: &DescriptorSpec) {
        self.0.flag(true);
        self.0.descriptor(descriptor);
    }
}

/// The identity of the rule at the end of a trail of descriptors.
#[derive(Clone, Debug)]
pub(crate) struct TrailDigest(Writer);

impl TrailDigest {
    pub(crate) fn new() -> Self {
        Self(Writer::new())
    }

    pub(crate) fn below(&self, key: &str, kind: u8, value: &str) -> Self {
        let mut writer = self.0.clone();
        writer.text(key);
        writer.bytes(&[kind]);
        writer.text(value);
        Self(writer)
    }

    /// The first 64 bits.
    pub(crate) fn identity(&self) -> u64 {
        let digest = self.0.clone().finish();
        digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }
}

#[derive(Clone, Debug)]
struct Writer(Sha256);

impl Writer {
    fn new() -> Self {
        let mut writer = Self(Sha256::new());
        writer.text(FORMAT);
        writer
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.bytes(&[u8::from(flag)]);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes(text.as_bytes());
    }

    fn choice(&mut self, name: &str) {
        self.text(name);
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<'a, T: 'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a T, IntoIter: ExactSizeIterator>,
        mut write: impl FnMut(&mut Self, &'a T),
    ) {
        let items = items.into_iter();
        self.number(items.len() as u64);
        items.for_each(|item| write(self, item));
    }

    fn descriptor(&mut self, descriptor: &DescriptorSpec) {
        let DescriptorSpec {
            key,
            value,
            ipv6_prefix,
            forwarded,
            share_threshold,
            value_to_metric,
            detailed_metric,
            rule,
            children,
            written: _,
        } = descriptor;
        self.text(key);
        let value = ValueMatch::of(key, value.clone());
        let (kind, text) = value.identity();
        self.bytes(&[kind]);
        self.text(&text);
        if let ValueMatch::List(list) = &value {
            self.list(list.values.iter(), |writer, value| match value {
                ListedValue::Exact(value) => {
                    writer.flag(false);
                    writer.text(value);
                }
                ListedValue::Network(network) => {
                    writer.flag(true);
                    writer.text(&network.to_string());
                }
            });
        }
        self.option(*ipv6_prefix, |writer, bits| writer.number(bits.into()));
        // Rules without it keep the digest that they had.
        if let Some(nth) = forwarded {
            self.choice("forwarded");
            self.number(u64::from(*nth));
        }
        [share_threshold, value_to_metric, detailed_metric].into_iter().for_each(|flag| self.flag(*flag));
        self.option(rule.as_ref(), Self::rule);
        self.list(children, Self::descriptor);
    }

    fn rule(&mut self, rule: &RuleSpec) {
        let RuleSpec {
            name,
            limits,
            replaces,
            shadow_mode,
            quota_mode,
            metadata,
            on_store_failure,
            sharing,
            max_wait,
            response,
        } = rule;
        self.text(name);
        // No kind of limits has this name. Rules that do not queue keep the digest that they had.
        if let Some(max_wait) = max_wait {
            self.choice("queue");
            self.number(max_wait.as_secs());
            self.number(u64::from(max_wait.subsec_nanos()));
        }
        match limits {
            Limits::Unlimited => self.choice("unlimited"),
            Limits::Denied => self.choice("denied"),
            Limits::Slots(slots) => {
                self.choice("concurrency");
                self.number(slots.limit());
                self.number(slots.ttl().as_secs());
                self.number(u64::from(slots.ttl().subsec_nanos()));
            }
            Limits::One(limit) => {
                self.choice("one");
                self.limit(limit);
            }
            Limits::Named(limits) => {
                self.choice("named");
                self.list(limits, Self::limit);
            }
        }
        self.list(replaces, |writer, name| writer.text(name));
        [shadow_mode, quota_mode].into_iter().for_each(|flag| self.flag(*flag));
        self.option(metadata.as_ref(), Self::json_map);
        self.choice(on_store_failure.name());
        self.choice(sharing.name());
        self.option(response.as_ref(), Self::response);
    }

    fn limit(&mut self, limit: &Limit) {
        // The unit and the key's tail follow from the period and the algorithm.
        let Limit {
            name,
            quota,
            requests_per_unit,
            excess,
            cost,
            shadow,
            post_paid,
            bucket,
            unit: _,
            period,
            key_tail: _,
        } = limit;
        self.text(name);
        self.number(*requests_per_unit);
        self.number(period.as_secs());
        self.number(u64::from(period.subsec_nanos()));
        match quota.period() {
            Period::Civil { time_zone, .. } => self.text(time_zone.iana_name().unwrap_or_default()),
            _ => self.text(""),
        }
        // No algorithm has this name. Other limits keep the digest that they had.
        if *excess > 0 {
            self.choice("excess");
            self.number(*excess);
        }
        if *cost > 1 {
            self.choice("cost");
            self.number(*cost);
        }
        if let Some(bucket) = bucket {
            self.choice("bucket");
            self.text(bucket);
        }
        if *shadow {
            self.choice("shadow");
        }
        if *post_paid {
            self.choice("post_paid");
        }
        self.algorithm(quota.algorithm());
    }

    fn algorithm(&mut self, algorithm: &Algorithm) {
        self.choice(algorithm.name());
        match algorithm {
            Algorithm::FixedWindow { align } => self.flag(*align == Align::FirstHit),
            Algorithm::SlidingWindow { cells, leaving } => {
                self.number(u64::from(*cells));
                // Limits without the key keep the digest that they had.
                if *leaving == LeavingCell::Drops {
                    self.choice("leaving_cell");
                }
            }
            Algorithm::SlidingWindowLog { log_denied } => self.flag(*log_denied),
            Algorithm::TokenBucket { burst, initial, overdraft, refill } => {
                self.option(*burst, Self::number);
                self.option(*initial, Self::number);
                self.number(*overdraft);
                self.flag(*refill == Refill::Interval);
            }
            Algorithm::LeakyBucket { capacity, form } => {
                self.option(*capacity, Self::number);
                match form {
                    LeakyForm::Meter => self.option(None, Self::number),
                    LeakyForm::Queue { delay_after } => self.option(Some(*delay_after), Self::number),
                }
            }
            Algorithm::WarmUp { warm_up, cold_factor } => {
                self.number(warm_up.as_secs());
                self.number(u64::from(warm_up.subsec_nanos()));
                self.number(u64::from(*cold_factor));
            }
            Algorithm::SmoothBursty { burst } => self.option(*burst, Self::number),
            Algorithm::PriorityBuckets { burst, weights, class } => {
                self.option(*burst, Self::number);
                self.list(weights.iter(), |writer, weight| writer.number(u64::from(*weight)));
                self.number(*class as u64);
            }
            Algorithm::SlidingWindowCounter | Algorithm::Total | Algorithm::Unlimited => {}
            // A version that changes too often is better than a version that misses a change.
            unknown => self.text(&format!("{unknown:?}")),
        }
    }

    fn response(&mut self, response: &Response) {
        let Response { status, content_type, body, headers } = response;
        self.option(*status, |writer, status| writer.number(status.into()));
        self.option(content_type.as_ref(), |writer, text| writer.text(text));
        self.option(body.as_ref(), Self::template);
        self.list(headers, |writer, (name, value)| {
            writer.text(name);
            writer.template(value);
        });
    }

    fn template(&mut self, template: &Template) {
        self.list(template.parts(), |writer, part| match part {
            Part::Text(text) => {
                writer.flag(false);
                writer.text(text);
            }
            Part::Hole(placeholder) => {
                writer.flag(true);
                writer.choice(placeholder.name());
            }
        });
    }

    /// The order of a map's keys does not matter.
    fn json_map(&mut self, map: &serde_json::Map<String, serde_json::Value>) {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        self.number(entries.len() as u64);
        for (key, value) in entries {
            self.text(key);
            self.json(value);
        }
    }

    fn json(&mut self, value: &serde_json::Value) {
        use serde_json::Value;
        match value {
            Value::Null => self.choice("null"),
            Value::Bool(flag) => {
                self.choice("bool");
                self.flag(*flag);
            }
            Value::Number(number) => {
                self.choice("number");
                self.text(&number.to_string());
            }
            Value::String(text) => {
                self.choice("string");
                self.text(text);
            }
            Value::Array(items) => {
                self.choice("array");
                self.list(items, Self::json);
            }
            Value::Object(map) => {
                self.choice("object");
                self.json_map(map);
            }
        }
    }
}
