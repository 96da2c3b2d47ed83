//! Every case of the case files against a server of its own.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::calendar;
use crate::cases::{self, CaseFile, Files};
use crate::rls::Client;
use crate::tollgate::Start;

const OWN: &str = include_str!("../../cases/rls_cases.json");
const MORE: &str = include_str!("../../cases/more_cases.json");
/// Servers that run at a time.
const AT_A_TIME: usize = 8;
/// A case whose window ended while it ran shows nothing, and is run again.
const ATTEMPTS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn every_case_is_answered_as_envoys_own_service_answers_it() {
    let mut file = CaseFile::parse(OWN);
    file.append(CaseFile::parse(MORE));
    let file = Arc::new(file);
    let places = Arc::new(Semaphore::new(AT_A_TIME));

    let mut running = JoinSet::new();
    for index in 0..file.cases().len() {
        let file = file.clone();
        let places = places.clone();
        running.spawn(async move {
            let case = &file.cases()[index];
            let _place = places.acquire_many(if is_slow(case) { 0 } else { 1 }).await.expect("open");
            (name(case), answered(&file, case).await)
        });
    }
    for index in 0..file.reject_cases().len() {
        let file = file.clone();
        let places = places.clone();
        running.spawn(async move {
            let case = &file.reject_cases()[index];
            let _place = places.acquire().await.expect("open");
            (name(case), refused(&file, case).await)
        });
    }
    let mut results = running.join_all().await;
    results.sort();

    let failed: Vec<_> = results.iter().filter(|(_, faults)| !faults.is_empty()).collect();
    for (name, faults) in &results {
        println!("{} {name}", if faults.is_empty() { "ok    " } else { "FAILED" });
        faults.iter().for_each(|fault| println!("       {fault}"));
    }
    println!("CASES {} passed, {} failed, 0 skipped", results.len() - failed.len(), failed.len());
    assert!(failed.is_empty(), "{} of {} cases failed: {failed:#?}", failed.len(), results.len());
}

fn name(case: &Value) -> String {
    case["name"].as_str().expect("a case has a name").to_owned()
}

fn is_slow(case: &Value) -> bool {
    case["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "slow"))
}

/// Runs a case until no window of it ended by chance meanwhile; the faults of the last run.
async fn answered(file: &CaseFile, case: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for _ in 0..ATTEMPTS {
        if calendar::until_end(60) < case["needs_s"].as_u64().unwrap_or(2) {
            calendar::next_window(60).await;
        }
        if case["avoid_hour_end"] == true && calendar::until_end(3_600) <= 62 {
            calendar::next_window(3_600).await;
        }
        let attempt = Attempt::new(file, case).run().await;
        faults = attempt.faults;
        if faults.is_empty() || !attempt.void {
            break;
        }
    }
    faults
}

struct Attempt<'a> {
    case: &'a Value,
    files: Files,
    faults: Vec<String>,
    /// A window that the case counts in ended at a step that does not expect it.
    void: bool,
}

impl<'a> Attempt<'a> {
    fn new(file: &CaseFile, case: &'a Value) -> Self {
        Attempt { case, files: file.files(case), faults: Vec::new(), void: false }
    }

    async fn run(mut self) -> Self {
        let rules = tempfile::tempdir().expect("a folder");
        write(rules.path(), &self.files);
        let mut start = Start::new(rules.path());
        // Some of its names are those of other programs too.
        start = start.env("TOLLGATE_COMPAT", "ratelimit");
        // Which it does not have.
        start = start.env("TOLLGATE_RETRY_AFTER_HEADERS", "false");
        for (name, value) in self.case["env"].as_object().into_iter().flatten() {
            start = start.env(name, value.as_str().unwrap_or_default());
        }
        let server = match start.try_go() {
            Ok(server) => server,
            Err(ended) => {
                self.faults.push(format!("the server ended: {ended:?}"));
                return self;
            }
        };
        let mut client = Client::connect(server.grpc).await.expect("it listens");
        let counted = if self.case["window"] == "second" { 1 } else { 60 };
        if counted == 1 {
            calendar::next_window(1).await;
        }
        let mut window = calendar::window(counted);
        for (index, step) in self.case["steps"].as_array().expect("steps").iter().enumerate() {
            if let Some(unit) = step["advance_to_next_window"].as_str() {
                self.void |= calendar::window(counted) != window;
                calendar::next_window(calendar::unit(unit).0).await;
                window = calendar::window(counted);
            } else if step.get("reload").is_some() {
                self.reload(rules.path(), &step["reload"], &mut client).await;
            } else {
                self.ask(index, step, &mut client).await;
            }
        }
        self.void |= calendar::window(counted) != window;
        self
    }

    async fn ask(&mut self, index: usize, step: &Value, client: &mut Client) {
        let times = step["repeat"].as_u64().unwrap_or(1);
        for time in 0..times {
            let answer = client.ask(cases::request(step)).await;
            let each = step["expect_each"].get(time as usize);
            let last = step.get("expect").filter(|_| time + 1 == times);
            for expect in [each, last, step.get("expect_all")].into_iter().flatten() {
                let found = cases::differences(expect, &answer);
                self.faults.extend(found.into_iter().map(|f| format!("step {index}, time {time}: {f}")));
            }
        }
    }

    /// Changes the files and asks without taking until the change is seen.
    async fn reload(&mut self, rules: &Path, step: &Value, client: &mut Client) {
        for name in step["remove"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            std::fs::remove_file(rules.join(name)).expect("it was there");
        }
        let files = step["files"].as_object().into_iter().flatten();
        write(rules, &files.map(|(n, t)| (n.clone(), t.as_str().unwrap_or_default().to_owned())).collect());
        if let Some(seconds) = step["wait_s"].as_f64() {
            // The file says how long a change that must not be seen is given to be seen.
            tokio::time::sleep(std::time::Duration::from_secs_f64(seconds)).await;
        }
        let Some(wait) = step.get("wait_for") else { return };
        let want = wait.get("requests_per_unit").and_then(Value::as_u64);
        let probe = if wait.get("domain").is_some() { wait } else { &step["probe"] };
        let started = calendar::now();
        loop {
            let answer = client.ask(cases::request(probe).peek()).await;
            let seen = answer
                .ok()
                .and_then(|a| a.statuses.first()?.current_limit.as_ref().map(|l| l.requests_per_unit));
            if seen.map(u64::from) == want {
                return;
            }
            if calendar::now() - started > std::time::Duration::from_secs(300) {
                self.faults.push(format!("reload: {want:?} was never seen, but {seen:?}"));
                return;
            }
        }
    }
}

/// The faults of a server that did not reject its rules.
async fn refused(file: &CaseFile, case: &Value) -> Vec<String> {
    let rules = tempfile::tempdir().expect("a folder");
    write(rules.path(), &file.files(case));
    match Start::new(rules.path()).try_go() {
        Err(ended) if ended.status.code() == Some(1) && !ended.printed.trim().is_empty() => Vec::new(),
        Err(ended) => vec![format!("it must end with 1 and say why: {ended:?}")],
        Ok(server) => {
            let mut client = Client::connect(server.grpc).await.expect("it listens");
            match client.ask(cases::request(&case["probe"])).await {
                Err(_) => Vec::new(),
                Ok(answer) => {
                    vec![format!("its rules are wrong ({}), and it answered {answer:?}", case["reason"])]
                }
            }
        }
    }
}

fn write(folder: &Path, files: &Files) {
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("the folder can be written");
    }
}
