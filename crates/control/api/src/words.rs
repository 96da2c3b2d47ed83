//! The words that members of one of several values have, in the places where `schema_with` names them.

use tollgate_control::rollout::{Stage, State};
use tollgate_control::{Role, change_set, problems};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use crate::shapes::{any_of, one_of};

pub(crate) fn active_or_disabled() -> Object {
    one_of(["active", "disabled"])
}

pub(crate) fn actor_kind() -> Object {
    one_of(["user", "token", "system", "unknown"])
}

pub(crate) fn block_or_allow() -> Object {
    one_of(["block", "allow"])
}

pub(crate) fn change_event() -> Object {
    one_of(["submit", "edit", "comment", "approve", "reject", "publish", "abandon"])
}

pub(crate) fn change_state() -> Object {
    one_of(change_set::State::ALL.map(change_set::State::name))
}

pub(crate) fn diff_op() -> Object {
    one_of(["create", "update", "delete"])
}

pub(crate) fn file_state() -> Object {
    one_of(["on", "off"])
}

pub(crate) fn gate() -> Object {
    one_of([
        "rejected",
        "not_acknowledged",
        "denies_more",
        "degrades_more",
        "blocked",
        "operator",
        "superseded",
    ])
}

pub(crate) fn kept_as() -> Object {
    one_of(["counter", "leased", "slots"])
}

pub(crate) fn language() -> Object {
    one_of(["", "zh", "en"])
}

pub(crate) fn node_state() -> Object {
    one_of(["live", "unresponsive", "lost"])
}

pub(crate) fn on_store_failure() -> Object {
    one_of(["allow", "deny", "local"])
}

pub(crate) fn problem_kind() -> Object {
    one_of(problems::ProblemKind::ALL.map(problems::ProblemKind::name))
}

pub(crate) fn put_or_delete() -> Object {
    one_of(["put", "delete"])
}

pub(crate) fn role() -> Object {
    one_of(Role::ALL.map(Role::name))
}

pub(crate) fn rollout_state() -> Object {
    one_of(State::ALL.map(State::name))
}

pub(crate) fn rule_kind() -> Object {
    one_of(["car", "file"])
}

pub(crate) fn rule_state() -> Object {
    one_of(["on", "shadow", "off"])
}

pub(crate) fn sharing() -> Object {
    one_of(["exact", "leased", "local"])
}

pub(crate) fn stage() -> Object {
    one_of(Stage::ALL.map(Stage::name))
}

/// The number of nodes in each stage.
pub(crate) fn stages() -> Object {
    let stages = Stage::ALL.into_iter().fold(ObjectBuilder::new(), |stages, stage| {
        stages.property(stage.name(), of(Type::Integer)).required(stage.name())
    });
    stages.build()
}

pub(crate) fn token_kind() -> Object {
    one_of(["api", "node", "join"])
}

fn of(one: Type) -> Object {
    ObjectBuilder::new().schema_type(one).build()
}

/// A member of a reply that is taken back and ignored.
pub(crate) fn ignored_number() -> Object {
    of(Type::Integer)
}

/// Ignored, as [`ignored_number`] is.
pub(crate) fn ignored_text() -> Object {
    of(Type::String)
}

/// Ignored, as [`ignored_number`] is.
pub(crate) fn ignored_flag() -> Object {
    of(Type::Boolean)
}

pub(crate) fn whole_or_null() -> Object {
    any_of([Type::Integer, Type::Null])
}

/// A number with decimals, which a text keeps exact.
pub(crate) fn decimal() -> Object {
    any_of([Type::Number, Type::Integer, Type::String])
}

/// A JSON object, or its text.
pub(crate) fn json_object() -> Object {
    any_of([Type::Object, Type::String, Type::Null])
}
