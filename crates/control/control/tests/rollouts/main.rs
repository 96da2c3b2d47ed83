//! Rollouts over the database: what nodes should have at each step, rights, two operators, restarts.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

mod operators;
mod processes;
mod steps;
mod withdrawals;

use std::ops::Deref;
use std::sync::Arc;

use tollgate_control::app_settings::AppInput;
use tollgate_control::rollout::{Ask, Plan, State};
use tollgate_control::rollouts::{self, Rollout};
use tollgate_control::{Actor, AppDocuments, Claim, ControlError, Nodes as _, Roller, Who, audit, problems};
use tollgate_fleet_proto::{Report, RuleCounts};
use tollgate_harness::ControlPlane;
use tollgate_harness::rules::{limit, set_app, write_rule};

const SOAK_MS: i64 = 60_000;

/// The app `shop` of a control plane whose nodes take what they should have when they are asked to.
struct Shop {
    plane: ControlPlane,
    roller: Roller,
}

impl Deref for Shop {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        &self.plane
    }
}

impl Shop {
    async fn of(plane: ControlPlane) -> Self {
        let roller = Roller::take_over(&plane).await.expect("taken over");
        Self { plane, roller }
    }

    /// With version 1 on `nodes`, and a plan for the versions that follow.
    async fn start(nodes: &[&str], plan: Option<Plan>) -> Self {
        let shop = Self::of(ControlPlane::start().await).await;
        shop.write("a", 1).await.expect("version 1");
        if let Some(rollout) = plan {
            shop.set(AppInput { rollout: Some(rollout), ..AppInput::default() }).await;
        }
        for node in nodes {
            shop.connect(node);
        }
        shop.take();
        shop
    }

    /// Another process, to which the nodes say what they hold.
    async fn restart(self) -> Self {
        let nodes = Arc::clone(&self.nodes);
        let shop = Self::of(self.plane.restart().await).await;
        for node in nodes.nodes() {
            shop.nodes.report(node);
        }
        shop
    }

    async fn set(&self, input: AppInput) {
        set_app(self, "shop", input).await;
    }

    /// Publishes one rule.
    async fn write(&self, key: &str, rate: i64) -> Result<(), ControlError> {
        write_rule(self, "shop", limit(key, rate)).await.map(drop)
    }

    fn of_shop(&self) -> AppDocuments {
        self.published_app("shop")
    }

    /// Every live node takes what it should have.
    fn take(&self) {
        self.acknowledge("shop");
    }

    /// The nodes that should have this version.
    fn with(&self, version: u64) -> Vec<String> {
        self.node_ids().into_iter().filter(|id| self.wanted(id, "shop") == version).collect()
    }

    async fn look(&mut self) {
        self.roller.look(&self.plane).await.expect("looked");
    }

    /// Nodes take what they should have, and report; then the time of a step passes.
    async fn soak(&mut self) {
        self.look().await;
        self.take();
        self.look().await;
        self.wait(SOAK_MS).await;
    }

    /// Time passes while every node reports that it has decided nothing; ends with a look.
    async fn wait(&mut self, ms: i64) {
        let until = self.now_ms() + ms;
        while self.now_ms() < until {
            let span_ms = (until - self.now_ms()).min(10_000);
            self.pass(span_ms);
            self.take();
            for id in self.node_ids() {
                let span_ms = span_ms.unsigned_abs();
                self.report(&id, Report { span_ms, ..Report::default() }).await;
            }
            self.look().await;
        }
    }

    /// A report comes twice, and counts once.
    async fn report_twice(&self, node: &str, admitted: u64, denied: u64) {
        let rules = vec![counted(admitted, denied)];
        let report = self.report(node, Report { rules, ..Report::default() }).await;
        self.store(node, 1, report).await.expect("stored");
    }

    async fn rollout(&self) -> Rollout {
        let get = self.read(|tx| rollouts::get(tx, &Actor::system(), "shop"));
        get.await.expect("a rollout")
    }

    async fn state(&self) -> State {
        self.rollout().await.progress.state
    }

    async fn ask(&self, actor: Who, ask: Ask) -> Result<Rollout, ControlError> {
        let etag = self.rollout().await.etag;
        self.ask_rollout(&Claim::assumed(&actor), "shop", etag, ask).await
    }

    async fn actions(&self) -> Vec<String> {
        let entries = self.read(|tx| audit::export(tx, &Actor::system(), 0, audit::MAX_EXPORT));
        let entries = entries.await.expect("entries");
        entries.into_iter().map(|it| it.action).filter(|it| it.starts_with("rollout.")).collect()
    }

    async fn rollout_problems(&self) -> Vec<problems::ProblemKind> {
        use problems::ProblemKind::{HaltedRollout, VersionLag, WithdrawnRollout};
        let of_rollouts = [WithdrawnRollout, HaltedRollout, VersionLag];
        let found = self.problems(&Claim::program("tollgate")).await.expect("problems");
        found.into_iter().map(|it| it.kind).filter(|it| of_rollouts.contains(it)).collect()
    }
}

fn counted(admitted: u64, denied: u64) -> RuleCounts {
    let domain = "shop".into();
    let rule = "key=a".into();
    RuleCounts { domain, rule, admitted, denied, ..RuleCounts::default() }
}
