//! Our own pages for errors, and what the database's faults look like from outside.

use tollgate_harness::console::{ConsoleClient, ConsoleServer};

use crate::contract::prepare;

#[tokio::test]
async fn pages_for_errors_have_the_true_status_the_request_and_what_to_do_next() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "SIP_HOTEL").await;
    for (path, near) in [
        ("/ruls", "href=\"/rules\""),
        ("/Audit", "href=\"/audit\""),
        ("/apps/SIP_HOTLE/versions", "href=\"/rules?app=SIP_HOTEL\""),
        ("/apps/SIP_HOTEL/rules/pushGoe", "href=\"/apps/SIP_HOTEL/rules/pushGeo\""),
        ("/users/bib", "href=\"/users/bob\""),
        ("/nothing-like-it-at-all", ""),
    ] {
        let page = ann.get(path).await;
        assert_eq!(page.status, 404, "{path}");
        assert!(page.body.contains(near), "{path}: {}", page.body);
        assert_eq!(page.body.contains("Did you mean"), !near.is_empty(), "{path}");
        let request = page.field("x-request-id").expect("a number");
        assert!(page.body.contains(request) && page.body.contains("404"), "{path}");
    }
    // Names of what one may not see are not suggested.
    assert_eq!(vic.get("/users/bib").await.status, 403);
    let page = vic.get("/rules/new").await;
    assert_eq!(page.status, 403);
    assert!(
        page.body.contains("Editor") && page.body.contains("ann"),
        "role and who grants it: {}",
        page.body
    );
    let page = vic.get("/users").await;
    assert!(page.body.contains("Administrator · *"), "{}", page.body);
    // Data that this program did not write is its own fault, not the reader's.
    let database = server.file();
    database.execute("UPDATE car SET rate = 'x'", []).expect("altered");
    let page = ann.get("/rules").await;
    assert_eq!(page.status, 500);
    assert!(page.body.contains(page.field("x-request-id").expect("a number")) && page.body.contains("500"));
    let problem = ann.get("/api/v1/rules").await;
    assert_eq!((problem.status, &problem.value()["type"]), (500, &"/problems/internal".into()));
}

#[tokio::test]
async fn a_database_that_is_locked_fails_the_change_and_works_again_afterwards() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    let database = server.file();
    database.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let body = r#"{"key": "late", "max_permits": 1}"#;
    let path = "/api/v1/apps/SIP_HOTEL/rules";
    let failed = ann.json("POST", path, None, body).await;
    assert_eq!((failed.status, &failed.value()["type"]), (503, &"/problems/unavailable".into()));
    assert_eq!(ann.get("/rules").await.status, 200, "pages are read meanwhile");
    database.execute_batch("ROLLBACK").expect("released");
    assert_eq!(ann.json("POST", path, None, body).await.status, 201);
}

/// A folder on a disk of this many bytes; `None` where it cannot be mounted.
fn small_disk(bytes: u64) -> Option<Disk> {
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
        .arg(folder.path())
        .status();
    mounted.is_ok_and(|it| it.success()).then_some(Disk(folder))
}

struct Disk(tempfile::TempDir);

impl Drop for Disk {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

#[tokio::test]
async fn a_full_disk_changes_nothing_says_so_and_takes_changes_again_when_there_is_room() {
    let Some(disk) = small_disk(4 * 1024 * 1024) else {
        eprintln!("skipped: a small disk cannot be mounted here");
        return;
    };
    let server = ConsoleServer::start_in(disk.0.path()).await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    let filler = disk.0.path().join("filler");
    let mut size = 4_u64 << 20;
    // Fills the disk to its last block.
    while size > 512 {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&filler).expect("a file");
        if std::io::Write::write_all(&mut file, &vec![0; size as usize]).is_err() {
            size /= 2;
        }
    }
    let before = server.control.published().borrow().apps.clone();
    let path = "/api/v1/apps/SIP_HOTEL/rules";
    let long = "x".repeat(60_000);
    let body = |key: &str| format!(r#"{{"key": "{key}", "max_permits": 1, "extras": {{"x": "{long}"}}}}"#);
    let mut full = None;
    for n in 0..40 {
        let reply = ann.json("POST", path, None, &body(&format!("k{n}"))).await;
        if reply.status != 201 {
            full = Some(reply);
            break;
        }
    }
    let full = full.expect("the disk is full at last");
    assert_eq!((full.status, &full.value()["type"]), (507, &"/problems/disk-full".into()), "{}", full.body);
    assert!(server.control.published().borrow().apps[0].version >= before[0].version);
    let listed = ann.get("/api/v1/rules").await.value()["total"].as_i64().expect("a number");
    let published = server.control.published().borrow().apps[0].version;
    assert_eq!(published, listed.unsigned_abs(), "each rule was a version, and nothing is half there");
    std::fs::remove_file(&filler).expect("room");
    let made = ann.json("POST", path, None, &body("late")).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(ann.get("/api/v1/audit/chain").await.value()["is_whole"], true);
}
