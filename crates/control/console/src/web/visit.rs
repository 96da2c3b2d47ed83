//! One request as pages and API read it: owned, with its body, its cookies and its preferences.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{
    ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderValue, IF_MATCH,
    LOCATION, TRANSFER_ENCODING, USER_AGENT,
};
use hyper::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tollgate_control::transfer::MAX_IMPORT;
use tollgate_control::{Claim, ControlError, Origin, Preferences, Role, Who};
use tollgate_http_kit::{Reply, Request, query::parameters};
use tollgate_net::Presence;

use super::failure::Failure;
use crate::settings::ConsoleSettings;
use crate::texts::Lang;

/// Largest body of a form or of JSON.
const MAX_BODY: usize = 1024 * 1024;

/// Largest body of those who are not logged in.
const MAX_ANONYMOUS: usize = 64 * 1024;

/// Most fields of a form.
const MAX_FIELDS: usize = 200;

/// One HTTP request.
pub(crate) struct Visit {
    /// Path and query.
    pub(crate) target: String,
    method: Method,
    path: String,
    /// The query, decoded.
    query: Vec<(String, String)>,
    /// The form that was posted, decoded.
    form: Vec<(String, String)>,
    pub(crate) body: Bytes,
    pub(crate) is_safe: bool,
    pub(crate) is_api: bool,
    pub(crate) if_match: Option<String>,
    pub(crate) accepts_gzip: bool,
    /// The id of the last event that a reader has seen.
    pub(crate) last_event: Option<String>,
    pub(crate) request_id: String,
    pub(crate) ip: String,
    /// The name of this server as the client knows it.
    pub(crate) host: String,
    /// The browser or program, as it names itself.
    pub(crate) agent: String,
    /// The secret of the login.
    pub(crate) cookie: Option<String>,
    /// The token of `Authorization`, empty when that holds something else. Cookies do not count then.
    pub(crate) bearer: Option<String>,
    /// Resolved in each transaction; there is none without a valid login or token.
    claim: Option<Claim>,
    /// Who it was as the request began, for what pages show.
    pub(crate) who: Option<Who>,
    /// Whether its client is still there.
    pub(crate) presence: Option<Arc<Presence>>,
    /// Change sets that are neither published nor given up, for the menu.
    pub(crate) open_changes: i64,
    /// The disk has room for changes only.
    pub(crate) is_disk_low: bool,
    pub(crate) lang: Lang,
    pub(crate) theme: &'static str,
    pub(crate) has_shortcuts: bool,
    /// The paths that links may lead to.
    pub(crate) screens: &'static [&'static str],
    pub(crate) zone: TimeZone,
}

impl Visit {
    /// Reads a request with its body. `name` is that of the login cookie.
    pub(crate) fn new(
        request: &Request<'_>,
        request_id: String,
        name: &str,
        settings: &ConsoleSettings,
    ) -> Self {
        let fields = request.headers();
        let path = request.path().to_owned();
        let target = match request.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.clone(),
        };
        let is_api = path.starts_with("/api/") || path == "/openapi.json";
        let zone =
            cookie_of(fields, "zone").and_then(|it| zone_of(&it)).unwrap_or_else(|| settings.zone.clone());
        let theme = match cookie_of(fields, "theme").as_deref() {
            Some("light") => "light",
            Some("dark") => "dark",
            _ => "",
        };
        Self {
            target,
            query: pairs(request.query().unwrap_or_default()),
            form: Vec::new(),
            body: Bytes::new(),
            is_safe: matches!(*request.method(), Method::GET | Method::HEAD),
            is_api,
            accepts_gzip: crate::assets::accepts_gzip(fields),
            last_event: fields.get("last-event-id").and_then(|it| it.to_str().ok()).map(str::to_owned),
            if_match: fields.get(IF_MATCH).and_then(|it| it.to_str().ok()).map(str::to_owned),
            request_id,
            ip: settings.client_of(request),
            host: fields.get(HOST).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned(),
            agent: fields.get(USER_AGENT).and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned(),
            cookie: cookie_of(fields, name),
            bearer: bearer(fields),
            claim: None,
            who: None,
            presence: None,
            open_changes: 0,
            is_disk_low: false,
            lang: lang(fields),
            theme,
            has_shortcuts: cookie_of(fields, "shortcuts").as_deref() != Some("off"),
            screens: &[],
            zone,
            method: request.method().clone(),
            path,
        }
    }

    /// The longest body that is read. Those who are not logged in send names, passwords and codes, and take
    /// no more memory than that; nor do those who have no role where they want to change something.
    ///
    /// # Errors
    /// [`ControlError::NoRight`] for an import of somebody without any role.
    pub(crate) fn longest_body(&self) -> Result<usize, Failure> {
        let Some(actor) = &self.who else { return Ok(MAX_ANONYMOUS) };
        let has_role = match self.app() {
            Some(app) => actor.may(Role::Viewer, &app),
            None => actor.roles.iter().any(|(_, role)| *role >= Role::Viewer),
        };
        match (self.is_import(), has_role) {
            (true, false) => Err(ControlError::NoRight { need: Role::Viewer, app: "*".to_owned() }.into()),
            (true, true) => Ok(MAX_IMPORT),
            (false, true) => Ok(MAX_BODY),
            (false, false) => Ok(MAX_ANONYMOUS),
        }
    }

    /// The part of `max` that the body takes, as far as its head says.
    pub(crate) fn body_bytes(&self, request: &Request<'_>, max: usize) -> usize {
        let length = request.headers().get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
        match length.and_then(|it| it.parse::<usize>().ok()) {
            Some(length) => length.min(max),
            None if request.headers().contains_key(TRANSFER_ENCODING) => max,
            None => 0,
        }
    }

    /// Whose share of what all visitors share it takes.
    pub(crate) fn user(&self) -> Option<String> {
        self.who.as_ref().map(|it| it.user_id.clone())
    }

    /// Whether the visitor may have the reserve: an editor of every app finds a place also when others have
    /// taken theirs.
    pub(crate) fn is_operator(&self) -> bool {
        self.who.as_ref().is_some_and(|it| it.may_everywhere(Role::Editor))
    }

    /// Ends when the client has left.
    pub(crate) async fn left(&self) {
        match &self.presence {
            Some(presence) => std::future::poll_fn(|cx| presence.poll_left(cx)).await,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Reads the body, and the form in it.
    pub(crate) async fn read_body(&mut self, request: &mut Request<'_>, max: usize) -> Result<(), Failure> {
        let is_form = {
            let value = request.headers().get(CONTENT_TYPE);
            let value = value.map(|it| it.as_bytes().to_ascii_lowercase()).unwrap_or_default();
            value.starts_with(b"application/x-www-form-urlencoded")
        };
        self.body = request.body(max).await.map_err(Failure::Body)?;
        if self.is_api || self.body.is_empty() {
            return Ok(());
        }
        if !is_form {
            return Err(Failure::Bad("expected a form".to_owned()));
        }
        let text = std::str::from_utf8(&self.body).map_err(|_| Failure::Bad("expected a form".to_owned()))?;
        for parameter in parameters(text) {
            let (name, value) = parameter.map_err(|problem| Failure::Bad(problem.detail))?;
            if self.form.len() == MAX_FIELDS || self.form.iter().any(|(known, _)| *known == name) {
                return Err(Failure::Bad("duplicate or too many fields".to_owned()));
            }
            self.form.push((name.into_owned(), value.into_owned()));
        }
        Ok(())
    }

    /// Whether its body may be large.
    pub(crate) fn is_import(&self) -> bool {
        self.path == "/api/v1/import"
    }

    /// A field of the form; empty when it was not sent.
    pub(crate) fn field(&self, name: &str) -> &str {
        value(&self.form, name)
    }

    /// A field of the form, if it was sent.
    pub(crate) fn sent_field(&self, name: &str) -> Option<&str> {
        self.form.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// A parameter of the query; empty when there is none.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        value(&self.query, name)
    }

    /// Every value of a parameter of the query.
    pub(crate) fn parameters(&self, name: &str) -> Vec<String> {
        let of_name = self.query.iter().filter(|(known, _)| known == name);
        of_name.map(|(_, value)| value.clone()).collect()
    }

    /// Every field of the form whose name begins with `prefix`: the rest of its name, and its value.
    pub(crate) fn fields(&self, prefix: &str) -> Vec<(&str, &str)> {
        self.form.iter().filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, &**value))).collect()
    }

    /// A whole number of the query.
    pub(crate) fn number(&self, name: &str, default: i64) -> i64 {
        self.parameter(name).parse().unwrap_or(default)
    }

    /// A segment of the path, decoded; empty when there is none.
    pub(crate) fn segment(&self, index: usize) -> String {
        let segment = self.path.split('/').nth(index + 1).unwrap_or_default();
        percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
    }

    /// The claim, which each transaction resolves to an actor.
    pub(crate) fn claim(&self) -> Result<Claim, Failure> {
        self.claim.clone().ok_or(Failure::NoLogin)
    }

    /// Who it was as the request began: for buttons and names, never for what is read or changed.
    pub(crate) fn who(&self) -> Result<&Who, Failure> {
        self.who.as_ref().ok_or(Failure::NoLogin)
    }

    /// The claim was valid as the request began.
    pub(crate) fn entered(&mut self, claim: Claim, who: Who) {
        (self.claim, self.who) = (Some(claim), Some(who));
    }

    /// Method and path; without the query, which may hold a code.
    pub(crate) fn operation(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub(crate) fn path_in_lower_case(&self) -> String {
        self.path.to_ascii_lowercase()
    }

    /// The app that the path names.
    pub(crate) fn app(&self) -> Option<String> {
        let is_app = |index| self.segment(index) == "apps";
        let index = [0, 2].into_iter().find(|index| is_app(*index))? + 1;
        tollgate_control::fields::app_name(&self.segment(index)).ok()
    }

    /// Where it comes from.
    pub(crate) fn origin(&self) -> Origin<'_> {
        Origin { ip: &self.ip, agent: &self.agent, request_id: &self.request_id }
    }

    /// Puts what the user chose before what the browser prefers.
    pub(crate) fn prefer(&mut self, preferences: &Preferences) {
        match &*preferences.locale {
            "zh" => self.lang = Lang::Zh,
            "en" => self.lang = Lang::En,
            _ => {}
        }
        match &*preferences.theme {
            "light" => self.theme = "light",
            "dark" => self.theme = "dark",
            _ => {}
        }
        if let Some(zone) = zone_of(&preferences.zone) {
            self.zone = zone;
        }
    }

    /// The milliseconds of a time that was entered in the reader's zone; `None` if it is not a time.
    pub(crate) fn instant(&self, text: &str) -> Option<i64> {
        let text = text.trim().replace('T', " ");
        let read = |format| jiff::civil::DateTime::strptime(format, &text).ok();
        let at = read("%Y-%m-%d %H:%M:%S").or_else(|| read("%Y-%m-%d %H:%M"));
        let at = at.or_else(|| Some(jiff::civil::Date::strptime("%Y-%m-%d", &text).ok()?.at(0, 0, 0, 0)))?;
        Some(at.to_zoned(self.zone.clone()).ok()?.timestamp().as_millisecond())
    }

    /// A time as `2018-04-23 22:41:24` in the reader's zone.
    pub(crate) fn time(&self, ms: i64) -> String {
        self.time_as(ms, "%Y-%m-%d %H:%M:%S")
    }

    /// A time in this form in the reader's zone.
    pub(crate) fn time_as(&self, ms: i64, form: &str) -> String {
        let Ok(at) = Timestamp::from_millisecond(ms) else { return String::new() };
        at.to_zoned(self.zone.clone()).strftime(form).to_string()
    }
}

impl tollgate_api::query::Query for Visit {
    fn parameter(&self, name: &str) -> &str {
        self.parameter(name)
    }

    fn parameters(&self, name: &str) -> Vec<String> {
        self.parameters(name)
    }
}

fn value<'v>(pairs: &'v [(String, String)], name: &str) -> &'v str {
    pairs.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// The decodable pairs of a query; a page ignores the others.
fn pairs(query: &str) -> Vec<(String, String)> {
    let pairs = parameters(query).take(MAX_FIELDS).filter_map(Result::ok);
    pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// The time zone of this name.
pub(crate) fn zone_of(name: &str) -> Option<TimeZone> {
    if name.is_empty() || name.len() > 64 { None } else { TimeZone::get(name).ok() }
}

/// The text after `Bearer`; `None` without the field.
fn bearer(fields: &HeaderMap) -> Option<String> {
    let mut values = fields.get_all(AUTHORIZATION).iter();
    let value = values.next()?;
    let value = if values.next().is_none() { value.to_str().unwrap_or_default() } else { "" };
    let (scheme, token) = value.split_once(' ').unwrap_or_default();
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    Some(if is_bearer { token.trim().to_owned() } else { String::new() })
}

fn cookie_of(fields: &HeaderMap, name: &str) -> Option<String> {
    let cookies = fields.get_all(COOKIE).iter().filter_map(|it| it.to_str().ok());
    let mut pairs = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
}

/// By cookie, then by what the browser prefers.
fn lang(fields: &HeaderMap) -> Lang {
    match cookie_of(fields, "lang").as_deref() {
        Some("zh") => return Lang::Zh,
        Some("en") => return Lang::En,
        _ => {}
    }
    let accepted = fields.get(ACCEPT_LANGUAGE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let known = accepted.split(',').map(str::trim).find(|it| it.starts_with("zh") || it.starts_with("en"));
    if known.is_some_and(|it| it.starts_with("zh")) { Lang::Zh } else { Lang::En }
}

/// A cookie that only this server reads. `max_age_s` 0 removes it.
pub(crate) fn make_cookie(name: &str, value: &str, max_age_s: i64, is_secure: bool) -> Option<HeaderValue> {
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(text).ok()
}

/// 303 to a place of this server.
pub(crate) fn redirect(target: &str) -> Reply {
    let mut reply = Reply::default();
    *reply.status_mut() = StatusCode::SEE_OTHER;
    let target = HeaderValue::try_from(target).unwrap_or_else(|_| HeaderValue::from_static("/"));
    reply.headers_mut().insert(LOCATION, target);
    reply
}

/// A query of these parameters; empty ones are left out.
pub(crate) fn query_of(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut target = path.to_owned();
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        let separator = if target.contains('?') { '&' } else { '?' };
        target.push(separator);
        target.push_str(name);
        target.push('=');
        target.push_str(&encoded(value));
    }
    target
}

/// Percent-encoded for any part of a URL.
pub(crate) fn encoded(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const OTHERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
    utf8_percent_encode(text, OTHERS).to_string()
}
