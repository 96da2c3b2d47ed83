//! Login, logout, first setup, language and theme.

use askama::Template;
use hyper::StatusCode;
use hyper::header::{HeaderValue, SET_COOKIE};
use tollgate_control::{ControlError, FieldFault, Held, links, logins::LONGEST_MS, me, setup};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::field::Field;
use crate::frame::{Frame, page};
use crate::texts;
use crate::web::{Failure, Visit, make_cookie, query_of, redirect};

/// Language and theme are remembered for a year.
const YEAR_S: i64 = 365 * 24 * 3_600;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    f: Frame,
    action: String,
    about: &'static str,
    fault: Option<String>,
    inputs: Vec<Field>,
    button: &'static str,
}

pub(super) async fn login(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    if visit.who.is_some() {
        return Ok(redirect("/rules"));
    }
    if console.control.read(setup::is_open).await? {
        return Ok(redirect("/setup"));
    }
    login_page(visit, StatusCode::OK, None)
}

fn login_page(visit: &Visit, status: StatusCode, fault: Option<String>) -> Result<Reply, Failure> {
    let t = visit.lang.texts();
    let mut name = Field::text("name", t.user_name, "", visit.field("name")).required();
    name.autocomplete = "username";
    let password = Field::text("password", t.password, "", "").required().secret("current-password");
    let login = LoginPage {
        f: Frame::new(visit, "", t.login),
        action: query_of("/login", &[("back", visit.parameter("back"))]),
        about: "",
        fault,
        inputs: vec![name, password],
        button: t.login,
    };
    page(status, &login)
}

pub(super) async fn log_in(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let logged_in =
        console.control.log_in(visit.origin(), visit.field("name"), visit.field("password")).await;
    match logged_in {
        Ok(secret) => Ok(with_login(console, redirect(place(visit.parameter("back"))), &secret)),
        Err(ControlError::WrongLogin) => {
            let fault = visit.lang.texts().wrong_login.to_owned();
            login_page(visit, StatusCode::UNAUTHORIZED, Some(fault))
        }
        Err(ControlError::TooMany { seconds }) => {
            let mut reply =
                login_page(visit, StatusCode::TOO_MANY_REQUESTS, Some(visit.lang.too_many(seconds)))?;
            reply.headers_mut().insert("retry-after", HeaderValue::from(seconds));
            Ok(reply)
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn log_out(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    if let (Ok(claim), Some(secret)) = (visit.claim(), &visit.cookie) {
        console.control.log_out(&claim, secret).await?;
    }
    let mut reply = redirect("/login");
    add_cookie(&mut reply, make_cookie(console.cookie_name(), "", 0, console.settings.is_secure));
    Ok(reply)
}

pub(super) async fn setup(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    if !console.control.read(setup::is_open).await? {
        return Ok(redirect("/login"));
    }
    setup_page(visit, StatusCode::OK, None, &[])
}

fn setup_page(
    visit: &Visit,
    status: StatusCode,
    fault: Option<String>,
    faults: &[FieldFault],
) -> Result<Reply, Failure> {
    let t = visit.lang.texts();
    let lang = visit.lang;
    let code = if visit.is_safe { visit.parameter("code") } else { visit.field("code") };
    let mut name = Field::text("name", t.user_name, "", visit.field("name")).required();
    name.autocomplete = "username";
    let password = Field::text("password", t.password, t.password_hint, "").required();
    let again = Field::text("again", t.password_again, "", "").required();
    let inputs = vec![
        Field::text("code", t.code, "", code).required().mono(),
        name,
        password.secret("new-password"),
        again.secret("new-password"),
    ];
    let inputs = inputs.into_iter().map(|it| it.faulted(lang, faults)).collect();
    let f = Frame::new(visit, "", t.setup);
    let setup = LoginPage {
        f,
        action: "/setup".to_owned(),
        about: t.setup_about,
        fault,
        inputs,
        button: t.create_admin,
    };
    page(status, &setup)
}

pub(super) async fn set_up(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let field = |name| visit.field(name);
    let made = console.control.set_up(
        visit.origin(),
        field("code").trim(),
        field("name"),
        field("password"),
        field("again"),
    );
    match made.await {
        Ok(secret) => Ok(with_login(console, redirect("/rules"), &secret)),
        Err(ControlError::Invalid(faults)) => {
            setup_page(visit, StatusCode::UNPROCESSABLE_ENTITY, None, &faults)
        }
        Err(ControlError::WrongCode) => {
            setup_page(visit, StatusCode::FORBIDDEN, Some(visit.lang.texts().wrong_code.to_owned()), &[])
        }
        Err(error) => Err(error.into()),
    }
}

/// The form of a one-time link.
pub(super) async fn link(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let code = visit.parameter("code").to_owned();
    let read = console.control.read(move |tx| {
        let user = links::user_of(tx, &code)?;
        Ok((links::has_tokens(tx, &user)?, user.name))
    });
    match read.await {
        Ok((asks, name)) => link_page(visit, StatusCode::OK, &name, asks, None, &[]),
        Err(error) => no_link(visit, error),
    }
}

/// Whether the tokens of the API end with the old password.
pub(super) fn tokens_field(visit: &Visit) -> Field {
    let a = texts::access::Texts::of(visit.lang);
    let options = [("keep", a.keep_tokens), ("end", a.end_tokens)];
    Field::text("tokens", a.my_tokens, a.my_tokens_hint, visit.field("tokens")).of(&options)
}

/// The field about them.
pub(super) fn held_by(visit: &Visit) -> Held {
    if visit.field("tokens") == "end" { Held::Ended } else { Held::Kept }
}

fn no_link(visit: &Visit, error: ControlError) -> Result<Reply, Failure> {
    let ControlError::WrongLink = error else { return Err(error.into()) };
    let fault = texts::access::Texts::of(visit.lang).wrong_link.to_owned();
    link_page(visit, StatusCode::FORBIDDEN, "", false, Some(fault), &[])
}

fn link_page(
    visit: &Visit,
    status: StatusCode,
    user: &str,
    asks_about_tokens: bool,
    fault: Option<String>,
    faults: &[FieldFault],
) -> Result<Reply, Failure> {
    let t = visit.lang.texts();
    let a = texts::access::Texts::of(visit.lang);
    let code = if visit.is_safe { visit.parameter("code") } else { visit.field("code") };
    let password = Field::text("password", a.new_password, t.password_hint, "").required();
    let again = Field::text("again", t.password_again, "", "").required();
    let mut name = Field::text("name", t.user_name, "", user).fixed(true);
    name.autocomplete = "username";
    let mut inputs = vec![
        Field::text("code", a.link_title, "", code).required().mono(),
        name,
        password.secret("new-password"),
        again.secret("new-password"),
    ];
    if asks_about_tokens {
        inputs.push(tokens_field(visit));
    }
    let inputs = inputs.into_iter().map(|it| it.faulted(visit.lang, faults)).collect();
    let f = Frame::new(visit, "", a.choose_password);
    let action = "/link".to_owned();
    page(status, &LoginPage { f, action, about: "", fault, inputs, button: a.choose_password })
}

pub(super) async fn redeem_link(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let field = |name| visit.field(name);
    let code = field("code").trim();
    let password = field("password");
    let again = field("again");
    match console.control.redeem_link(visit.origin(), code, password, again, held_by(visit)).await {
        Ok(secret) => Ok(with_login(console, redirect("/rules"), &secret)),
        Err(ControlError::Invalid(faults)) => {
            let name = field("name");
            let asks = visit.sent_field("tokens").is_some();
            link_page(visit, StatusCode::UNPROCESSABLE_ENTITY, name, asks, None, &faults)
        }
        Err(error) => no_link(visit, error),
    }
}

/// Language and theme: as cookies for this browser, and with the user.
pub(super) async fn prefer(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    if let Ok(claim) = visit.claim() {
        let chosen = |name: &str| visit.sent_field(name).map(str::to_owned);
        let locale = chosen("lang");
        let theme = chosen("theme");
        let changed = console.control.commit_as(&claim, move |tx, actor| {
            let mut new = me::get(tx, actor)?.preferences;
            if let Some(locale) = &locale {
                new.locale.clone_from(locale);
            }
            if let Some(theme) = &theme {
                new.theme.clone_from(theme);
            }
            me::prefer(tx, actor, None, &new, |_| true)
        });
        changed.await?;
    }
    let mut reply = redirect(place(visit.field("back")));
    // An empty value or `on` is the default, which needs no cookie.
    for (name, allowed) in
        [("lang", &["zh", "en"][..]), ("theme", &["light", "dark", ""]), ("shortcuts", &["off", "on"])]
    {
        let Some(value) = visit.sent_field(name).filter(|it| allowed.contains(it)) else { continue };
        let kept = if matches!(value, "" | "on") { ("", 0) } else { (value, YEAR_S) };
        add_cookie(&mut reply, make_cookie(name, kept.0, kept.1, console.settings.is_secure));
    }
    Ok(reply)
}

/// A reply that carries the cookie of a login.
pub(crate) fn with_login(console: &Console, mut reply: Reply, secret: &str) -> Reply {
    let cookie = make_cookie(console.cookie_name(), secret, LONGEST_MS / 1_000, console.settings.is_secure);
    add_cookie(&mut reply, cookie);
    reply
}

fn add_cookie(reply: &mut Reply, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        reply.headers_mut().append(SET_COOKIE, cookie);
    }
}

/// A path of this server, whatever a form says.
fn place(back: &str) -> &str {
    let is_ours = back.starts_with('/')
        && !back.starts_with("//")
        && !back.contains(|it: char| it == '\\' || it.is_control()) // browsers skip a tab
        && back.len() <= 2_000;
    if is_ours { back } else { "/rules" }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn a_login_leads_to_our_own_pages_only() {
        for (back, want) in [
            ("/nodes", "/nodes"),
            ("/rules?page=2", "/rules?page=2"),
            ("", "/rules"),
            ("//evil.example", "/rules"),
            ("/\\evil.example", "/rules"),
            ("https://evil.example", "/rules"),
            ("/\t/evil.example", "/rules"),
            ("/a\r\nSet-Cookie: x=y", "/rules"),
        ] {
            assert_eq!(place(back), want, "{back:?}");
        }
    }
}
