//! The command `documents`: the documents that the node holds of an app, for a control plane whose database
//! is an old copy.
//!
//! The body is JSON, `{"app": …}`. The reply is `{"version": …, "documents": [{"domain": …, "yaml": …}]}`.

use serde::Deserialize;
use serde_json::json;
use tollgate_fleet_proto::{Command, MAX_NODE_MESSAGE_BYTES, Reply};

use crate::rules::RuleState;

/// Name of the command.
pub(crate) const KIND: &str = "documents";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentsQuestion {
    app: String,
}

/// Answers the command.
pub(crate) fn answer(held: &RuleState, Command { command, body, .. }: &Command) -> Reply {
    let (body, error) = match read(held, body) {
        Ok(body) => (body, String::new()),
        Err(error) => (String::new(), error),
    };
    Reply { command: *command, error, body }
}

fn read(held: &RuleState, body: &str) -> Result<String, String> {
    let DocumentsQuestion { app } =
        serde_json::from_str(body).map_err(|error| format!("invalid body of the command: {error}"))?;
    let rules = held.apps.get(&app).ok_or_else(|| format!("the node has no app {app:?}"))?;
    let documents: Vec<_> =
        rules.documents.iter().map(|it| json!({"domain": it.domain, "yaml": &*it.yaml})).collect();
    let text = json!({"version": rules.version, "documents": documents}).to_string();
    let most = MAX_NODE_MESSAGE_BYTES - 1_024;
    if text.len() > most {
        return Err(format!("the rules of {app} take {} bytes, and a reply has at most {most}", text.len()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_fleet_proto::text_digest;

    use super::*;
    use crate::rules::{AppRules, RuleDocument};

    fn asked(held: &RuleState, body: &str) -> (String, String) {
        let command = Command { command: 7, kind: KIND.to_owned(), body: body.to_owned() };
        let Reply { command, error, body } = answer(held, &command);
        assert_eq!(command, 7);
        (body, error)
    }

    #[test]
    fn a_node_says_what_it_holds_of_an_app_up_to_what_fits_into_a_message() {
        let yaml = "domain: shop\ndescriptors: []\n";
        let text = |yaml: &str| RuleDocument {
            domain: "shop".to_owned(),
            sha256: text_digest(yaml),
            yaml: yaml.to_owned().into(),
        };
        let mut held = RuleState::default();
        held.set("shop", Arc::new(AppRules::new(3, vec![text(yaml)])));
        held.set("large", Arc::new(AppRules::new(1, vec![text(&"x".repeat(MAX_NODE_MESSAGE_BYTES))])));
        let want = json!({"version": 3, "documents": [{"domain": "shop", "yaml": yaml}]}).to_string();
        assert_eq!(asked(&held, r#"{"app": "shop"}"#), (want, String::new()));
        for (body, wrong) in [
            (r#"{"app": "other"}"#, "the node has no app \"other\""),
            (r#"{"app": "large"}"#, "the rules of large take"),
            (r#"{"app": "shop", "x": 1}"#, "invalid body of the command"),
            ("", "invalid body of the command"),
        ] {
            let (body, error) = asked(&held, body);
            assert!(body.is_empty() && error.starts_with(wrong), "{error}");
        }
    }
}
