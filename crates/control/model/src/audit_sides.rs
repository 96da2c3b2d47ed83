//! The rules of a change as its one entry of the audit has them: of each only what differs. Pure.

use serde_json::{Map, Value as Json, json};

use crate::content::{Content, RuleKind};

/// Most rules of one entry; the version itself has all.
const MOST: usize = 200;
/// Longer texts are replaced by their number of lines: the version has them.
const MOST_TEXT: usize = 200;

/// Both sides of one rule.
#[derive(Clone, Copy, Debug)]
pub struct RuleSides<'c> {
    /// The kind of the rule.
    pub kind: RuleKind,
    /// The key of the rule.
    pub key: &'c str,
    /// The earlier content; `None`: the rule did not exist.
    pub before: Option<&'c Content>,
    /// The later content; `None`: the rule does not exist.
    pub after: Option<&'c Content>,
}

/// Both sides of each rule, with the members that differ only.
#[must_use]
pub fn differing<'c>(rules: impl Iterator<Item = RuleSides<'c>>) -> Json {
    let one = |RuleSides { kind, key, before, after }: RuleSides<'_>| {
        let mut before = before.map(members);
        let mut after = after.map(members);
        if let (Some(old), Some(new)) = (&mut before, &mut after) {
            let same: Vec<String> = old
                .iter()
                .filter(|(name, value)| new.get(*name) == Some(value))
                .map(|it| it.0.clone())
                .collect();
            for name in same {
                old.remove(&name);
                new.remove(&name);
            }
        }
        let short = |side: Option<Map<String, Json>>| side.map(shortened);
        json!({"kind": kind.name(), "key": key, "before": short(before), "after": short(after)})
    };
    rules.take(MOST).map(one).collect()
}

fn members(content: &Content) -> Map<String, Json> {
    match content.json() {
        Json::Object(members) => members,
        _ => Map::new(),
    }
}

fn shortened(mut side: Map<String, Json>) -> Map<String, Json> {
    for value in side.values_mut() {
        if let Json::String(text) = value
            && text.len() > MOST_TEXT
        {
            *value = json!({"lines": text.lines().count()});
        }
    }
    side
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "in a test a panic is the finding")]

    use super::*;
    use crate::table_rule::TableRuleInput;

    fn row(rate: &str, burst: &str) -> Content {
        let input = TableRuleInput {
            key: "push".to_owned(),
            rate: rate.to_owned(),
            max_permits: burst.to_owned(),
            ..TableRuleInput::default()
        };
        Content::TableRule(Box::new(input.check().expect("valid")))
    }

    fn side<'c>(before: Option<&'c Content>, after: Option<&'c Content>) -> RuleSides<'c> {
        RuleSides { kind: RuleKind::TableRule, key: "push", before, after }
    }

    #[test]
    fn a_rule_has_what_differs_and_a_new_or_deleted_one_all_of_it() {
        let old = row("5", "10");
        let new = row("20", "10");
        let sides = |before, after| differing([side(before, after)].into_iter());
        let changed = sides(Some(&old), Some(&new));
        assert_eq!(
            changed,
            json!([{"kind": "car", "key": "push", "before": {"rate": 5}, "after": {"rate": 20}}])
        );
        assert_eq!(
            (&sides(None, Some(&new))[0]["before"], &sides(Some(&old), None)[0]["after"]),
            (&Json::Null, &Json::Null)
        );
        assert_eq!(sides(None, Some(&new))[0]["after"]["max_permits"], 10);
        let many = (0..=MOST).map(|_| side(Some(&old), Some(&new)));
        assert_eq!(differing(many).as_array().map(Vec::len), Some(MOST));
    }
}
