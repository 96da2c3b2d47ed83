//! A frozen app: what nodes hold, what the database has, and the decision between them.

use askama::Template;
use hyper::StatusCode;
use tollgate_control::{ControlError, Role, frozen, thaw};
use tollgate_http_kit::Reply;

use crate::console::Console;
use crate::frame::{Frame, page};
use crate::texts::frozen::Texts;
use crate::web::{Failure, Visit, encoded, query_of, redirect};

#[derive(Template)]
#[template(path = "frozen.html")]
struct FrozenPage {
    f: Frame,
    c: &'static Texts,
    app: String,
    fault: Option<String>,
    held: i64,
    version: i64,
    action: String,
    /// Id and name of those that hold the app.
    nodes: Vec<(String, String)>,
    may_decide: bool,
}

/// Where the decision about a frozen app is.
pub(super) fn href(app: &str) -> String {
    format!("/apps/{}/frozen", encoded(app))
}

pub(super) async fn show(console: &Console, visit: &Visit, fault: Option<String>) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let of = app.clone();
    let (held, version) =
        console.control.read_as(&claim, move |tx, actor| frozen::status(tx, actor, &of)).await?;
    let holds = |it: &tollgate_control::NodeState| it.apps.iter().any(|it| it.app == app && it.is_ahead);
    let nodes = console.control.nodes().nodes_of(&app).into_iter().filter(|it| it.is_connected && holds(it));
    let c = Texts::of(visit.lang);
    let status = if fault.is_some() { StatusCode::BAD_GATEWAY } else { StatusCode::OK };
    let frozen = FrozenPage {
        f: Frame::new(visit, "versions", c.title),
        c,
        fault,
        held,
        version,
        action: href(&app),
        nodes: nodes.map(|it| (it.id, it.name)).collect(),
        may_decide: visit.who()?.may(Role::Admin, &app),
        app,
    };
    page(status, &frozen)
}

pub(super) async fn decide(console: &Console, visit: &Visit) -> Result<Reply, Failure> {
    let claim = visit.claim()?;
    let app = visit.segment(1);
    let reason = visit.field("reason").to_owned();
    let decided = match visit.field("action") {
        "force" => {
            let of = app.clone();
            console.control.commit_as(&claim, move |tx, actor| thaw::force(tx, actor, &of, &reason)).await
        }
        "take_over" => console.control.take_over(&claim, &app, visit.field("node"), &reason).await,
        _ => return Err(Failure::Bad("expected the action take_over or force".to_owned())),
    };
    match decided {
        Ok(_) => Ok(redirect(&query_of("/versions", &[("app", &app)]))),
        Err(error @ ControlError::Unanswered { .. }) => show(console, visit, Some(error.to_string())).await,
        Err(error) => Err(error.into()),
    }
}
