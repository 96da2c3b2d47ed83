//! Change sets over pages and API: approvals, conflicts, files, differences.

use tollgate_harness::console::{ConsoleClient, ConsoleReply, ConsoleServer};

const GOOD: &str =
    "app=SIP_HOTEL&key=pushGeo&max_permits=100&rate=5&description=hotels&terms=yes&action=save";

/// A user with one role in SIP_HOTEL, logged in.
async fn user(server: &ConsoleServer, name: &str, role: &str) -> ConsoleClient {
    ConsoleClient::user(server, name, role, "SIP_HOTEL").await
}

/// The value of a member that is a text, the first of that name.
fn member<'r>(reply: &'r ConsoleReply, name: &str) -> &'r str {
    let start = format!("\"{name}\":\"");
    reply.body.split(&start).nth(1).and_then(|rest| rest.split('"').next()).expect("a member")
}

#[tokio::test]
async fn a_change_is_approved_by_another_and_then_published() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let app = "/api/v1/apps/SIP_HOTEL";
    let now = ann.get(app).await;
    let set = ann.json("PUT", app, Some(now.etag()), r#"{"approvals": 1}"#).await;
    assert!(set.status == 200 && set.body.contains("\"approvals\":1"), "{}", set.body);
    assert_eq!(ann.json("PUT", app, Some(set.etag()), r#"{"approvals": 3}"#).await.status, 422);

    // The same button now makes a change set that waits.
    let form = "max_permits=100&rate=8&etag=1&action=save";
    let waits = ann.post("/apps/SIP_HOTEL/rules/pushGeo", form).await;
    let place = waits.place().to_owned();
    assert!(waits.status == 303 && place.starts_with("/changes/"), "{place}");
    let shown = ann.get(&place).await.body;
    assert!(
        shown.contains("waiting for approval") && shown.contains("<del>5</del> → <ins>8</ins>"),
        "{shown}"
    );
    let approve = |etag: &str| format!("action=approve&etag={etag}");
    assert_eq!(ann.post(&place, &approve("2")).await.status, 403, "her own");
    assert_eq!(ann.post(&place, "action=publish&etag=2").await.status, 409);

    let mut vic = user(&server, "vic", "viewer").await;
    let seen = vic.get(&place).await;
    assert!(seen.status == 200 && !seen.body.contains("name=\"action\""), "a viewer has no button");
    assert_eq!(vic.post(&place, &approve("2")).await.status, 403);
    let mut bob = user(&server, "bob", "approver").await;
    assert_eq!(bob.post(&place, &approve("1")).await.status, 412, "before the submission");
    let wordless = bob.post(&place, "action=reject&etag=2&comment=").await;
    assert!(wordless.status == 422 && wordless.faults() == ["Required"]);
    assert_eq!(bob.post(&place, &approve("2")).await.place(), place);
    assert_eq!(ann.post(&place, "action=publish&etag=3").await.place(), place);
    let list = ann.get("/changes?state=all").await.body;
    assert!(list.contains("published") && list.contains(&place));
    assert!(ann.get("/rules").await.body.contains("8 / s"));
    let path = "/apps/SIP_HOTEL/versions/2/diff?against=1";
    assert!(ann.get(path).await.body.contains("<del>5</del> → <ins>8</ins>"));
    for view in ["unified", "split"] {
        let body = ann.get(&format!("{path}&view={view}")).await.body;
        assert!(body.contains("rate: 5") && body.contains("rate: 8"), "{view}: {body}");
    }
}

#[tokio::test]
async fn the_audit_has_a_line_for_each_rule_of_an_approved_change_from_which_value_to_which() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    for key in ["push", "pull", "gone", "same"] {
        let form = format!("app=SIP_HOTEL&key={key}&max_permits=100&rate=5&terms=yes&action=save");
        assert_eq!(ann.post("/rules/new", &form).await.status, 303);
    }
    let app = "/api/v1/apps/SIP_HOTEL";
    let tag = ann.get(app).await.etag().to_owned();
    assert_eq!(ann.json("PUT", app, Some(&tag), r#"{"approvals": 1}"#).await.status, 200);
    let mut bases = Vec::new();
    for key in ["push", "pull", "gone"] {
        let tag = ann.get(&format!("{app}/rules/{key}")).await.etag().to_owned();
        bases.push(tag.trim_matches('"').to_owned());
    }
    let body = format!(
        r#"{{"app": "SIP_HOTEL", "title": "Busy season", "ops": [
        {{"op": "put", "key": "push", "base": {}, "rule": {{"max_permits": 100, "rate": 20}}}},
        {{"op": "put", "key": "pull", "base": {}, "rule": {{"max_permits": 40, "rate": 5}}}},
        {{"op": "put", "key": "new", "rule": {{"max_permits": 7, "rate": 3}}}},
        {{"op": "delete", "key": "gone", "base": {}}}]}}"#,
        bases[0], bases[1], bases[2]
    );
    let made = ann.json("POST", "/api/v1/changes", None, &body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let place = format!("/changes/{}", member(&made, "id"));
    assert_eq!(ann.post(&place, "action=submit&etag=1").await.status, 303);
    let mut bob = user(&server, "bob", "approver").await;
    assert_eq!(bob.post(&place, "action=approve&etag=2").await.status, 303);
    assert_eq!(ann.post(&place, "action=publish&etag=3").await.status, 303);

    let link = |key: &str, text: &str| format!("href=\"/apps/SIP_HOTEL/rules/{key}\">{key}: {text}</a>");
    for (lang, created, deleted) in [("en", "new", "deleted"), ("zh-CN", "新增", "删除")] {
        let asked = format!("Accept-Language: {lang}");
        let page = ann.send("GET", "/audit?action=change.publish", &[&asked], "").await.body;
        for part in [
            link("push", "rate 5 → 20"),
            link("pull", "max_permits 100 → 40"),
            link("new", &format!("{created} rate 3 · max_permits 7 · state on")),
            format!("gone: {deleted} rate 5 · max_permits 100 · state on"),
            format!("href=\"{place}\">Busy season</a>"),
        ] {
            assert!(page.contains(&part), "{part}: {page}");
        }
        assert!(!page.contains("same:") && !page.contains("/rules/gone\""), "{page}");
    }
    // The object that is looked for is each of its rules.
    for (target, is_found) in [("push", true), ("pull", true), ("gone", true), ("same", false)] {
        let path = format!("/audit?action=change.publish&target={target}");
        assert_eq!(ann.get(&path).await.body.contains("rate 5 → 20"), is_found, "{target}");
        let api = ann.get(&format!("/api/v1/audit?action=change.publish&target={target}")).await;
        assert_eq!(api.body.contains("change.publish"), is_found, "{target}: {}", api.body);
    }
}

#[tokio::test]
async fn a_conflict_shows_three_sides_and_is_resolved() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let body = r#"{"app": "SIP_HOTEL", "title": "faster", "ops":
        [{"op": "put", "key": "pushGeo", "base": 1, "rule": {"max_permits": 100, "rate": 50}}]}"#;
    let made = ann.json("POST", "/api/v1/changes", None, body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let id = member(&made, "id").to_owned();
    let first = made.etag();
    let rule = "/api/v1/apps/SIP_HOTEL/rules/pushGeo";
    ann.json("PUT", rule, Some("\"1\""), r#"{"max_permits": 100, "rate": 7}"#).await;

    let path = format!("/api/v1/changes/{id}");
    let publish = format!("{path}/publish");
    assert_eq!(ann.json("POST", &publish, None, "").await.status, 428);
    let conflict = ann.json("POST", &publish, Some(first), "").await;
    assert_eq!(conflict.status, 409);
    for part in [r#""theirs":{"#, r#""rate":7"#, r#""rate":50"#, r#""rate":5,"#, "/problems/conflict"] {
        assert!(conflict.body.contains(part), "{part}: {}", conflict.body);
    }
    let shown = ann.get(&format!("/changes/{id}")).await.body;
    assert!(shown.contains("Others changed these rules meanwhile") && shown.contains("keep:car/pushGeo"));
    let checked = ann.json("POST", &format!("{path}/check"), None, "").await;
    assert!(checked.body.contains("\"ok\":false"), "{}", checked.body);
    let form = "action=resolve&etag=1&keep:car%2FpushGeo=yours";
    assert_eq!(ann.post(&format!("/changes/{id}"), form).await.status, 303);
    let stale = ann.json("POST", &publish, Some(first), "").await;
    assert_eq!((stale.status, stale.etag()), (412, "\"2\""));
    let published = ann.json("POST", &publish, Some("\"2\""), "").await;
    assert!(
        published.status == 200 && published.body.contains("\"published_version\":3"),
        "{}",
        published.body
    );
    assert_eq!(ann.json("POST", &publish, Some(published.etag()), "").await.status, 409);
    assert!(ann.get("/api/v1/apps/SIP_HOTEL/versions/3/diff").await.body.contains(r#""after":"50""#));
}

#[tokio::test]
async fn operations_are_checked_with_line_and_column_before_anything_is_written() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let text = r"domain: web\ndescriptors:\n  - key: user\n    ratelimit: {unit: minute}\n";
    let body = |op: &str| format!(r#"{{"app": "SIP_HOTEL", "ops": [{op}]}}"#);
    let faulty = format!(r#"{{"op": "put", "key": "web", "file": {{"text": "{text}"}}}}"#);
    for (op, part) in [
        (faulty.as_str(), r#""column":5,"domain":"web","line":4"#),
        (r#"{"op": "put", "key": "pushGeo", "base": 1, "yaml": "key: pushGeo\nrat: 1\n"}"#, r#""line":2"#),
        (r#"{"op": "put", "key": "pushGeo", "base": 1, "rule": {"max_permits": 0}}"#, "/max_permits"),
        (r#"{"op": "put", "key": "pushGeo", "rule": {"max_permits": 1}}"#, r#""conflicts":[{"base":null"#),
        (r#"{"op": "delete", "key": "pushGeo", "base": 1}"#, r#""ok":true"#),
    ] {
        let checked = ann.json("POST", "/api/v1/check", None, &body(op)).await;
        assert!(checked.status == 200 && checked.body.contains(part), "{op}: {}", checked.body);
    }
    let good = faulty.replace("ratelimit: {unit: minute}", "rate_limit: {rate: 5/minute}");
    let preview = ann.json("POST", "/api/v1/preview", None, &body(&good)).await;
    assert!(
        preview.body.contains(r#""domain":"web""#) && preview.body.contains("SIP_HOTEL"),
        "{}",
        preview.body
    );
    for (op, status) in [
        (r#"{"op": "put", "key": "x"}"#, 400),
        (r#"{"op": "shake", "key": "x"}"#, 400),
        (r#"{"op": "delete", "key": "x", "kind": "regex"}"#, 400),
        (r#"{"op": "delete", "key": "x", "because": 1}"#, 400),
        (r#"{"op": "delete", "key": "x", "base": 99}"#, 404),
    ] {
        let reply = ann.json("POST", "/api/v1/changes", None, &body(op)).await;
        assert_eq!(reply.status, status, "{op}: {}", reply.body);
    }
    let changes = ann.get("/api/v1/changes?state=open").await;
    assert!(changes.body.contains("\"changes\":[]"), "{}", changes.body);
    let all = ann.get("/api/v1/changes?limit=1").await;
    assert!(all.body.contains("\"state\":\"published\""), "the form was a change set too: {}", all.body);
}

#[tokio::test]
async fn rule_files_are_kept_byte_for_byte_and_explain_a_request() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", GOOD).await;
    let files = "/api/v1/apps/SIP_HOTEL/files";
    let text = "domain: web # ours\\ndescriptors:\\n  - {key: user, rate_limit: {rate: 5/minute}}\\n";
    let body = |text: &str| format!(r#"{{"text": "{text}"}}"#);
    let made = ann.json("POST", files, None, &body(text)).await;
    assert!(made.status == 201 && made.body.contains(text), "{}", made.body);
    assert_eq!(ann.json("POST", files, None, &body(text)).await.status, 422, "it is there");
    let file = format!("{files}/web");
    assert_eq!(ann.json("PUT", &file, None, &body(text)).await.status, 428);
    assert_eq!(ann.json("PUT", &file, Some("\"1\""), &body(text)).await.status, 412);
    let moved = ann.json("PUT", &file, Some("\"2\""), &body("domain: other\\ndescriptors: []\\n")).await;
    assert!(moved.status == 422 && moved.body.contains("keeps its domain"), "{}", moved.body);
    let six = text.replace("5/minute", "6/minute");
    assert_eq!(ann.json("PUT", &file, Some("\"2\""), &body(&six)).await.etag(), "\"3\"");
    let explained = ann.get("/api/v1/explain?app=SIP_HOTEL&domain=web&entry=user%3Dann").await;
    assert!(explained.body.contains("6 per minute"), "{}", explained.body);
    assert_eq!(ann.get("/api/v1/explain?app=SIP_HOTEL&domain=web&entry=user").await.status, 422);
    let back = ann
        .json("POST", "/api/v1/apps/SIP_HOTEL/versions/2/rollback", Some("\"3\""), r#"{"reason": "worse"}"#)
        .await;
    assert_eq!(back.status, 200, "{}", back.body);
    assert!(ann.get(&file).await.body.contains("5/minute"));
    assert_eq!(ann.json("DELETE", &file, Some("\"4\""), "").await.status, 200);
    assert_eq!(ann.get(&file).await.status, 404);
}

#[tokio::test]
async fn the_yaml_of_a_rule_is_its_form_and_one_click_changes_its_state() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", &format!("{GOOD}&extras=%7B%22a%22%3A%20%201%7D")).await;
    let path = "/apps/SIP_HOTEL/rules/pushGeo";
    let page = ann.get(&format!("{path}/yaml")).await.body;
    assert!(page.contains("rate: 5\n") && page.contains("{\\&#34;a\\&#34;:  1}"), "{page}");
    let yaml =
        |text: &str| format!("etag=1&action=save&text={}", text.replace(' ', "+").replace('\n', "%0D%0A"));
    for (text, line) in [
        ("key: pushGeo\nmax_permits: 100\nrat: 8\n", "3:1: rat"),
        ("key: pushGeo\nmax_permits: 100\nrate: 0\n", "3:1: rate"),
        ("key: other\nmax_permits: 100\n", "1:1: key"),
    ] {
        let faulty = ann.post(&format!("{path}/yaml"), &yaml(text)).await;
        assert!(faulty.status == 422 && faulty.body.contains(line), "{text}: {}", faulty.body);
    }
    let saved = ann.post(&format!("{path}/yaml"), &yaml("key: pushGeo\nmax_permits: 90\nrate: 8\n")).await;
    assert_eq!(saved.status, 303, "{}", saved.body);
    let form = ann.get(path).await.body;
    assert!(form.contains("value=\"90\"") && form.contains("<del>5</del> → <ins>8</ins>"), "{form}");

    assert_eq!(ann.post(&format!("{path}/state"), "state=shadow&etag=1").await.place(), path, "an old page");
    assert!(ann.get(path).await.body.contains("value=\"shadow\""), "not yet: the button is there");
    let shadow = ann.post(&format!("{path}/state"), "state=shadow&etag=2").await;
    assert!(shadow.place().starts_with(path), "{}", shadow.place());
    assert!(ann.get("/api/v1/apps/SIP_HOTEL/rules/pushGeo").await.body.contains("\"state\":\"shadow\""));

    // A draft collects several rules, and nothing is in force before its publication.
    let draft = ann.post(path, "max_permits=90&rate=1&etag=3&action=draft").await.place().to_owned();
    let second = ann.post("/rules/new", &GOOD.replace("pushGeo", "other").replace("=save", "=draft")).await;
    assert_eq!(second.place(), draft);
    assert_eq!(ann.get("/api/v1/apps/SIP_HOTEL").await.body.matches("\"version\":3").count(), 1);
    assert_eq!(ann.post(&draft, "action=publish&etag=2").await.status, 303);
    assert!(ann.get("/rules").await.body.contains("1 / s"));
}

#[tokio::test]
async fn several_rows_change_in_one_change_set() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    for key in ["a", "b", "c"] {
        ann.post("/rules/new", &GOOD.replace("pushGeo", key)).await;
    }
    let list = ann.get("/rules").await.body;
    assert!(list.contains("name=\"pick:SIP_HOTEL/b\" value=\"2\""), "{list}");
    let bulk =
        |action: &str, etag: u8| format!("pick:SIP_HOTEL%2Fa=1&pick:SIP_HOTEL%2Fb={etag}&action={action}");
    assert_eq!(ann.post("/rules/bulk", "action=off").await.place(), "/rules?bulk=none");
    assert_eq!(ann.post("/rules/bulk", &bulk("off", 1)).await.place(), "/rules?bulk=stale");
    assert_eq!(ann.post("/rules/bulk", &bulk("off", 2)).await.place(), "/rules?saved=SIP_HOTEL&version=4");
    let rules = ann.get("/api/v1/rules").await.body;
    assert_eq!(
        (rules.matches("\"state\":\"off\"").count(), rules.matches("\"state\":\"on\"").count()),
        (2, 1)
    );
    let picked = "pick:SIP_HOTEL%2Fa=4&pick:SIP_HOTEL%2Fb=4";
    let export = ann.post("/rules/bulk", &format!("{picked}&action=export")).await;
    assert!(export.status == 200 && export.body.contains("key: \"a\"\nrate: 5\n"), "{}", export.body);
    let ask = ann.post("/rules/bulk", &format!("{picked}&action=delete")).await;
    assert!(ask.status == 200 && ask.body.contains("a, b"), "it asks first: {}", ask.body);
    assert_eq!(ann.post("/rules/bulk", &format!("{picked}&action=delete-now")).await.status, 303);
    assert!(ann.get("/api/v1/rules").await.body.contains("\"total\":1"));
    let mut vic = user(&server, "vic", "viewer").await;
    assert!(!vic.get("/rules").await.body.contains("/rules/bulk"));
    assert_eq!(vic.post("/rules/bulk", "pick:SIP_HOTEL%2Fc=3&action=off").await.status, 403);
}

#[tokio::test]
async fn the_editor_marks_faulty_lines_and_the_settings_of_an_app_are_for_its_admin() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    assert!(ann.get("/files").await.body.contains("No rule files yet"));
    assert_eq!(ann.get("/files/new").await.status, 200);
    let form = |text: &str, action: &str| {
        let text = text.replace('&', "%26").replace(' ', "+").replace('\n', "%0D%0A");
        format!("app=SIP_HOTEL&description=&state=on&text={text}&action={action}&sample=user%3Dann")
    };
    let good = "domain: web\ndescriptors:\n  - {key: user, rate_limit: {rate: 5/minute}}\n";
    let faulty = ann.post("/files/new", &form(&good.replace("rate_limit", "ratelimit"), "save")).await;
    assert_eq!(faulty.status, 422);
    assert!(
        faulty.body.contains("<span class=\"bad\">3</span>") && faulty.body.contains("3:"),
        "{}",
        faulty.body
    );
    let checked = ann.post("/files/new", &form(good, "check")).await;
    assert!(checked.status == 200 && checked.body.contains("5 per minute"), "{}", checked.body);
    assert!(ann.get("/api/v1/apps").await.body.contains("\"total\":0"), "nothing was saved");
    let saved = ann.post("/files/new", &form(good, "save")).await;
    assert!(saved.place().starts_with("/apps/SIP_HOTEL/files/web"), "{} {}", saved.status, saved.body);
    assert_eq!(ann.post("/files/new", &form(good, "save")).await.status, 422, "it is there");
    assert!(ann.get("/files").await.body.contains("web"));
    let file = "/apps/SIP_HOTEL/files/web";
    assert!(ann.get(file).await.body.contains("Documents that nodes get"));
    assert_eq!(ann.post(file, &format!("{}&etag=9", form(good, "save"))).await.status, 412);
    assert_eq!(ann.post(file, &format!("{}&etag=1", form(good, "delete"))).await.status, 303);
    assert_eq!(ann.get(file).await.status, 404);

    let settings = "/apps/SIP_HOTEL/settings";
    let set =
        |approvals: &str, etag: &str| format!("description=x&approvals={approvals}&state=active&etag={etag}");
    assert_eq!(ann.post(settings, &set("3", "1")).await.faults().len(), 1);
    assert_eq!(ann.post(settings, &set("2", "1")).await.status, 303);
    assert_eq!(ann.post(settings, &set("0", "1")).await.status, 412);
    let mut ed = user(&server, "ed", "editor").await;
    assert!(ed.get(settings).await.body.contains("disabled"), "fields that cannot be changed");
    assert_eq!(ed.post(settings, &set("0", "2")).await.status, 403);
}

#[tokio::test]
async fn an_export_imported_elsewhere_exports_the_same() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", &format!("{GOOD}&extras=%7B%22a%22%3A%20%201%7D")).await;
    let text = "domain: web # ours\\ndescriptors:\\n  - {key: user, rate_limit: {rate: 5/minute}}\\n";
    ann.json("POST", "/api/v1/apps/SIP_HOTEL/files", None, &format!(r#"{{"text": "{text}"}}"#)).await;
    let yaml = ann.get("/api/v1/export?app=SIP_HOTEL").await;
    assert!(yaml.status == 200 && yaml.body.contains("web # ours"), "{}", yaml.body);

    let other = ConsoleServer::start().await;
    let mut bob = ConsoleClient::admin(&other).await;
    let dry = bob.json("POST", "/api/v1/import?dry_run=true", None, &yaml.body).await;
    assert!(
        dry.body.contains("\"ok\":true") && dry.body.matches("\"op\":\"create\"").count() == 2,
        "{}",
        dry.body
    );
    assert!(bob.get("/api/v1/apps").await.body.contains("\"total\":0"), "nothing was written");
    let done = bob.json("POST", "/api/v1/import", None, &yaml.body).await;
    assert!(done.status == 200 && done.body.contains("\"published_version\":1"), "{}", done.body);
    assert_eq!(bob.get("/api/v1/export?app=SIP_HOTEL").await.body, yaml.body);
    let again = bob.json("POST", "/api/v1/import", None, &yaml.body).await;
    assert!(again.body.contains("\"changed\":false"), "{}", again.body);
    for (from, to, part) in [
        ("tollgate: 1", "tollgate: 2", "tollgate: 1"),
        ("rate: 5\n", "rate: 0\n", "car[0].rate"),
        ("rate: 5\n", "rat: 5\n", "unknown field"),
        ("5/minute", "5/minuet", "files[0]"),
        ("files:", "filez:", "unknown key"),
    ] {
        let faulty = bob.json("POST", "/api/v1/import", None, &yaml.body.replacen(from, to, 1)).await;
        assert!(faulty.status == 422 && faulty.body.contains(part), "{to}: {}", faulty.body);
        assert!(faulty.body.contains("\"line\":"), "{to}: {}", faulty.body);
    }
    let less = yaml.body.split("files:").next().expect("a part").to_owned();
    assert_eq!(bob.json("POST", "/api/v1/import", None, &less).await.status, 200);
    assert_eq!(bob.get("/api/v1/apps/SIP_HOTEL/files/web").await.status, 404, "what is missing is removed");
}

/// Whether a rule is post-paid is a field of the form, of its YAML and of the API, and each keeps it.
#[tokio::test]
async fn a_post_paid_rule_is_the_same_in_the_form_the_yaml_and_the_api() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.post("/rules/new", &format!("{GOOD}&post_paid=true")).await;
    let path = "/apps/SIP_HOTEL/rules/pushGeo";
    let api = "/api/v1/apps/SIP_HOTEL/rules/pushGeo";
    let published =
        |server: &ConsoleServer| server.control.published().borrow().apps[0].documents[0].yaml().to_owned();
    let is_post_paid = |yaml: String| yaml.contains(", post_paid: true");
    assert!(is_post_paid(published(&server)));
    for (language, shown) in [("en", "After the request (post-paid)"), ("zh", "请求之后（后付）")] {
        let accepts = format!("Accept-Language: {language}");
        let page = ann.send("GET", path, &[&accepts], "").await.body;
        let chosen = format!("<option value=\"true\" selected>{shown}</option>");
        assert!(page.contains(&chosen), "{page}");
        assert!(page.contains("post_paid: true"), "in the preview: {page}");
        // The part of the form in which it is.
        assert!(page.contains("<details class=\"more\" open"), "{page}");
    }
    let yaml = ann.get(&format!("{path}/yaml")).await.body;
    assert!(yaml.contains("post_paid: true"), "{yaml}");
    // What the API returns can be sent back, with another member changed.
    let mut read = ann.get(api).await.value();
    assert_eq!(read["post_paid"], true);
    read["rate"] = 7.into();
    let now = ann.get(api).await;
    assert_eq!(ann.json("PUT", api, Some(now.etag()), &read.to_string()).await.status, 200);
    assert!(is_post_paid(published(&server)) && published(&server).contains("requests_per_unit: 7"));
    // A trial and another state keep it, and so does the YAML.
    let trial = "action=start&etag=2&try_rate=9&try_max_permits=150";
    assert_eq!(ann.post(&format!("{path}/trial"), trial).await.status, 303);
    assert_eq!(published(&server).matches(", post_paid: true").count(), 2, "{}", published(&server));
    let plain = "key: pushGeo\nmax_permits: 90\nrate: 8\n".replace('\n', "%0A");
    let saved = ann.post(&format!("{path}/yaml"), &format!("etag=3&action=save&text={plain}")).await;
    assert_eq!(saved.status, 303, "{}", saved.body);
    assert!(!is_post_paid(published(&server)));
    let past = ann.get(path).await.body;
    assert!(past.contains("Cost reported"), "what differs from the version before: {past}");
}
