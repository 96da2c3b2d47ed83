//! `on_limit` and `max_wait`: whether a request that is over a limit waits for its turn, and for how long.

use std::time::Duration;

use tollgate_human_text::parse_duration;

use super::path::Path;
use super::reader::{Fields, Reader};
use super::scalar::quoted;
use crate::yaml_tree::Pos;

/// Choice of one map for requests over its limit.
#[derive(Clone, Debug)]
pub(super) enum OnLimit {
    Reject,
    Queue(QueueSettings),
}

/// The settings that belong to `on_limit: queue`.
#[derive(Clone, Debug)]
pub(super) struct QueueSettings {
    pub(super) max_wait: Duration,
    /// Places of the two values.
    pub(super) on_limit_at: (Pos, String),
    pub(super) max_wait_at: (Pos, String),
}

impl Reader<'_> {
    /// Reads the choice of `fields`; `None` if there is none, or a faulty one, which is reported.
    pub(super) fn on_limit(&mut self, fields: &Fields<'_>, path: &Path<'_>) -> Option<OnLimit> {
        let here = path.key("on_limit");
        let wait_path = path.key("max_wait");
        let Some(node) = fields.get("on_limit") else {
            if fields.get("max_wait").is_some() {
                let message = "belongs to on_limit: queue; write that too, or remove it";
                self.notes.fault(fields.pos_of("max_wait"), wait_path, message);
            }
            return None;
        };
        let queues = self.choice(node, &here, &[("reject", false), ("queue", true)])?;
        let wait = fields.get("max_wait");
        let wait = match (queues, wait) {
            (true, Some(wait)) => wait,
            (true, None) => {
                let message = "queue needs max_wait; write how long a request may wait, such as max_wait: 2s";
                self.notes.fault(node.pos, here, message);
                return None;
            }
            (false, None) => return Some(OnLimit::Reject),
            (false, Some(_)) => {
                let message = "has no effect with on_limit: reject; write on_limit: queue, or remove it";
                self.notes.fault(fields.pos_of("max_wait"), wait_path, message);
                return None;
            }
        };
        let text = self.scalar(wait, &wait_path, "a duration such as 2s")?;
        let Some(max_wait) = parse_duration(&text.text) else {
            let message =
                format!("invalid duration {}: expected something like 500ms, 2s or 30s", quoted(text));
            self.notes.fault(wait.pos, wait_path, message);
            return None;
        };
        Some(OnLimit::Queue(QueueSettings {
            max_wait,
            on_limit_at: (node.pos, here.to_string()),
            max_wait_at: (wait.pos, wait_path.to_string()),
        }))
    }
}
