//! An app as it is read: the unit of rights, versions and publication. Not here: its table (`apps` of
//! `control`).

use serde_json::json;

use crate::rollout::Plan;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct App {
    /// Its id in the database.
    pub id: String,
    pub name: String,
    pub description: String,
    /// The version that nodes should have; 0 before the first change.
    pub version: i64,
    /// Approvals that a change needs, 0 to 2.
    pub approvals: i64,
    /// `active` or `disabled`; a disabled app has no rule on any node.
    pub state: String,
    /// Goes up with each change.
    pub etag: i64,
    /// Milliseconds UTC.
    pub updated_at: i64,
    /// Number of its rules in the table of committed rates.
    pub rules: i64,
    /// The plan by which its versions reach the nodes, unless a change names another.
    pub rollout: Plan,
    /// The edition of its rows.
    pub edition: String,
    /// The highest number that a large change has taken, whether it became a version or not.
    pub reserved: i64,
}

impl App {
    /// As it is made.
    #[must_use]
    pub fn new(id: String, name: &str) -> Self {
        Self {
            id,
            name: name.to_owned(),
            description: String::new(),
            version: 0,
            state: "active".to_owned(),
            etag: 1,
            updated_at: 0,
            approvals: 0,
            rules: 0,
            rollout: Plan::default(),
            edition: String::new(),
            reserved: 0,
        }
    }

    /// The number of its next version.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.version.max(self.reserved) + 1
    }

    /// Whether no node has a rule of it.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.state == "disabled"
    }

    /// The app as JSON, for the audit.
    #[must_use]
    pub fn shown(&self) -> serde_json::Value {
        let Self { name, description, state, approvals, rollout, .. } = self;
        json!({
            "name": name, "description": description, "state": state, "approvals": approvals,
            "rollout": rollout.json(),
        })
    }
}
