//! The table of committed rates: the fields of a rule, and their bounds. Pure.

use serde::{Deserialize, Serialize};

use crate::faults::{Fault, FieldFaults, ModelError};
use crate::fields::{APP, MAX_DESCRIPTION, in_words, micro, name, rule_key, text, whole};

/// The largest rate and burst.
pub const MAX_NUMBER: i64 = 1_000_000_000;

/// Most bytes of `extras`.
pub const MAX_EXTRAS: usize = 64 * 1024;

/// Seconds in which a bucket and its overdraft must fill: what a node counts to the nanosecond, 36 years.
const LONGEST_FILL: i64 = (1 << 60) / 1_000_000_000;

/// A row as people and programs enter it: texts that are not checked yet. Empty optional fields mean their
/// defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TableRuleInput {
    /// Request class.
    pub key: String,
    /// Permits per second.
    pub rate: String,
    /// Burst.
    pub max_permits: String,
    /// Permits of one request.
    pub need_permits: String,
    /// Permits that may be taken in advance.
    pub pre_permits: String,
    /// `true` where hits are reported after they were used; `false` or empty otherwise.
    pub post_paid: String,
    /// Priority.
    pub g: String,
    /// Adjustment factor.
    pub u: String,
    /// Free-form JSON.
    pub extras: String,
    pub description: String,
    /// An entry of the request, each value of which is counted separately.
    pub per: String,
    /// A bucket that it shares with other rows of its app.
    pub bucket: String,
    /// `exact`, `leased`, `local`.
    pub sharing: String,
    /// `allow`, `deny`, `local`.
    pub on_store_failure: String,
    /// `on`, `shadow`, `off`.
    pub state: String,
    /// A rate that is tried in shadow beside the one in force; empty for none.
    pub trial_rate: String,
    /// The burst that is tried with it.
    pub trial_max_permits: String,
}

/// Numbers that are tried in shadow beside those in force: they count, and never deny.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Permits added per second, 1 to 10⁹.
    pub rate: i64,
    /// The bucket's height: at least `need_permits` and `pre_permits`, which the trial keeps.
    pub max_permits: i64,
}

/// A row whose fields are within their bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRule {
    /// Request class, unique in its app.
    pub key: String,
    /// Permits added per second, 1 to 10⁹.
    pub rate: i64,
    /// The bucket's height, 1 to 10⁹.
    pub max_permits: i64,
    /// Permits that one request takes, 1 to `max_permits`.
    pub need_permits: i64,
    /// Permits that a request may take in advance, 0 to `max_permits`.
    pub pre_permits: i64,
    /// Whether hits are reported after they were used: they always count in full. (Not written where it is
    /// false, as `bucket` where it is empty.)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub post_paid: bool,
    /// Priority in millionths, 0 to 10⁹.
    pub g_micro: i64,
    /// Adjustment factor in millionths, 0 to 10⁹.
    pub u_micro: i64,
    /// Free-form JSON, byte for byte as entered; empty for none.
    pub extras: String,
    pub description: String,
    /// An entry of the request, each value of which is counted separately; empty for none.
    pub per: String,
    /// A bucket that it shares with other rows of its app; empty for one of its own. Rows that share one have
    /// the same rate, `max_permits`, `per` and sharing. (Not written where it is empty, as it was not before
    /// there were buckets: the content of an open change set keeps its digest.)
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// `exact`, `leased`, `local`.
    pub sharing: String,
    /// `allow`, `deny`, `local`.
    pub on_store_failure: String,
    /// `on`, `shadow`, `off`.
    pub state: String,
    /// Numbers that are tried beside `rate` and `max_permits` while the row is `on`. A row with a bucket has
    /// none. (Left out where it is empty, as `bucket` is.)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

impl TableRuleInput {
    /// The row, if every field is within its bounds.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] with one fault for each invalid field.
    ///
    /// # Example
    /// ```
    /// # use tollgate_model::table_rule::TableRuleInput;
    /// let (key, max_permits) = ("pushGeo".into(), "100".into());
    /// let input = TableRuleInput { key, max_permits, ..TableRuleInput::default() };
    /// let row = input.check()?;
    /// assert_eq!((row.rate, row.max_permits, row.need_permits), (1, 100, 1));
    /// let faults = TableRuleInput { max_permits: "1.5".into(), ..input }.check().expect_err("not whole");
    /// assert_eq!(
    ///     faults.to_string(),
    ///     "invalid input: max_permits: expected a whole number from 1 to 1000000000"
    /// );
    /// # Ok::<(), tollgate_model::ModelError>(())
    /// ```
    pub fn check(&self) -> Result<TableRule, ModelError> {
        let mut faults = FieldFaults::default();
        // Each fault is replaced by a valid value, so that one reply names all of them.
        let key = faults.take("key", rule_key(&self.key), String::new());
        let max_permits = whole(&self.max_permits, None, 1, MAX_NUMBER);
        let burst = max_permits.as_ref().copied().unwrap_or(MAX_NUMBER);
        let max_permits = faults.take("max_permits", max_permits, 1);
        let rate = faults.take("rate", whole(&self.rate, Some(1), 1, MAX_NUMBER), 1);
        let need = whole(&self.need_permits, Some(1), 1, MAX_NUMBER).and_then(|it| within(it, burst));
        let need_permits = faults.take("need_permits", need, 1);
        let pre = whole(&self.pre_permits, Some(0), 0, MAX_NUMBER).and_then(|it| within(it, burst));
        let pre_permits = faults.take("pre_permits", pre, 0);
        let post_paid = match &*self.post_paid {
            "" | "false" => Ok(false),
            "true" => Ok(true),
            _ => Err(Fault::Choice { expected: "true, false" }),
        };
        let post_paid = faults.take("post_paid", post_paid, false);
        let g_micro = faults.take("g", micro(&self.g), 0);
        let u_micro = faults.take("u", micro(&self.u), 0);
        let extras = faults.take("extras", extras(&self.extras), String::new());
        let description = faults.take("description", text(&self.description, MAX_DESCRIPTION), String::new());
        let per = if self.per.is_empty() { Ok(String::new()) } else { name(&self.per, 64, ".", APP) };
        let per = faults.take("per", per, String::new());
        let bucket =
            if self.bucket.is_empty() { Ok(String::new()) } else { name(&self.bucket, 64, ".", APP) };
        let bucket = faults.take("bucket", bucket, String::new());
        let mut choice = |field, value: &str, among: &[&str], expected| {
            let value = if value.is_empty() { among[0] } else { value };
            let found = among.iter().find(|it| **it == value).map(|it| (*it).to_owned());
            faults.take(field, found.ok_or(Fault::Choice { expected }), String::new())
        };
        let sharing = choice("sharing", &self.sharing, &["exact", "leased", "local"], "exact, leased, local");
        let on_store_failure = choice(
            "on_store_failure",
            &self.on_store_failure,
            &["allow", "deny", "local"],
            "allow, deny, local",
        );
        let state = choice("state", &self.state, &["on", "shadow", "off"], "on, shadow, off");
        let trial = self.trial(&mut faults, need_permits.max(pre_permits), pre_permits);
        if trial.is_some() && !bucket.is_empty() {
            faults.add("trial_rate", Fault::TrialInBucket);
        }
        if sharing == "leased" && pre_permits > 0 {
            faults.add("pre_permits", Fault::LeasedOverdraft);
        }
        if max_permits + pre_permits > rate.saturating_mul(LONGEST_FILL) {
            faults.add("pre_permits", Fault::SlowBucket);
        }
        faults.check()?;
        Ok(TableRule {
            key,
            rate,
            max_permits,
            need_permits,
            pre_permits,
            post_paid,
            g_micro,
            u_micro,
            extras,
            description,
            per,
            bucket,
            sharing,
            on_store_failure,
            state,
            trial,
        })
    }

    /// Both numbers of a trial or none: a burst of at least `least`, which fills with `pre_permits` in time.
    fn trial(&self, faults: &mut FieldFaults, least: i64, pre_permits: i64) -> Option<Trial> {
        let number = |text: &str| match text.trim_matches(' ') {
            "" => Ok(None),
            text => whole(text, None, 1, MAX_NUMBER).map(Some),
        };
        let rate = number(&self.trial_rate);
        let burst = number(&self.trial_max_permits);
        match (&rate, &burst) {
            (Ok(Some(_)), Ok(None)) => faults.add("trial_max_permits", Fault::TrialHalf),
            (Ok(None), Ok(Some(_))) => faults.add("trial_rate", Fault::TrialHalf),
            (_, Ok(Some(burst))) if *burst < least => {
                faults.add("trial_max_permits", Fault::TrialTooSmall { min: least });
            }
            (Ok(Some(rate)), Ok(Some(burst))) if burst + pre_permits > rate.saturating_mul(LONGEST_FILL) => {
                faults.add("trial_max_permits", Fault::SlowBucket);
            }
            _ => {}
        }
        let rate = faults.take("trial_rate", rate, None);
        let max_permits = faults.take("trial_max_permits", burst, None);
        Some(Trial { rate: rate?, max_permits: max_permits? })
    }
}

impl TableRule {
    /// The texts that would make this row.
    #[must_use]
    pub fn to_input(&self) -> TableRuleInput {
        let of_trial =
            |of: fn(&Trial) -> i64| self.trial.as_ref().map(of).map_or_else(String::new, |it| it.to_string());
        TableRuleInput {
            key: self.key.clone(),
            rate: self.rate.to_string(),
            max_permits: self.max_permits.to_string(),
            need_permits: self.need_permits.to_string(),
            pre_permits: self.pre_permits.to_string(),
            post_paid: if self.post_paid { "true" } else { "" }.to_owned(),
            g: in_words(self.g_micro),
            u: in_words(self.u_micro),
            extras: self.extras.clone(),
            description: self.description.clone(),
            per: self.per.clone(),
            bucket: self.bucket.clone(),
            sharing: self.sharing.clone(),
            on_store_failure: self.on_store_failure.clone(),
            state: self.state.clone(),
            trial_rate: of_trial(|it| it.rate),
            trial_max_permits: of_trial(|it| it.max_permits),
        }
    }
}

const fn within(number: i64, burst: i64) -> Result<i64, Fault> {
    if number > burst { Err(Fault::AboveBurst { max: burst }) } else { Ok(number) }
}

fn extras(text: &str) -> Result<String, Fault> {
    if text.trim().is_empty() {
        return Ok(String::new());
    }
    // serde_json stops at a depth of 128.
    let is_object = text.len() <= MAX_EXTRAS
        && serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok();
    if is_object { Ok(text.to_owned()) } else { Err(Fault::Json) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> TableRuleInput {
        TableRuleInput { key: "pushGeo".into(), max_permits: "100".into(), ..TableRuleInput::default() }
    }

    /// The fields at fault when `field` has this value.
    fn faults(field: &'static str, value: &str) -> Vec<&'static str> {
        let mut input = input();
        let place = match field {
            "key" => &mut input.key,
            "rate" => &mut input.rate,
            "max_permits" => &mut input.max_permits,
            "need_permits" => &mut input.need_permits,
            "pre_permits" => &mut input.pre_permits,
            "post_paid" => &mut input.post_paid,
            "g" => &mut input.g,
            "u" => &mut input.u,
            "extras" => &mut input.extras,
            "description" => &mut input.description,
            "per" => &mut input.per,
            "bucket" => &mut input.bucket,
            "sharing" => &mut input.sharing,
            "on_store_failure" => &mut input.on_store_failure,
            "trial_rate" => &mut input.trial_rate,
            "trial_max_permits" => &mut input.trial_max_permits,
            _ => &mut input.state,
        };
        *place = value.to_owned();
        match input.check() {
            Ok(_) => Vec::new(),
            Err(ModelError::Invalid(faults)) => faults.into_iter().map(|it| it.field).collect(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn every_field_rejects_bad_input_by_its_own_name() {
        let numbers = ["rate", "max_permits", "need_permits", "pre_permits"];
        let bad =
            ["-1", "1.5", "1e30", "1000000000000000000000000000000", "１", "0x10", "+1", "1 0", "{{1}}"];
        for field in numbers {
            for value in bad {
                assert_eq!(faults(field, value), [field], "{field} = {value:?}");
            }
        }
        for field in ["rate", "max_permits", "need_permits"] {
            assert_eq!(faults(field, "0"), [field]);
        }
        for value in ["", "*", "a*", "a b", "a\n", "a\u{0}", "..", "酒店", "<b>", "{{a}}", &"k".repeat(129)]
        {
            assert_eq!(faults("key", value), ["key"], "{value:?}");
        }
        for value in ["-1", "1000.000001", "1.1234567", ".5", "1.", "1e3", "NaN", "9999999"] {
            assert_eq!((faults("g", value), faults("u", value)), (vec!["g"], vec!["u"]), "{value:?}");
        }
        for value in ["[1]", "{", "1", "{\"a\":1}x", &format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_EXTRAS))] {
            assert_eq!(faults("extras", value), ["extras"]);
        }
        assert_eq!(faults("extras", &("{\"a\":".repeat(200) + "1" + &"}".repeat(200))), ["extras"]);
        for value in ["*", "a b", "a/b", "a$b", "..", "桶", "{{a}}", &"b".repeat(65)] {
            assert_eq!(
                (faults("bucket", value), faults("per", value)),
                (vec!["bucket"], vec!["per"]),
                "{value:?}"
            );
        }
        assert_eq!(faults("description", "a\u{7}"), ["description"]);
        assert_eq!(faults("description", &"酒".repeat(501)), ["description"]);
        for field in ["sharing", "on_store_failure", "state"] {
            assert_eq!(faults(field, "perhaps"), [field]);
        }
    }

    #[test]
    fn the_bounds_themselves_are_accepted() {
        for (field, value) in [
            ("key", "k".repeat(128)),
            ("key", "A-z_0.9:/".into()),
            ("rate", "1".into()),
            ("rate", "1000000000".into()),
            ("rate", " 7 ".into()),
            ("max_permits", "1000000000".into()),
            ("pre_permits", "100".into()),
            ("bucket", "b".repeat(64)),
            ("bucket", String::new()),
            ("g", "1000".into()),
            ("u", "0.000001".into()),
            ("extras", r#"{"b": 1,  "a": [2]}"#.into()),
            ("description", "酒".repeat(500)),
            ("description", "<b>{{x}}</b>".into()),
        ] {
            assert_eq!(faults(field, &value), [] as [&str; 0], "{field} = {value:?}");
        }
        assert_eq!(faults("rate", "1000000001"), ["rate"]);
        assert_eq!(faults("pre_permits", "101"), ["pre_permits"]);
        assert_eq!(faults("need_permits", "101"), ["need_permits"]);
    }

    #[test]
    fn a_bucket_fills_within_decades() {
        let row = |rate: &str, pre_permits: &str| {
            let max_permits = "1000000000".into();
            let input =
                TableRuleInput { rate: rate.into(), max_permits, pre_permits: pre_permits.into(), ..input() };
            input.check().map(|row| crate::compile::check("shop", &row).is_ok()).ok()
        };
        assert_eq!(row("1", "152921504"), Some(true), "nodes take it");
        assert_eq!(row("1", "152921505"), None, "rejected beside the field");
        assert_eq!(row("2", "1000000000"), Some(true));
    }

    #[test]
    fn a_row_read_back_from_its_texts_is_equal() {
        let pre_permits = "3".into();
        let post_paid = "true".into();
        let bucket = "all".into();
        let table_rule = TableRuleInput {
            g: "0.25".into(),
            u: "12.000001".into(),
            pre_permits,
            post_paid,
            bucket,
            ..input()
        };
        let table_rule = table_rule.check().expect("valid");
        assert_eq!((table_rule.g_micro, table_rule.u_micro), (250_000, 12_000_001));
        assert_eq!(table_rule.to_input().check().expect("valid"), table_rule);
    }
}
