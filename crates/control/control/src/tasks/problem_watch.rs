//! Looks for problems, and says when they change.

use tollgate_model::Role;

use crate::access::actor::{Actor, EVERY_APP};
use crate::access::claim::Claim;
use crate::audit::edited_rows;
use crate::control::Control;
use crate::error::ControlError;
use crate::fleet::frozen;
use crate::tasks::events::Topic;
use crate::tasks::problems::{Problem, ProblemKind, find, metrics, state};

impl Control {
    /// The problems of now that the sender of the claim may see.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn problems(&self, claim: &Claim) -> Result<Vec<Problem>, ControlError> {
        let found = self.look_for_problems().await?;
        self.read_as(claim, move |_, actor| Ok(visible(found.clone(), actor))).await
    }

    /// The problems of now. Notes the topic if that has changed since the last look.
    pub(crate) async fn look_for_problems(&self) -> Result<Vec<Problem>, ControlError> {
        let read_to = self.edited.lock().read_to();
        let read = self.read(move |tx| Ok((state::read(tx)?, edited_rows::news(tx, read_to)?)));
        let (mut state, news) = read.await?;
        state.edited = self.edited.lock().take(news);
        state.nodes = self.nodes().lagging();
        state.figures = self.live().figures();
        state.surroundings = self.live().surroundings();
        let ahead = frozen::seen(&state.nodes, state.now_ms);
        let is_news = ahead.of_most.iter().any(|(app, version)| state.frozen.get(app) < Some(version));
        if is_news || ahead.of_few.iter().any(|(app, version)| state.few.get(app) < Some(version)) {
            state.frozen.extend(ahead.of_most.clone());
            self.write(move |tx| frozen::keep(tx, &ahead)).await?;
        }
        state.awaited = self.awaited(state.now_ms);
        state.gone = self.db().check_files().err().map(|error| error.to_string());
        state.lost = self.audit_lost();
        let found = find(&state);
        let before = self.live().found(found.clone());
        let is_gone = |found: &[Problem]| found.iter().any(|it| it.kind == ProblemKind::DatabaseGone);
        match (&state.gone, is_gone(&before)) {
            (Some(error), false) => tracing::error!("{error}"),
            (None, true) => tracing::info!("the database is back; changes are made again"),
            _ => {}
        }
        // Shares and free bytes change all the time.
        let shown = |it: &Problem| Problem { value: 0, ..it.clone() };
        if !before.iter().map(shown).eq(found.iter().map(shown)) {
            self.live().events.note(Topic::Problems);
        }
        Ok(found)
    }

    /// The problems of the last look, as metrics.
    #[must_use]
    pub fn problem_metrics(&self) -> String {
        metrics(&self.live().last_found())
    }
}

/// The problems that the actor may see.
fn visible(mut found: Vec<Problem>, actor: &Actor) -> Vec<Problem> {
    found.retain(|it| match &*it.app {
        "" => !it.node.is_empty() || actor.may(Role::Viewer, EVERY_APP),
        app => actor.may(Role::Viewer, app),
    });
    // Problems without an app may name addresses, stores, domains and files of other apps.
    if !actor.may_everywhere(Role::Viewer) {
        found.iter_mut().filter(|it| it.app.is_empty()).for_each(|it| it.detail.clear());
    }
    found
}
