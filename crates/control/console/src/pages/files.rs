//! Rule files: the list, and the editor with its faults by line, a sample request, and what nodes get.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::changes::{ChangeInput, OpInput};
use tollgate_control::file_rules::{self, FileInput, StoredFile};
use tollgate_control::publishing;
use tollgate_control::{Content, ControlError, DocFault, NodeState, Role, RuleKind, apps, rules};
use tollgate_http_kit::Reply;

use super::change_forms::{after, intent_of};
use super::hrefs::file_href;
use super::rules::state_text;
use super::table::{TablePage, cell};
use crate::console::Console;
use crate::explaining::explain_text;
use crate::field::Field;
use crate::frame::{Frame, live, page};
use crate::texts::files::Texts;
use crate::texts::{changes, grouped};
use crate::web::{Failure, Visit, encoded, query_of};

/// A page of rule files.
#[derive(Clone, Copy, Debug)]
pub enum FilePage {
    /// Those of all apps, or of one.
    List,
    /// The editor of a new one.
    New,
    /// Checks or creates one.
    Create,
    /// The editor of one.
    Edit,
    /// Checks, changes or deletes one.
    Change,
}

pub(super) async fn answer(console: &Console, asked: FilePage, visit: &Visit) -> Result<Reply, Failure> {
    match asked {
        FilePage::List => list(console, visit).await,
        FilePage::New => new(console, visit).await,
        FilePage::Create | FilePage::Change => save(console, visit).await,
        FilePage::Edit => edit(console, visit).await,
    }
}

async fn list(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let l = Texts::of(visit.lang);
    let app = if visit.segment(0) == "apps" { visit.segment(1) } else { String::new() };
    let asked = app.clone();
    let files = console.control.read_as(&claim, move |tx, actor| file_rules::list(tx, actor, &asked)).await?;
    let title = if app.is_empty() { l.title.to_owned() } else { format!("{app} · {}", l.title) };
    let mut list = TablePage::new(Frame::new(visit, "files", title), format!("{} / {}", t.limits, l.title));
    list.lead = l.about;
    let create = query_of("/files/new", &[("app", &app)]);
    list.create = rules::may_create(visit.who()?).then_some((l.new, create));
    list.empty = (l.empty, l.empty_text, String::new());
    list.head = vec![
        (t.app, false),
        (l.domain, false),
        (t.state, false),
        (l.lines, true),
        (t.description, false),
        (t.time, false),
    ];
    for it in &files {
        let file = &it.file;
        list.rows.push(vec![
            cell(&it.app).href(format!("/apps/{}/files", encoded(&it.app))),
            cell(&file.domain).href(file_href(&it.app, &file.domain)),
            cell(state_text(visit.lang, &file.state)).tag(if file.state == "on" {
                "tag on"
            } else {
                "tag off"
            }),
            cell(grouped(i64::try_from(file.text.lines().count()).unwrap_or(i64::MAX))).class("n"),
            cell(&file.description).class("text"),
            cell(visit.time(it.updated_at)).class("time").title(&it.updated_by),
        ]);
    }
    page(StatusCode::OK, &list)
}

#[derive(Template)]
#[template(path = "file.html")]
struct EditorPage {
    f: Frame,
    l: &'static Texts,
    c: &'static changes::Texts,
    list_href: &'static str,
    app: String,
    domain: String,
    live: Option<(&'static str, String)>,
    notice: Option<(&'static str, String)>,
    action: String,
    etag: Option<i64>,
    inputs: Vec<Field>,
    text: String,
    /// Whether each line has a fault.
    lines: Vec<bool>,
    faults: Vec<(u32, String)>,
    text_fault: Option<String>,
    sample: String,
    sample_fault: Option<&'static str>,
    explanation: Option<String>,
    may_edit: bool,
    apps: Vec<String>,
    preview: Vec<(String, String)>,
}

/// Results beside the input of the editor.
#[derive(Default)]
struct Shown {
    status: StatusCode,
    notice: Option<(&'static str, String)>,
    faults: Vec<DocFault>,
    invalid: Vec<tollgate_control::FieldFault>,
    explanation: Option<String>,
    sample_fault: Option<&'static str>,
}

async fn new(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let text = super::examples::file(visit.parameter("example")).map(str::to_owned);
    let text = super::examples::queue_of(visit).or(text);
    let text = text.unwrap_or_else(|| Texts::of(visit.lang).template.to_owned());
    let input = FileInput { text, ..FileInput::default() };
    show(console, visit, visit.parameter("app"), None, &input, Shown::default()).await
}

async fn edit(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let found = current(console, visit).await?;
    let file = found.file.clone();
    let input =
        FileInput { domain: file.domain, text: file.text, description: file.description, state: file.state };
    let mut shown = Shown::default();
    let app = visit.parameter("saved");
    let version = visit.number("version", 0);
    if app == found.app && (1..=found.version).contains(&version) {
        shown.notice = Some(("ok", changes::Texts::of(visit.lang).saved.to_owned()));
    }
    show(console, visit, &found.app.clone(), Some(&found), &input, shown).await
}

async fn current(console: &Console, visit: &Visit) -> Result<StoredFile, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let domain = visit.segment(3);
    Ok(console.control.read_as(&claim, move |tx, actor| file_rules::get(tx, actor, &app, &domain)).await?)
}

/// A new file has its app in the form; one that is there, in the path.
async fn save(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    visit.claim()?;
    let is_new = visit.segment(0) == "files";
    let found = if is_new { None } else { Some(current(console, visit).await?) };
    if let Some(found) = found.as_ref().filter(|_| visit.field("action") != "check") {
        console.must(visit, Role::Editor, &found.app).await?; // before the faults of what was entered
    }
    let app = found.as_ref().map_or_else(|| visit.field("app").to_owned(), |it| it.app.clone());
    // A text area sends CR LF; files have LF.
    let text = visit.field("text").replace("\r\n", "\n");
    let domain = found.as_ref().map_or_else(String::new, |it| it.file.domain.clone());
    let description = visit.field("description").to_owned();
    let state = visit.field("state").to_owned();
    let input = FileInput { domain, text, description, state };
    let action = visit.field("action");
    let mut shown = Shown { status: StatusCode::UNPROCESSABLE_ENTITY, ..Shown::default() };
    let file = match input.check() {
        Ok(file) => Some(file),
        Err(_) if action == "delete" => None,
        Err(ControlError::Faulty(faults)) => {
            return show(console, visit, &app, found.as_ref(), &input, Shown { faults, ..shown }).await;
        }
        Err(ControlError::Invalid(invalid)) => {
            return show(console, visit, &app, found.as_ref(), &input, Shown { invalid, ..shown }).await;
        }
        Err(error) => return Err(error.into()),
    };
    if action == "check" {
        shown.status = StatusCode::OK;
        shown.notice = Some(("ok", Texts::of(visit.lang).is_valid.to_owned()));
        let sample = visit.field("sample");
        let domain = file.map(|it| it.domain).unwrap_or_default();
        if !sample.trim().is_empty() {
            match explain_text(&input.text, &domain, sample) {
                Ok(text) => shown.explanation = Some(text),
                Err(_) => shown.sample_fault = Some(Texts::of(visit.lang).sample_fault),
            }
        }
        return show(console, visit, &app, found.as_ref(), &input, shown).await;
    }
    let base = if is_new { None } else { Some(visit.field("etag").parse().map_err(|_| Failure::NoMatch)?) };
    let after_content = if action == "delete" { None } else { file.map(Content::File) };
    let key = after_content.as_ref().map_or(&*input.domain, Content::key).to_owned();
    let op = OpInput { kind: RuleKind::File, key: key.clone(), base, after: after_content };
    if base.is_some() && base != found.as_ref().map(|it| it.etag) {
        let notice = Some(("warn", Texts::of(visit.lang).stale.to_owned()));
        let shown = Shown { status: StatusCode::PRECONDITION_FAILED, notice, ..shown };
        return show(console, visit, &app, found.as_ref(), &input, shown).await;
    }
    let asked = intent_of(visit);
    let name = app.clone();
    let change = ChangeInput { ops: vec![op], ..ChangeInput::default() };
    match console.commit(visit, move |tx, actor| publishing::propose(tx, actor, &name, &change, asked)).await
    {
        Ok(done) if action == "delete" => Ok(after(&done, "/files")),
        Ok(done) => Ok(after(&done, &file_href(&app, &key))),
        Err(ControlError::Faulty(faults)) => {
            show(console, visit, &app, found.as_ref(), &input, Shown { faults, ..shown }).await
        }
        Err(ControlError::Invalid(invalid)) => {
            show(console, visit, &app, found.as_ref(), &input, Shown { invalid, ..shown }).await
        }
        Err(ControlError::Conflict(_)) if is_new => {
            let fault = tollgate_control::Fault::Duplicate;
            let invalid = vec![tollgate_control::FieldFault { field: "text", fault }];
            show(console, visit, &app, None, &input, Shown { invalid, ..shown }).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn show(
    console: &Console,
    visit: &Visit,
    app: &str,
    found: Option<&StoredFile>,
    input: &FileInput,
    shown: Shown,
) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let t = visit.lang.texts();
    let l = Texts::of(visit.lang);
    let of = app.to_owned();
    let is_new = found.is_none();
    let read = console.control.read_as(&claim, move |tx, actor| {
        if !is_new {
            actor.must(Role::Viewer, &of)?;
        } else if !rules::may_create(actor) {
            return Err(ControlError::NoRight { need: Role::Editor, app: of.clone() });
        }
        Ok((apps::list(tx, actor)?, tx.now_ms()))
    });
    let (apps, now_ms) = read.await?;
    let published = console.control.published().borrow().clone();
    let documents = published.apps.iter().find(|it| it.app == app).map(|it| it.documents.as_slice());
    let domain = found.map(|it| it.file.domain.clone());
    let preview = documents.unwrap_or_default().iter().filter(|it| domain.as_deref() == Some(it.domain()));
    let preview = preview.map(|it| (it.domain().to_owned(), it.yaml().to_owned())).collect();
    let live = found.map(|it| {
        if it.is_app_disabled {
            return ("warn", t.app_disabled.to_owned());
        }
        let has = |node: &NodeState| node.has(&it.app, it.version.unsigned_abs());
        live(visit.lang, &console.control.nodes().nodes_of(&it.app), now_ms, has)
    });
    let states = [("on", t.state_on), ("off", t.state_off)];
    let state = if input.state.is_empty() { "on" } else { &*input.state };
    let inputs = vec![
        Field::text("app", t.app, t.app_hint, app).required().mono().listed("apps").fixed(found.is_some()),
        Field::text("description", t.description_label, t.description_hint, &input.description),
        Field::text("state", t.state, "", state).of(&states),
    ];
    let faults: Vec<(u32, String)> = shown.faults.iter().map(|it| (it.line, it.to_string())).collect();
    let lines = 1..=u32::try_from(input.text.lines().count().max(1)).unwrap_or(1);
    let text_fault = shown.invalid.iter().find(|it| it.field == "text");
    let title = domain.map_or_else(|| l.new.to_owned(), |domain| format!("{app} / {domain}"));
    let editor = EditorPage {
        f: Frame::new(visit, "files", title),
        l,
        c: changes::Texts::of(visit.lang),
        list_href: "/files",
        app: app.to_owned(),
        domain: found.map(|it| it.file.domain.clone()).unwrap_or_default(),
        live,
        notice: shown.notice,
        action: found.map_or_else(|| "/files/new".to_owned(), |it| file_href(&it.app, &it.file.domain)),
        etag: found.map(|it| it.etag),
        inputs: inputs.into_iter().map(|it| it.faulted(visit.lang, &shown.invalid)).collect(),
        lines: lines.map(|line| faults.iter().any(|(it, _)| *it == line)).collect(),
        text: input.text.clone(),
        faults,
        text_fault: text_fault.map(|it| visit.lang.fault(&it.fault)),
        sample: visit.field("sample").to_owned(),
        sample_fault: shown.sample_fault,
        explanation: shown.explanation,
        may_edit: found.is_none() || visit.who()?.may(Role::Editor, app),
        apps: apps.into_iter().map(|it| it.name).collect(),
        preview,
    };
    page(shown.status, &editor)
}
