//! A disk that fills up, for real: history stops first, then changes, nothing is half-written, and all of it
//! resumes when there is room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tollgate_harness::processes::*;

/// A disk of 48 MiB; `None`, with the reason, where this user cannot have one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).expect("a folder");
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=48m,mode=700", "tmpfs"]).arg(at).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(at.to_owned())),
            Ok(output) => {
                println!("SKIPPED: no small disk: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                println!("SKIPPED: no small disk: mount: {error}");
                None
            }
        }
    }

    fn free(&self) -> u64 {
        let asked = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(&self.0).output().expect("stat");
        let text = String::from_utf8(asked.stdout).expect("text");
        let numbers: Vec<u64> = text.split_whitespace().map(|it| it.parse().expect("a number")).collect();
        numbers[0] * numbers[1]
    }

    /// Fills it until this many bytes are left, as far as it goes.
    fn leave(&self, bytes: u64) {
        let filler = self.0.join("filler");
        let held = fs::metadata(&filler).map_or(0, |it| it.len());
        let size = (held + self.free()).saturating_sub(bytes);
        // Written, since a hole takes no room.
        drop(fs::write(&filler, vec![1; usize::try_from(size).expect("small")]));
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).expect("removed");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

fn read(control: &ControlProcess, path: &str) -> Value {
    let (status, said) = control.get(path);
    assert_eq!(status, 200, "{path}: {said}");
    serde_json::from_str(&said).expect("JSON")
}

fn has_problem(control: &ControlProcess) -> bool {
    let found = read(control, "/api/v1/problems");
    found["problems"].as_array().expect("problems").iter().any(|it| it["kind"] == "disk_low")
}

fn control_metric(control: &ControlProcess, name: &str) -> u64 {
    let (status, text) = control.get("/metrics");
    assert_eq!(status, 200, "{text}");
    metric(&text, name).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Sum of all counts in the history.
fn counted(control: &ControlProcess) -> i64 {
    let sum = read(control, "/api/v1/history?app=shop")["sum"].clone();
    ["admitted", "denied"].iter().map(|it| sum[it].as_i64().expect("a number")).sum()
}

#[test]
fn on_a_full_disk_history_stops_first_then_changes_and_both_resume_by_themselves() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(&folder.path().join("disk")) else { return };
    let data = disk.0.join("data");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = ControlProcess::command(&data, address);
    command.args(["--disk-reserve", "16MiB"]);
    let control = ControlProcess::started(command, &data, address);
    let node = NodeProcess::start(&control, &folder.path().join("a"), &[]);
    control.create_rule("shop", "push", 5);
    node.wait_denied("shop", "push");
    wait("history is written", || (counted(&control) > 0).then_some(()));
    assert!(!has_problem(&control) && !control.get("/rules").1.contains("nearly full"));

    // Below the reserve, history waits, and changes are made.
    disk.leave(12 << 20);
    wait("the disk is a problem", || has_problem(&control).then_some(()));
    for page in ["/", "/rules", "/audit", "/nope"] {
        let (_, body) = control.get(page);
        assert!(body.contains("nearly full"), "no banner on {page}: {body}");
    }
    assert_eq!(control_metric(&control, "tollgate_control_problems{kind=\"disk_low\"}"), 1);
    let before = counted(&control);
    node.check("shop", "push");
    wait("a report waits", || {
        (control_metric(&control, "tollgate_control_reports_waiting") > 0).then_some(())
    });
    control.create_rule("shop", "pull", 5);
    node.wait_denied("shop", "pull");
    assert_eq!(counted(&control), before, "no history below the reserve");

    // Without any room, changes say so, and leave nothing.
    disk.leave(0);
    let extras = json!({"note": "x".repeat(60_000)});
    let body = |key: &str| json!({"key": key, "max_permits": 5, "extras": extras}).to_string();
    let json_ = "Content-Type: application/json\r\n";
    let mut full = None;
    let mut kept = 0;
    for n in 0..2_000 {
        // Free space in the database's own files is used up first.
        let key = format!("k{n}");
        let (status, said) =
            control.try_send("POST", "/api/v1/apps/shop/rules", json_, &body(&key)).expect("an answer");
        match status {
            201 => kept += 1,
            507 => {
                full = Some(said);
                break;
            }
            _ => panic!("{status} {said}"),
        }
    }
    let full: Value = serde_json::from_str(&full.expect("the disk is full")).expect("JSON");
    assert_eq!(full["type"], "/problems/disk-full", "{full}");
    let version = |control: &ControlProcess| read(control, "/api/v1/apps/shop")["version"].clone();
    let at = version(&control);
    assert_eq!(at, json!(2 + kept));
    for _ in 0..3 {
        let (status, _) =
            control.try_send("POST", "/api/v1/apps/shop/rules", json_, &body("more")).expect("an answer");
        assert_eq!(status, 507);
    }
    assert_eq!(version(&control), at, "nothing is half-written");
    let chain = read(&control, "/api/v1/audit/chain");
    assert_eq!(chain["is_whole"], json!(true), "{chain}");
    // Pages still open, and nodes still have their rules.
    assert_eq!(control.get("/rules").0, 200);
    node.wait_denied("shop", "pull");

    // With room again, both resume by themselves.
    disk.make_room();
    wait("a change is made", || {
        let made = control.try_send("POST", "/api/v1/apps/shop/rules", json_, &body("more"));
        (made.expect("an answer").0 == 201).then_some(())
    });
    wait("the problem is gone", || (!has_problem(&control)).then_some(()));
    assert!(!control.get("/rules").1.contains("nearly full"));
    wait("history has what it missed", || (counted(&control) > before).then_some(()));
    let chain = read(&control, "/api/v1/audit/chain");
    assert_eq!(chain["is_whole"], json!(true), "{chain}");
}
