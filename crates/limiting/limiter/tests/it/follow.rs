//! Rules that change under a limiter that decides: from files, and from a source that the test supplies.
//! Deadlines are bounds for a failure, not waits.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::{NOON, ask, of};
use tollgate_core::ManualClock;
use tollgate_limiter::follow::{FollowSettings, FollowState, Follower, follow};
use tollgate_limiter::{Limiter, LimiterSettings, Policy};
use tollgate_policy::RuleUpdate;
use tollgate_rule_files::{Faults, FileSource, Options, WatchHandle, WatchSettings, load, parse_text};
use tollgate_store::ModelStore;

/// Far beyond what any machine needs.
const PATIENCE: Duration = Duration::from_secs(300);

fn rules(limit: u32) -> String {
    format!(
        "{{domain: d, descriptors: [{{key: a, rate_limit: {{unit: minute, requests_per_unit: {limit}}}}}]}}"
    )
}

/// A limiter that follows rule files.
struct Following {
    limiter: Arc<Limiter<ModelStore>>,
    files: WatchHandle,
    follower: Follower,
    updates: std::cell::Cell<u64>,
}

impl Following {
    fn new(path: &Path) -> Self {
        Self::polling(path, Duration::from_secs(1))
    }

    fn polling(path: &Path, poll: Duration) -> Self {
        let paths = vec![path.to_owned()];
        let rules = load(&paths, &Options::default()).ok();
        let loaded = rules.as_ref().map(|rules| rules.revision.clone());
        let policy = rules.unwrap_or_default().policy;
        let limiter = Arc::new(Limiter::new(policy, ModelStore::default(), LimiterSettings::default()));
        let settings = WatchSettings {
            loaded,
            poll,
            settle: Duration::from_millis(5),
            ..WatchSettings::new(paths, Options::default())
        };
        let (source, files) = FileSource::watch(settings);
        let clock = Arc::new(ManualClock::at(NOON));
        let follower =
            follow(source, Arc::clone(&limiter), clock, FollowSettings::default()).expect("a thread");
        Self { limiter, files, follower, updates: 0.into() }
    }

    /// Waits for an update after the last one seen.
    fn next(&self) -> FollowState {
        let seen = self.updates.get();
        let state = self.follower.wait(|state| state.updates > seen, PATIENCE).expect("an update");
        self.updates.set(state.updates);
        state
    }

    fn ask(&self) -> String {
        ask(&self.limiter, &[of("a=1")])
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
}

#[test]
fn a_changed_file_is_in_force_and_keeps_its_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(5));
    let following = Following::new(folder.path());
    assert_eq!(following.ask(), "OK: ok 4/5");
    write(&file, &rules(3));
    let state = following.next();
    assert_eq!((state.error, state.at), (None, Some(NOON)));
    assert_eq!(state.version, following.limiter.rules().policy().version());
    assert_eq!(following.ask(), "OK: ok 1/3");
}

#[test]
fn a_faulty_file_changes_nothing_and_is_reported_until_it_is_corrected() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(5));
    let following = Following::new(&file);
    let version = following.follower.state().version;
    let report = following.limiter.report(NOON);
    assert_eq!((report.loaded_at, report.last_error), (NOON, None));
    write(&file, "{domain: d, descriptors: [{kee: a}]}");
    let state = following.next();
    let error = state.error.expect("an error");
    assert_eq!(following.limiter.report(NOON).last_error.as_deref(), Some(&*error));
    assert!(error.contains("rules.yaml:1:") && error.contains("kee"), "{error}");
    assert_eq!(state.version, version);
    assert_eq!(following.ask(), "OK: ok 4/5");
    let text = following.limiter.metrics().render();
    assert!(text.contains("tollgate_last_rule_load_ok 0"), "{text}");
    assert!(text.contains("ratelimit_service_config_load_error 1"), "{text}");
    // Mended by going back to what is in force all the time.
    write(&file, &rules(5));
    let state = following.next();
    assert_eq!((state.error, state.version), (None, version));
    assert_eq!(following.ask(), "OK: ok 3/5");
}

#[test]
fn a_file_that_is_missing_at_the_start_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    let following = Following::new(&file);
    assert!(following.next().error.expect("an error").contains("cannot read"));
    assert_eq!(following.ask(), "OK: ok");
    write(&file, &rules(1));
    assert_eq!(following.next().error, None);
    assert_eq!(following.ask(), "OK: ok 0/1");
}

#[test]
fn an_editor_that_writes_aside_and_renames_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(5));
    let following = Following::new(&file);
    for limit in 6..9 {
        let aside = folder.path().join(".rules.yaml.swp");
        write(&aside, &rules(limit));
        std::fs::rename(&aside, &file).expect("renamed");
        following.next();
        assert!(following.ask().ends_with(&format!("/{limit}")));
    }
}

/// As the kubelet mounts a ConfigMap: `rules.yaml` → `..data/rules.yaml`, `..data` → `..version`, swapped by
/// a rename.
#[cfg(unix)]
#[test]
fn a_config_map_that_is_swapped_by_its_link_is_seen_each_time() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let swap = |limit: u32| {
        let version = folder.path().join(format!("..version-{limit}"));
        std::fs::create_dir(&version).expect("a folder");
        write(&version.join("rules.yaml"), &rules(limit));
        let link = folder.path().join("..data_tmp");
        symlink(&version, &link).expect("a link");
        std::fs::rename(&link, folder.path().join("..data")).expect("swapped");
    };
    swap(5);
    symlink("..data/rules.yaml", folder.path().join("rules.yaml")).expect("a link");
    let following = Following::new(folder.path());
    for limit in 6..9 {
        swap(limit);
        let old = folder.path().join(format!("..version-{}", limit - 1));
        std::fs::remove_dir_all(old).expect("the kubelet cleans up");
        let in_force = |_: &FollowState| following.ask().ends_with(&format!("/{limit}"));
        following.follower.wait(in_force, PATIENCE).expect("the new rules in force");
    }
}

/// The whole folder is a link that is swapped, as `RUNTIME_ROOT` of other servers is.
#[cfg(unix)]
#[test]
fn a_folder_that_is_a_swapped_link_is_seen_each_time() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().expect("a folder");
    let current = folder.path().join("current");
    let swap = |limit: u32| {
        let version = folder.path().join(format!("v{limit}"));
        std::fs::create_dir_all(version.join("config")).expect("a folder");
        write(&version.join("config/rules.yaml"), &rules(limit));
        let link = folder.path().join("next");
        symlink(&version, &link).expect("a link");
        std::fs::rename(&link, &current).expect("swapped");
    };
    swap(5);
    let following = Following::polling(&current, Duration::from_millis(100));
    for limit in 6..9 {
        swap(limit);
        let in_force = |_: &FollowState| following.ask().ends_with(&format!("/{limit}"));
        following.follower.wait(in_force, PATIENCE).expect("the new rules in force");
    }
}

#[test]
fn reload_now_is_an_update_even_if_nothing_has_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(5));
    let following = Following::new(&file);
    let version = following.follower.state().version;
    assert_eq!(following.ask(), "OK: ok 4/5");
    for updates in 1..4 {
        following.files.reload_now();
        let state = following.next();
        assert_eq!((state.updates, state.error, &state.version), (updates, None, &version));
    }
    assert_eq!(following.ask(), "OK: ok 3/5");
}

#[test]
fn a_file_written_in_pieces_is_believed_only_when_it_is_whole() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules.yaml");
    write(&path, &rules(5));
    let following = Following::new(&path);
    let mut file = std::fs::File::create(&path).expect("a file");
    for piece in rules(7).as_bytes().chunks(9) {
        file.write_all(piece).expect("written");
        file.flush().expect("written");
        // A partly written file may be read and rejected; it must not be put in force.
        assert!(
            ["5", "7"]
                .contains(&following.ask().rsplit('/').next().expect("a limit").split(' ').next().unwrap())
        );
    }
    drop(file);
    following.follower.wait(|_| following.ask().contains("/7"), PATIENCE).expect("the whole file");
    assert_eq!(
        following.follower.wait(|state| state.error.is_none(), PATIENCE).expect("no error").error,
        None
    );
}

#[test]
fn no_request_fails_while_rules_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(1_000_000));
    let following = Following::new(&file);
    let stop = AtomicBool::new(false);
    let asked = AtomicU64::new(0);
    let limiter = &following.limiter;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    let told = ask(limiter, &[of("a=1")]);
                    assert!(told.starts_with("OK: ok ") && told.contains("/1000"), "{told}");
                    asked.fetch_add(1, SeqCst);
                }
            });
        }
        for round in 1..=5 {
            write(&file, &rules(1_000_000 + round));
            following.next();
        }
        stop.store(true, SeqCst);
    });
    let left = 1_000_000 + 5 - asked.load(SeqCst) - 1;
    assert_eq!(following.ask(), format!("OK: ok {left}/1000005"), "every hit is counted, over all reloads");
}

#[test]
fn rules_from_a_channel_replace_the_previous_rules_and_keep_their_counts() {
    let limiter = Arc::new(crate::common::limiter(&rules(5)));
    let (supply, source) = mpsc::channel::<RuleUpdate<Faults>>();
    let clock = Arc::new(ManualClock::at(NOON));
    let follower = follow(source, Arc::clone(&limiter), clock, FollowSettings::default()).expect("a thread");
    assert_eq!(follower.state().updates, 0);
    assert_eq!(ask(&limiter, &[of("a=1")]), "OK: ok 4/5");
    for (updates, text, version_changes, error, answer) in [
        (1, rules(3), true, None, "OK: ok 1/3"),
        (2, "domain: d\nrule: 1".to_owned(), false, Some("rules.yaml:2:1: rule: unknown key"), "OK: ok 0/3"),
        (3, rules(9), true, None, "OK: ok 5/9"),
    ] {
        let before = follower.state().version;
        let revision = format!("revision {updates}");
        let update = RuleUpdate::new(revision.clone(), parse_text("rules.yaml", text));
        supply.send(update).expect("the follower listens");
        let state = follower.wait(|state| state.updates == updates, PATIENCE).expect("an update");
        assert_eq!((state.revision, state.version != before), (revision, version_changes));
        assert_eq!(state.error.is_some(), error.is_some());
        assert!(error.is_none_or(|start| state.error.is_some_and(|error| error.starts_with(start))));
        assert_eq!(ask(&limiter, &[of("a=1")]), answer);
    }
}

#[test]
fn a_limiter_without_an_observer_follows_too() {
    let settings = LimiterSettings::default();
    let limiter = Arc::new(Limiter::with_observer(Policy::empty(), ModelStore::default(), settings, ()));
    let (supply, source) = mpsc::channel::<RuleUpdate<Faults>>();
    let clock = Arc::new(ManualClock::at(NOON));
    let follower = follow(source, Arc::clone(&limiter), clock, FollowSettings::default()).expect("a thread");
    for (updates, text, is_loaded) in [(1, rules(5), true), (2, "{".to_owned(), false)] {
        supply.send(RuleUpdate::new("", parse_text("rules.yaml", text))).expect("the follower listens");
        let state = follower.wait(|state| state.updates == updates, PATIENCE).expect("an update");
        assert_eq!(state.error.is_none(), is_loaded);
        assert!(limiter.rules().policy().domain("d").is_some());
    }
}

#[test]
fn an_update_that_drops_more_rules_than_allowed_is_rejected_with_their_names_and_the_way_out() {
    let of = |keys: &[&str]| {
        let rule = |key: &&str| format!("{{key: {key}, rate_limit: {{unit: minute, requests_per_unit: 5}}}}");
        let rules: Vec<String> = keys.iter().map(rule).collect();
        parse_text("rules.yaml", format!("{{domain: d, descriptors: [{}]}}", rules.join(", ")))
    };
    let limiter = Arc::new(Limiter::new(
        of(&["a", "b", "c", "e"]).expect("rules"),
        ModelStore::default(),
        LimiterSettings::default(),
    ));
    let (supply, source) = mpsc::channel::<RuleUpdate<Faults>>();
    let settings = FollowSettings { max_rules_dropped: 50 };
    let follower = follow(source, Arc::clone(&limiter), Arc::new(ManualClock::at(NOON)), settings);
    let follower = follower.expect("a thread");
    assert_eq!(ask(&limiter, &[crate::common::of("a=1")]), "OK: ok 4/5");
    for (updates, keys, error, rules) in [
        (
            1,
            &["e"][..],
            Some(
                "the new rules lack 3 of the 4 rules in force (d: a, d: b, d: c), more than the 50 % of \
                 max-rules-dropped; restore them, or restart the server to load the new rules as they are",
            ),
            4,
        ),
        (2, &["a", "e"], None, 2), // half of them may go
        (3, &["x", "y", "z"], Some("the new rules lack 2 of the 2 rules in force"), 2),
        (4, &["a", "x", "y"], None, 3),
    ] {
        supply.send(RuleUpdate::new("", of(keys))).expect("the follower listens");
        let state = follower.wait(|state| state.updates == updates, PATIENCE).expect("an update");
        let found = state.error.as_deref();
        assert_eq!(found.is_some(), error.is_some(), "{keys:?}: {found:?}");
        assert!(error.is_none_or(|start| found.is_some_and(|found| found.starts_with(start))), "{found:?}");
        assert_eq!(limiter.report(NOON).last_error.as_deref(), found);
        assert_eq!(limiter.rules().policy().rules().count(), rules, "{keys:?}");
    }
    assert_eq!(ask(&limiter, &[crate::common::of("a=1")]), "OK: ok 3/5");
}
