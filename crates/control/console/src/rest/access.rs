//! Access: the user itself, users, tokens, the audit, settings.

mod audit;
mod me;
mod settings;
mod tokens;
mod users;

use tollgate_api::AccessCall;
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::web::{Failure, Visit};

use AccessCall as C;

pub(super) async fn answer(console: &Console, call: AccessCall, visit: &Visit) -> Result<Reply, Failure> {
    match call {
        C::SetUp => me::set_up(console, visit).await,
        C::RedeemLink => me::redeem_link(console, visit).await,
        C::Me => me::get(console, visit).await,
        C::ChangeMe => me::change(console, visit).await,
        C::ChangePassword => me::change_password(console, visit).await,
        C::MyLogins => me::logins(console, visit).await,
        C::EndLogin => me::end_login(console, visit).await,
        C::Users => users::list(console, visit).await,
        C::CreateUser => users::create(console, visit).await,
        C::User => users::get(console, visit).await,
        C::ChangeUser => users::change(console, visit).await,
        C::SetRole => users::set_role(console, visit).await,
        C::RemoveRole => users::remove_role(console, visit).await,
        C::ResetPassword => users::reset(console, visit).await,
        C::Roles => users::roles(visit),
        C::Tokens => tokens::list(console, visit).await,
        C::CreateToken => tokens::create(console, visit).await,
        C::Token => tokens::get(console, visit).await,
        C::RevokeToken => tokens::revoke(console, visit).await,
        C::Audit => audit::list(console, visit).await,
        C::ExportAudit => audit::export(console, visit).await,
        C::Chain => audit::chain(console, visit).await,
        C::Settings => settings::get(console, visit).await,
        C::ChangeSettings => settings::change(console, visit).await,
    }
}
