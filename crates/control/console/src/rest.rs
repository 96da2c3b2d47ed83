//! The REST API under `/api/v1`: the same functions as the pages, as JSON. `tollgate-api` has its table of
//! operations, what they take and reply, and its description.

mod access;
mod apps;
mod body;
mod changes;
mod etag;
mod events;
mod files;
mod frozen;
mod history;
mod json;
mod keys;
mod nodes;
mod ops;
mod overrides;
mod problem;
mod rollouts;
mod rules;
mod transfer;
mod versions;

use std::sync::LazyLock;

use tollgate_api::Call;
use tollgate_http_kit::Reply;

pub use problem::PROBLEMS;
pub(crate) use problem::failed;

use crate::assets;
use crate::console::Console;
use crate::web::{Failure, Visit};

pub(crate) async fn answer(console: &Console, call: Call, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        Call::OpenApi => Ok(assets::made_once(&OPENAPI, visit.accepts_gzip)),
        Call::LogIn => apps::log_in(console, visit).await,
        Call::LogOut => apps::log_out(console, visit).await,
        Call::Apps => apps::list(console, visit).await,
        Call::CreateApp => apps::create(console, visit).await,
        Call::App => apps::get(console, visit).await,
        Call::ChangeApp => apps::change(console, visit).await,
        Call::DisableApp => apps::disable(console, visit).await,
        Call::Rules => rules::list(console, visit, String::new()).await,
        Call::AppRules => rules::list(console, visit, visit.segment(3)).await,
        Call::CreateRule => rules::create(console, visit).await,
        Call::Rule => rules::get(console, visit).await,
        Call::ChangeRule => rules::change(console, visit).await,
        Call::DeleteRule => rules::delete(console, visit).await,
        Call::Access(call) => access::answer(console, call, visit).await,
        Call::History => history::series(console, visit).await,
        Call::TopKeys => history::top(console, visit).await,
        Call::Suggestion => history::suggestion(console, visit).await,
        Call::Trial => history::trial(console, visit).await,
        Call::Problems => history::problems(console, visit).await,
        Call::Unlimited => history::unlimited(console, visit).await,
        Call::Events => events::wait(console, visit).await,
        Call::LiveKeys => keys::live(console, visit).await,
        Call::ScanKeys => keys::scan(console, visit).await,
        Call::Key => keys::inspect(console, visit).await,
        Call::ResetKey => keys::reset(console, visit).await,
        Call::Overrides => overrides::list(console, visit).await,
        Call::CreateOverride => overrides::create(console, visit).await,
        Call::EndOverride => overrides::end(console, visit).await,
        Call::Nodes => nodes::list(console, visit).await,
        Call::Node => nodes::get(console, visit).await,
        Call::RemoveNode => nodes::remove(console, visit).await,
        Call::Frozen => frozen::get(console, visit).await,
        Call::Force => frozen::force(console, visit).await,
        Call::TakeOver => frozen::take_over(console, visit).await,
        Call::Change(call) => changes::answer(console, call, visit).await,
        Call::Rollout(call) => rollouts::answer(console, call, visit).await,
        Call::Version(call) => versions::answer(console, call, visit).await,
        Call::File(call) => files::answer(console, call, visit).await,
        Call::Transfer(call) => transfer::answer(console, call, visit).await,
    }
}

/// Made once: it is the same for all, and its size is that of the whole API.
static OPENAPI: LazyLock<assets::MadeOnce> =
    LazyLock::new(|| assets::MadeOnce::new("application/json", tollgate_api::document().to_string()));
