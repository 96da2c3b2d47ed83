//! Rules that change under a limiter that decides. Deadlines are bounds for a failure, not waits.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use common::{NOON, ask, of};
use tollgate_core::ManualClock;
use tollgate_limiter::reload::{ReloadSettings, ReloadState, Reloader};
use tollgate_limiter::{Limiter, LimiterSettings, Policy};
use tollgate_policy::Options;
use tollgate_store::ModelStore;

/// Far beyond what any machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

fn rules(limit: u32) -> String {
    format!(
        "{{domain: d, descriptors: [{{key: a, rate_limit: {{unit: minute, requests_per_unit: {limit}}}}}]}}"
    )
}

struct House {
    limiter: Arc<Limiter<ModelStore>>,
    reloader: Reloader,
    generation: std::cell::Cell<u64>,
}

impl House {
    /// A limiter by the rules at `path`, kept so.
    fn new(path: &Path) -> Self {
        Self::polling(path, Duration::from_secs(1))
    }

    fn polling(path: &Path, poll: Duration) -> Self {
        let paths = vec![path.to_owned()];
        let policy = Policy::load(&paths, &Options::default()).unwrap_or_default();
        let limiter = Arc::new(Limiter::new(policy, ModelStore::default(), LimiterSettings::default()));
        let settings = ReloadSettings {
            poll,
            settle: Duration::from_millis(5),
            ..ReloadSettings::new(paths, Options::default())
        };
        let clock = Arc::new(ManualClock::at(NOON));
        let reloader = Reloader::start(Arc::clone(&limiter), clock, settings).expect("a thread");
        Self { limiter, reloader, generation: 0.into() }
    }

    /// Waits until an attempt after the last one seen is over.
    fn next(&self) -> ReloadState {
        let seen = self.generation.get();
        let state = self.reloader.wait(|state| state.generation > seen, PATIENCE).expect("an attempt");
        self.generation.set(state.generation);
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
    let house = House::new(folder.path());
    assert_eq!(house.ask(), "OK: ok 4/5");
    write(&file, &rules(3));
    let state = house.next();
    assert_eq!((state.fault, state.at), (None, Some(NOON)));
    assert_eq!(state.version, house.limiter.rules().policy().version());
    assert_eq!(house.ask(), "OK: ok 1/3");
}

#[test]
fn a_faulty_file_changes_nothing_and_is_told_until_it_is_mended() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(5));
    let house = House::new(&file);
    let version = house.reloader.state().version;
    let report = house.limiter.report(NOON);
    assert_eq!((report.loaded_at, report.last_error), (NOON, None));
    write(&file, "{domain: d, descriptors: [{kee: a}]}");
    let state = house.next();
    let fault = state.fault.expect("a fault");
    assert_eq!(house.limiter.report(NOON).last_error.as_deref(), Some(&*fault));
    assert!(fault.contains("rules.yaml:1:") && fault.contains("kee"), "{fault}");
    assert_eq!(state.version, version);
    assert_eq!(house.ask(), "OK: ok 4/5");
    let text = house.limiter.metrics().render();
    assert!(text.contains("tollgate_last_rule_load_ok 0"), "{text}");
    assert!(text.contains("ratelimit_service_config_load_error 1"), "{text}");
    // Mended by going back to what is in force all the time.
    write(&file, &rules(5));
    let state = house.next();
    assert_eq!((state.fault, state.version), (None, version));
    assert_eq!(house.ask(), "OK: ok 3/5");
}

#[test]
fn a_file_that_is_missing_at_the_start_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    let house = House::new(&file);
    assert!(house.next().fault.expect("a fault").contains("cannot read"));
    assert_eq!(house.ask(), "OK: ok");
    write(&file, &rules(1));
    assert_eq!(house.next().fault, None);
    assert_eq!(house.ask(), "OK: ok 0/1");
}

#[test]
fn an_editor_that_writes_aside_and_renames_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(5));
    let house = House::new(&file);
    for limit in 6..9 {
        let aside = folder.path().join(".rules.yaml.swp");
        write(&aside, &rules(limit));
        std::fs::rename(&aside, &file).expect("renamed");
        house.next();
        assert!(house.ask().ends_with(&format!("/{limit}")));
    }
}

/// As the kubelet mounts a ConfigMap: `rules.yaml` → `..data/rules.yaml`, `..data` → `..version`, swapped by a rename.
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
    let house = House::new(folder.path());
    for limit in 6..9 {
        swap(limit);
        let old = folder.path().join(format!("..version-{}", limit - 1));
        std::fs::remove_dir_all(old).expect("the kubelet cleans up");
        let in_force = |_: &ReloadState| house.ask().ends_with(&format!("/{limit}"));
        house.reloader.wait(in_force, PATIENCE).expect("the new rules in force");
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
    let house = House::polling(&current, Duration::from_millis(100));
    for limit in 6..9 {
        swap(limit);
        let in_force = |_: &ReloadState| house.ask().ends_with(&format!("/{limit}"));
        house.reloader.wait(in_force, PATIENCE).expect("the new rules in force");
    }
}

#[test]
fn reload_now_counts_an_attempt_also_when_nothing_has_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(5));
    let house = House::new(&file);
    let version = house.reloader.state().version;
    assert_eq!(house.ask(), "OK: ok 4/5");
    for generation in 1..4 {
        house.reloader.reload_now();
        let state = house.next();
        assert_eq!((state.generation, state.fault, &state.version), (generation, None, &version));
    }
    assert_eq!(house.ask(), "OK: ok 3/5");
}

#[test]
fn a_file_written_in_pieces_is_believed_only_when_it_is_whole() {
    use std::io::Write as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rules.yaml");
    write(&path, &rules(5));
    let house = House::new(&path);
    let mut file = std::fs::File::create(&path).expect("a file");
    for piece in rules(7).as_bytes().chunks(9) {
        file.write_all(piece).expect("written");
        file.flush().expect("written");
        // A piece may be looked at, and be refused; what must not be is that it counts.
        assert!(
            ["5", "7"].contains(&house.ask().rsplit('/').next().expect("a limit").split(' ').next().unwrap())
        );
    }
    drop(file);
    house.reloader.wait(|_| house.ask().contains("/7"), PATIENCE).expect("the whole file");
    assert_eq!(house.reloader.wait(|state| state.fault.is_none(), PATIENCE).expect("no fault").fault, None);
}

#[test]
fn no_request_fails_while_rules_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rules.yaml");
    write(&file, &rules(1_000_000));
    let house = House::new(&file);
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let limiter = &house.limiter;
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
            house.next();
        }
        stop.store(true, SeqCst);
    });
    let left = 1_000_000 + 5 - asked.load(SeqCst) - 1;
    assert_eq!(house.ask(), format!("OK: ok {left}/1000005"), "every hit is counted, over all reloads");
}
