//! The description of the API as OpenAPI 3.1.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_http_kit::openapi::{self, About};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use crate::operations::operations;
use crate::{params as p, views as v};

const ABOUT: About = About {
    title: "Tollgate control API",
    version: env!("CARGO_PKG_VERSION"),
    description: "Apps and rules of the control plane",
};

/// The description as JSON.
#[must_use]
pub fn document() -> Value {
    openapi::document(ABOUT, operations(), &schemas())
}

/// A schema and those that it refers to, by name.
fn add<T: ToSchema>(all: &mut Vec<(String, RefOr<Schema>)>) {
    all.push((T::name().into_owned(), <T as PartialSchema>::schema()));
    T::schemas(all);
}

fn schemas() -> BTreeMap<String, Value> {
    let mut all = Vec::new();
    macro_rules! add {
        ($($shape:ty),* $(,)?) => {$(add::<$shape>(&mut all);)*};
    }
    add!(v::ApiDescription, v::Done, v::Name, v::Problem);
    add!(p::LoginBody, p::AppBody, v::App, v::Apps, p::RuleBody, v::Rule, v::Rules, v::PublishedVersion);
    add!(v::History, v::TopKeys, v::Suggestion, v::TrialCompared, v::Problems, v::Unlimited);
    add!(v::Key, v::ListedKeys, v::LiveKeys, p::OverrideBody, v::Override, v::Overrides);
    add!(v::Node, v::Nodes, p::ForceBody, p::TakeOverBody, v::Frozen, v::Thawed);
    add!(p::ChangeBody, p::PreviewBody, p::CommentBody, p::ResolveBody, p::PublishBody);
    add!(v::ChangeSet, v::ChangeSets, v::Checked, v::Diff, v::Traces);
    add!(p::RollbackBody, v::Versions, v::VersionDocuments, v::VersionDiff);
    add!(p::WithdrawBody, v::Rollout, v::Rollouts);
    add!(p::FileBody, v::File, v::Files, v::Explanation, v::Imported);
    add!(p::SetupBody, p::LinkBody, p::MeBody, p::PasswordBody, v::Me, v::Logins);
    add!(p::UserBody, p::StateBody, p::RoleBody, v::User, v::UserLink, v::Users, v::Roles);
    add!(p::TokenBody, v::Token, v::NewToken, v::Tokens, v::Entries, v::AuditChain, v::Settings);
    // Shapes of texts and numbers cannot fail.
    let shape = |schema| serde_json::to_value(schema).unwrap_or_default();
    all.into_iter().map(|(name, schema)| (name, closed(shape(schema)))).collect()
}

/// Objects have the members that are described and no others. The parts of a whole, which have each other's,
/// stay as they are.
fn closed(mut schema: Value) -> Value {
    close(&mut schema);
    schema
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.contains_key("allOf") {
                return;
            }
            if members.get("type").is_some() && members.contains_key("properties") {
                members.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
