//! The pages. Each reads its visit, calls `control`, and fills a template.

mod access;
mod account;
mod app_settings;
mod audit;
mod bulk;
mod change_forms;
mod changes;
mod confirm;
mod diffs;
mod examples;
mod failed;
mod files;
mod frozen;
mod hrefs;
mod key_list;
mod keys;
mod nodes;
mod overrides;
mod overview;
mod parts;
mod problem_list;
mod replay;
mod rollouts;
mod rule_acts;
mod rule_form;
mod rule_history;
mod rule_trial;
mod rules;
mod sections;
mod settings;
mod shortcuts;
mod table;
mod tokens;
mod top;
mod users;
mod versions;

pub(crate) use access::with_login;
pub(crate) use failed::failed;

use hyper::Method;
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::web::{Failure, Visit};

/// A page, by what it does.
#[derive(Clone, Copy, Debug)]
pub enum Page {
    Home,
    /// The form of the login.
    Login,
    LogIn,
    LogOut,
    /// The form of the first admin.
    Setup,
    /// Makes the first admin.
    SetUp,
    /// Language, theme and shortcuts.
    Prefer,
    /// The keys of the keyboard.
    Shortcuts,
    /// The list of rules.
    Rules,
    /// The form of a new rule.
    NewRule,
    /// Forms that are filled in.
    Examples,
    /// Creates a rule.
    CreateRule,
    /// The form of a rule.
    Rule,
    /// Changes a rule.
    ChangeRule,
    /// The history of a rule.
    RuleHistory,
    /// The form to replay a trace with a rule.
    Replay,
    /// Replays a trace with a rule.
    RunReplay,
    /// The keys that were limited most.
    Top,
    /// Asks whether to delete a rule.
    ConfirmDelete,
    /// Deletes a rule.
    DeleteRule,
    Versions,
    /// Asks whether to roll back.
    ConfirmRollback,
    RollBack,
    /// Change sets, and differences of versions.
    Change(changes::ChangePage),
    /// The settings of an app.
    AppSettings,
    /// Changes the settings of an app.
    ChangeApp,
    Rollouts,
    /// The rollout of an app.
    Rollout,
    /// Pauses, resumes, advances or withdraws a rollout.
    ActOnRollout,
    /// A frozen app.
    Frozen,
    /// Decides about a frozen app.
    Thaw,
    /// One action for several rules.
    Bulk,
    File(files::FilePage),
    /// Another action of the page of a rule.
    RuleAct(rule_acts::RuleAct),
    Nodes,
    Node,
    /// Removes a node.
    RemoveNode,
    Users,
    /// Adds a user.
    CreateUser,
    User,
    /// Disables or enables a user.
    ChangeUser,
    /// Gives a user a role.
    Grant,
    /// Takes a role away.
    RemoveRole,
    /// Makes a one-time link.
    ResetPassword,
    /// The form of a one-time link.
    Link,
    /// Sets the password of a one-time link.
    RedeemLink,
    /// The account of the user.
    Me,
    /// Changes the visitor's own preferences.
    ChangeMe,
    /// Changes the password.
    ChangePassword,
    /// Ends a login.
    EndLogin,
    Tokens,
    /// Makes a token.
    CreateToken,
    /// Ends a token.
    RevokeToken,
    Settings,
    /// Changes the settings.
    ChangeSettings,
    Audit,
    /// The counters of a key.
    Keys,
    /// Keys of a domain.
    ScanKeys,
    /// Resets a key.
    ResetKey,
    /// Blocks and allowances.
    Overrides,
    /// Blocks or allows.
    CreateOverride,
    /// Ends a block or an allowance.
    EndOverride,
}

/// Every page: method, path, what it does.
pub(crate) static PAGES: &[(Method, &str, Page)] = &[
    (Method::GET, "/", Page::Home),
    (Method::GET, "/login", Page::Login),
    (Method::POST, "/login", Page::LogIn),
    (Method::POST, "/logout", Page::LogOut),
    (Method::GET, "/setup", Page::Setup),
    (Method::POST, "/setup", Page::SetUp),
    (Method::POST, "/preferences", Page::Prefer),
    (Method::GET, "/shortcuts", Page::Shortcuts),
    (Method::GET, "/rules", Page::Rules),
    (Method::GET, "/rules/new", Page::NewRule),
    (Method::POST, "/rules/new", Page::CreateRule),
    (Method::GET, "/examples", Page::Examples),
    (Method::GET, "/apps/{app}/rules/{key}", Page::Rule),
    (Method::POST, "/apps/{app}/rules/{key}", Page::ChangeRule),
    (Method::GET, "/apps/{app}/rules/{key}/history", Page::RuleHistory),
    (Method::GET, "/apps/{app}/rules/{key}/replay", Page::Replay),
    (Method::POST, "/apps/{app}/rules/{key}/replay", Page::RunReplay),
    (Method::GET, "/top", Page::Top),
    (Method::GET, "/apps/{app}/rules/{key}/delete", Page::ConfirmDelete),
    (Method::POST, "/apps/{app}/rules/{key}/delete", Page::DeleteRule),
    (Method::GET, "/versions", Page::Versions),
    (Method::GET, "/apps/{app}/versions", Page::Versions),
    (Method::GET, "/apps/{app}/versions/{version}/rollback", Page::ConfirmRollback),
    (Method::POST, "/apps/{app}/versions/{version}/rollback", Page::RollBack),
    (Method::GET, "/apps/{app}/settings", Page::AppSettings),
    (Method::POST, "/apps/{app}/settings", Page::ChangeApp),
    (Method::GET, "/rollouts", Page::Rollouts),
    (Method::GET, "/apps/{app}/rollout", Page::Rollout),
    (Method::POST, "/apps/{app}/rollout", Page::ActOnRollout),
    (Method::GET, "/apps/{app}/frozen", Page::Frozen),
    (Method::POST, "/apps/{app}/frozen", Page::Thaw),
    (Method::POST, "/rules/bulk", Page::Bulk),
    (Method::GET, "/files", Page::File(files::FilePage::List)),
    (Method::GET, "/files/new", Page::File(files::FilePage::New)),
    (Method::POST, "/files/new", Page::File(files::FilePage::Create)),
    (Method::GET, "/apps/{app}/files", Page::File(files::FilePage::List)),
    (Method::GET, "/apps/{app}/files/{domain}", Page::File(files::FilePage::Edit)),
    (Method::POST, "/apps/{app}/files/{domain}", Page::File(files::FilePage::Change)),
    (Method::POST, "/apps/{app}/rules/{key}/state", Page::RuleAct(rule_acts::RuleAct::State)),
    (Method::POST, "/apps/{app}/rules/{key}/trial", Page::RuleAct(rule_acts::RuleAct::Trial)),
    (Method::GET, "/apps/{app}/rules/{key}/yaml", Page::RuleAct(rule_acts::RuleAct::Yaml)),
    (Method::POST, "/apps/{app}/rules/{key}/yaml", Page::RuleAct(rule_acts::RuleAct::SaveYaml)),
    (Method::GET, "/changes", Page::Change(changes::ChangePage::List)),
    (Method::GET, "/changes/{id}", Page::Change(changes::ChangePage::Show)),
    (Method::POST, "/changes/{id}", Page::Change(changes::ChangePage::Act)),
    (Method::GET, "/apps/{app}/versions/diff", Page::Change(changes::ChangePage::Versions)),
    (Method::GET, "/apps/{app}/versions/{version}/diff", Page::Change(changes::ChangePage::Versions)),
    (Method::GET, "/nodes", Page::Nodes),
    (Method::GET, "/nodes/{id}", Page::Node),
    (Method::POST, "/nodes/{id}/remove", Page::RemoveNode),
    (Method::GET, "/users", Page::Users),
    (Method::POST, "/users", Page::CreateUser),
    (Method::GET, "/users/{name}", Page::User),
    (Method::POST, "/users/{name}/state", Page::ChangeUser),
    (Method::POST, "/users/{name}/roles", Page::Grant),
    (Method::POST, "/users/{name}/roles/remove", Page::RemoveRole),
    (Method::POST, "/users/{name}/link", Page::ResetPassword),
    (Method::GET, "/link", Page::Link),
    (Method::POST, "/link", Page::RedeemLink),
    (Method::GET, "/me", Page::Me),
    (Method::POST, "/me", Page::ChangeMe),
    (Method::POST, "/me/password", Page::ChangePassword),
    (Method::POST, "/me/logins/{id}/end", Page::EndLogin),
    (Method::GET, "/tokens", Page::Tokens),
    (Method::POST, "/tokens", Page::CreateToken),
    (Method::POST, "/tokens/{id}/revoke", Page::RevokeToken),
    (Method::GET, "/settings", Page::Settings),
    (Method::POST, "/settings", Page::ChangeSettings),
    (Method::GET, "/audit", Page::Audit),
    (Method::GET, "/keys", Page::Keys),
    (Method::GET, "/keys/scan", Page::ScanKeys),
    (Method::POST, "/keys/reset", Page::ResetKey),
    (Method::GET, "/overrides", Page::Overrides),
    (Method::POST, "/overrides", Page::CreateOverride),
    (Method::POST, "/overrides/{id}/end", Page::EndOverride),
];

pub(crate) async fn answer(console: &Console, page: Page, visit: &Visit) -> Result<Reply, Failure> {
    match page {
        Page::Home => overview::show(console, visit).await,
        Page::RuleHistory => rule_history::show(console, visit).await,
        Page::Replay => replay::show(console, visit).await,
        Page::RunReplay => replay::run(console, visit).await,
        Page::Top => top::list(console, visit).await,
        Page::Login => access::login(console, visit).await,
        Page::LogIn => access::log_in(console, visit).await,
        Page::LogOut => access::log_out(console, visit).await,
        Page::Setup => access::setup(console, visit).await,
        Page::SetUp => access::set_up(console, visit).await,
        Page::Prefer => access::prefer(console, visit).await,
        Page::Shortcuts => shortcuts::show(visit),
        Page::Rules => rules::list(console, visit).await,
        Page::NewRule => rule_form::new(console, visit).await,
        Page::Examples => examples::list(visit),
        Page::CreateRule => rule_form::create(console, visit).await,
        Page::Rule => rule_form::edit(console, visit).await,
        Page::ChangeRule => rule_form::change(console, visit).await,
        Page::ConfirmDelete => confirm::ask_delete(console, visit, None).await,
        Page::DeleteRule => confirm::delete(console, visit).await,
        Page::Versions => versions::list(console, visit).await,
        Page::ConfirmRollback => confirm::ask_rollback(console, visit, None).await,
        Page::RollBack => confirm::roll_back(console, visit).await,
        Page::Change(asked) => changes::answer(console, asked, visit).await,
        Page::AppSettings => app_settings::show(console, visit).await,
        Page::ChangeApp => app_settings::save(console, visit).await,
        Page::Rollouts => rollouts::list(console, visit).await,
        Page::Rollout => rollouts::show(console, visit).await,
        Page::ActOnRollout => rollouts::act(console, visit).await,
        Page::Frozen => frozen::show(console, visit, None).await,
        Page::Thaw => frozen::decide(console, visit).await,
        Page::Bulk => bulk::act(console, visit).await,
        Page::File(asked) => files::answer(console, asked, visit).await,
        Page::RuleAct(act) => rule_acts::answer(console, act, visit).await,
        Page::Nodes => nodes::list(console, visit).await,
        Page::Node => nodes::one(console, visit).await,
        Page::RemoveNode => nodes::remove(console, visit).await,
        Page::Users => users::list(console, visit).await,
        Page::CreateUser => users::create(console, visit).await,
        Page::User => users::one(console, visit).await,
        Page::ChangeUser => users::change(console, visit).await,
        Page::Grant => users::grant(console, visit).await,
        Page::RemoveRole => users::remove_role(console, visit).await,
        Page::ResetPassword => users::reset(console, visit).await,
        Page::Link => access::link(console, visit).await,
        Page::RedeemLink => access::redeem_link(console, visit).await,
        Page::Me => account::show(console, visit).await,
        Page::ChangeMe => account::change(console, visit).await,
        Page::ChangePassword => account::change_password(console, visit).await,
        Page::EndLogin => account::end_login(console, visit).await,
        Page::Tokens => tokens::list(console, visit).await,
        Page::CreateToken => tokens::create(console, visit).await,
        Page::RevokeToken => tokens::revoke(console, visit).await,
        Page::Settings => settings::show(console, visit).await,
        Page::ChangeSettings => settings::change(console, visit).await,
        Page::Audit => audit::list(console, visit).await,
        Page::Keys => keys::look_up(console, visit).await,
        Page::ScanKeys => key_list::show(console, visit).await,
        Page::ResetKey => keys::reset(console, visit).await,
        Page::Overrides => overrides::list(console, visit, &[]).await,
        Page::CreateOverride => overrides::create(console, visit).await,
        Page::EndOverride => overrides::end(console, visit).await,
    }
}
