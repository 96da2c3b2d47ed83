//! Bodies as JSON: unknown and duplicate members are rejected, and numbers are numbers.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tollgate_control::rollout::Plan;
use tollgate_control::table_rule::{MAX_NUMBER, TableRuleInput};
use tollgate_control::{ControlError, Fault, FieldFaults};

use crate::web::{Failure, Visit};

/// The body of a login.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoginBody {
    pub(super) name: String,
    pub(super) password: String,
}

/// The body of an app.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AppBody {
    #[serde(default)]
    pub(super) app: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) state: String,
    #[serde(default)]
    pub(super) approvals: Option<u32>,
    #[serde(default)]
    pub(super) rollout: Option<Plan>,
    // What a reply has besides, so that it can be sent back.
    #[serde(default, rename = "version")]
    _version: IgnoredAny,
    #[serde(default, rename = "rules")]
    _rules: IgnoredAny,
    #[serde(default, rename = "updated_at")]
    _updated_at: IgnoredAny,
}

/// The body of a rule. Members are checked by the same code as the fields of the form.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RuleBody {
    // What a reply has besides, so that it can be sent back.
    #[serde(rename = "app")]
    _app: IgnoredAny,
    #[serde(rename = "version")]
    _version: IgnoredAny,
    #[serde(rename = "updated_at")]
    _updated_at: IgnoredAny,
    #[serde(rename = "app_disabled")]
    _app_disabled: IgnoredAny,
    #[serde(rename = "updated_by")]
    _updated_by: IgnoredAny,
    key: String,
    rate: Value,
    max_permits: Value,
    need_permits: Value,
    pre_permits: Value,
    post_paid: Option<bool>,
    g: Value,
    u: Value,
    extras: Value,
    description: String,
    per: String,
    bucket: String,
    sharing: String,
    on_store_failure: String,
    state: String,
    trial_rate: Value,
    trial_max_permits: Value,
}

impl RuleBody {
    /// The texts to check, for `key` if the path names it.
    pub(super) fn input(self, key: Option<String>) -> Result<TableRuleInput, ControlError> {
        let mut faults = FieldFaults::default();
        let whole = Fault::Whole { min: 0, max: MAX_NUMBER };
        let mut number = |field, value: Value, fault: Fault| match value {
            Value::Null => String::new(),
            Value::Number(number) => number.to_string(),
            Value::String(text) if matches!(field, "g" | "u") => text, // exact, unlike floats
            _ => faults.take(field, Err(fault), String::new()),
        };
        let input = TableRuleInput {
            key: key.unwrap_or(self.key),
            rate: number("rate", self.rate, whole.clone()),
            max_permits: number("max_permits", self.max_permits, whole.clone()),
            need_permits: number("need_permits", self.need_permits, whole.clone()),
            pre_permits: number("pre_permits", self.pre_permits, whole.clone()),
            post_paid: self.post_paid.map_or_else(String::new, |it| it.to_string()),
            trial_rate: number("trial_rate", self.trial_rate, whole.clone()),
            trial_max_permits: number("trial_max_permits", self.trial_max_permits, whole),
            g: number("g", self.g, Fault::Decimal),
            u: number("u", self.u, Fault::Decimal),
            extras: match self.extras {
                Value::Null => String::new(),
                Value::String(text) => text, // byte for byte
                other => other.to_string(),
            },
            description: self.description,
            per: self.per,
            bucket: self.bucket,
            sharing: self.sharing,
            on_store_failure: self.on_store_failure,
            state: self.state,
        };
        faults.check()?;
        Ok(input)
    }
}

/// The body as `T`.
pub(super) fn read<T: for<'de> Deserialize<'de>>(visit: &Visit) -> Result<T, Failure> {
    if visit.body.trim_ascii_start().first() != Some(&b'{') {
        // Structs are read from arrays too, without the names of their members.
        return Err(Failure::Bad("invalid request body: expected a JSON object".to_owned()));
    }
    if is_deep(&visit.body) {
        return Err(Failure::Bad(format!("invalid request body: more than {MAX_DEPTH} levels")));
    }
    serde_json::from_slice(&visit.body)
        .map_err(|error| Failure::Bad(format!("invalid request body: {error}")))
}

/// Deepest nesting of a body.
const MAX_DEPTH: usize = 64;

/// Whether arrays and objects are nested deeper than [`MAX_DEPTH`].
fn is_deep(body: &[u8]) -> bool {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_deep;

    #[test]
    fn sixty_four_levels_are_read_and_one_more_is_not() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!is_deep(nested(64).as_bytes()) && is_deep(nested(65).as_bytes()));
        let text = format!(r#"{{"a": "{}\"{}"}}"#, "[".repeat(100), "{".repeat(100));
        assert!(!is_deep(text.as_bytes()), "brackets in texts are no levels");
    }
}
