//! Rude input in every member of every body and every field of every form: a clear 4xx, what was entered is
//! kept, nothing panics.

use serde_json::{Value, json};
use tollgate_harness::console::{ConsoleClient, ConsoleServer};

use crate::contract::{prepare, target};
use crate::operations::{API, PAGES};

/// Unexpected input of people and programs.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        " ",
        "*",
        "a*b",
        "0",
        "-1",
        "1.5",
        "1e30",
        "1000000000000000000000000000000",
        "NaN",
        "true",
        "null",
        "\u{0}",
        "a\u{1b}[31mb",
        "a\r\nSet-Cookie: x=y",
        "酒店",
        "עברית",
        "\u{202e}evil",
        "😀",
        "<b>bold</b>",
        "\"><script>alert(1)</script>",
        "{{7*7}}",
        "{% include \"base.html\" %}",
        "${jndi:ldap://x}",
        "' OR 1=1 --",
        "../../etc/passwd",
        "%00",
        "a,b;c",
        "&a: [*a, *a]",
    ]
    .map(str::to_owned)
    .into();
    texts.push("x".repeat(70_000));
    texts.push("[".repeat(5_000));
    texts
}

fn values() -> Vec<Value> {
    let mut values: Vec<Value> = texts().into_iter().map(Value::from).collect();
    values.extend([
        json!(null),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e30),
        json!(true),
        json!([]),
        json!({}),
    ]);
    values.extend([
        json!(u64::MAX),
        json!(i64::MIN),
        json!([[[[[1]]]]]),
        json!([{"a": 1}]),
        json!({"a": {"b": []}}),
    ]);
    values
}

#[tokio::test]
async fn every_member_of_every_body_is_held_to_its_bounds() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    let mut sent = 0;
    let mut rejected = 0;
    for operation in API.iter().filter(|it| it.body.starts_with('{') && !it.name.ends_with("/login")) {
        let method = operation.name.split(' ').next().expect("a method");
        let good: Value = serde_json::from_str(operation.body).expect("JSON");
        let members: Vec<String> = good.as_object().expect("an object").keys().cloned().collect();
        let mut bodies = vec![
            String::new(),
            "{".to_owned(),
            "[]".to_owned(),
            "null".to_owned(),
            "\u{feff}{}".to_owned(),
            "\"x\"".to_owned(),
            operation.body.replacen('{', "{\"unknown\":1,", 1),
            operation.body.replacen('{', &format!("{{\"{}\":{},", members[0], good[&members[0]]), 1),
            format!("{{\"{}\":{}1{}}}", members[0], "[".repeat(5_000), "]".repeat(5_000)),
            format!("{{\"{}\":{}1{}}}", members[0], "{\"a\":".repeat(200), "}".repeat(200)),
        ];
        let structural = bodies.len();
        for member in &members {
            for value in values() {
                let mut body = good.clone();
                body[member] = value;
                bodies.push(body.to_string());
            }
        }
        for (index, body) in bodies.into_iter().enumerate() {
            let target = target(&mut ann, operation.target).await;
            let etag = match operation.etag_of {
                "" => None,
                path => ann.get(path).await.field("etag").map(str::to_owned),
            };
            let reply = ann.json(method, &target, etag.as_deref(), &body).await;
            let shown: String = body.chars().take(200).collect();
            let what = format!("{} with {shown}: {} {}", operation.name, reply.status, reply.body);
            sent += 1;
            if reply.status < 300 {
                assert!(index >= structural, "{what}");
                continue;
            }
            rejected += 1;
            assert!(matches!(reply.status, 400 | 403 | 404 | 409 | 412 | 413 | 422 | 429), "{what}");
            let problem = reply.value();
            if reply.status != 412 {
                let kind = problem["type"].as_str().and_then(|it| it.strip_prefix("/problems/"));
                assert!(kind.is_some_and(|it| tollgate_console::PROBLEMS.contains(&it)), "{what}");
                assert!(problem["detail"].as_str().is_some_and(|it| !it.is_empty()), "{what}");
            }
            if reply.status == 422 {
                assert!(problem["errors"][0]["pointer"].is_string(), "{what}");
            }
        }
    }
    assert!(sent > 400 && rejected > 300, "{sent} sent, {rejected} rejected");
    assert_eq!(ann.get("/rules").await.status, 200);
}

/// A form of a page: where it goes, and its fields with their values.
#[derive(Clone, Debug)]
struct Form {
    action: String,
    fields: Vec<(String, String)>,
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?;
    Some(value.replace("&#38;", "&").replace("&#60;", "<").replace("&#62;", ">").replace("&#34;", "\""))
}

/// The forms of a page that change something.
fn forms(page: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    for part in page.split("<form ").skip(1) {
        let text = part.split("</form>").next().unwrap_or_default();
        let head = format!(" {}", text.split('>').next().unwrap_or_default());
        if attribute(&head, "method").as_deref() != Some("post") {
            continue;
        }
        let mut fields: Vec<(String, String)> = Vec::new();
        for kind in ["<input", "<select", "<textarea", "<button"] {
            // A button has no text that could be kept.
            for tag in text.split(kind).skip(1) {
                let tag = tag.split('>').next().unwrap_or_default();
                let Some(name) = attribute(tag, "name") else { continue };
                if !fields.iter().any(|(known, _)| *known == name) {
                    fields.push((name, attribute(tag, "value").unwrap_or_default()));
                }
            }
        }
        forms.push(Form { action: attribute(&head, "action").expect("an action"), fields });
    }
    forms
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// As pages show a text.
fn escaped(text: &str) -> String {
    text.replace('&', "&#38;")
        .replace('<', "&#60;")
        .replace('>', "&#62;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;")
}

#[tokio::test]
async fn every_field_of_every_form_is_held_to_its_bounds_and_kept() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    let secret = ann.cookie.clone();
    let mut sent = 0;
    let mut rejected = 0;
    let mut seen = Vec::new();
    for page in PAGES.iter().filter(|it| it.name.starts_with("GET") && !it.target.starts_with("/api")) {
        let html = ann.get(page.target).await.body;
        for form in forms(&html) {
            // The same form is on many pages; and a logout would end this test.
            let path = form.action.split('?').next().unwrap_or_default().to_owned();
            if seen.contains(&path) || path == "/logout" || path == "/login" {
                continue;
            }
            seen.push(path.clone());
            for index in 0..form.fields.len() {
                for value in texts() {
                    let mut fields = form.fields.clone();
                    fields[index].1.clone_from(&value);
                    let body: Vec<_> =
                        fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
                    ann.cookie.clone_from(&secret);
                    let reply = ann.post(&form.action, &body.join("&")).await;
                    let name = &form.fields[index].0;
                    let shown: String = value.chars().take(60).collect();
                    let what = format!("{path} with {name} = {shown:?}: {}\n{}", reply.status, reply.body);
                    sent += 1;
                    assert!(reply.status < 500, "{what}");
                    assert!(
                        !reply.body.contains("<b>bold") && !reply.body.contains("<script>alert"),
                        "{what}"
                    );
                    if reply.status < 400 {
                        continue;
                    }
                    rejected += 1;
                    let again =
                        forms(&reply.body).into_iter().find(|it| it.action.split('?').next() == Some(&*path));
                    let is_faulted =
                        reply.body.contains("id=\"") && reply.faults().iter().any(|it| !it.is_empty());
                    if reply.status == 422 && is_faulted {
                        let again = again.unwrap_or_else(|| panic!("the form is not there: {what}"));
                        let is_secret = ["password", "again", "current", "action"].contains(&&**name);
                        let is_choice = reply.body.contains(&format!("<select id=\"{name}\""))
                            || reply.body.contains(&format!("type=\"checkbox\" id=\"{name}\""));
                        let is_kept = again.fields.iter().any(|(known, _)| known == name)
                            && (reply.body.contains(&escaped(&value))
                                || is_choice
                                || value.trim().is_empty());
                        assert!(
                            is_secret || is_kept || value.contains('\0') || value.contains('\r'),
                            "kept: {what}"
                        );
                    }
                }
            }
            // Without any field, with one twice, and with far too many.
            for body in [
                String::new(),
                "a=1&a=2".to_owned(),
                (0..500).map(|it| format!("f{it}=1&")).collect::<String>(),
                "%ff%fe=%zz".to_owned(),
                "a".repeat(2 * 1024 * 1024),
            ] {
                ann.cookie.clone_from(&secret);
                let reply = ann.post(&form.action, &body).await;
                let shown: String = body.chars().take(20).collect();
                assert!(reply.status < 500, "{path} with {shown}: {}", reply.status);
            }
        }
    }
    assert!(sent > 1_000 && rejected > 300 && seen.len() > 10, "{sent} sent, {rejected} rejected, {seen:?}");
    ann.cookie = secret;
    assert_eq!(ann.get("/rules").await.status, 200);
}

#[tokio::test]
async fn queries_paths_and_heads_are_held_to_their_bounds() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    prepare(&mut ann).await;
    for value in texts().iter().filter(|it| it.len() < 1_000).map(|it| encoded(it)) {
        for target in [
            format!("/rules?search={value}"),
            format!("/rules?page={value}&size={value}&sort={value}&app={value}"),
            format!("/audit?app={value}&actor={value}&target={value}&action={value}"),
            format!("/audit?from={value}&until={value}&before={value}"),
            format!("/users?after={value}"),
            format!("/tokens?before={value}"),
            format!("/link?code={value}"),
            format!("/login?back={value}"),
            format!("/setup?code={value}"),
            format!("/users/{value}"),
            format!("/apps/{value}/rules/{value}"),
            format!("/apps/{value}/versions/{value}/rollback"),
            format!("/{value}"),
            format!("/api/v1/apps/{value}"),
            format!("/api/v1/apps/{value}/rules/{value}"),
            format!("/api/v1/rules?search={value}"),
            format!("/api/v1/rules?page={value}"),
            format!("/api/v1/users?limit={value}"),
            format!("/api/v1/users?cursor={value}"),
            format!("/api/v1/tokens/{value}"),
            format!("/api/v1/audit?from={value}"),
            format!("/api/v1/audit?cursor={value}"),
            format!("/api/v1/audit/export?after={value}"),
        ] {
            let reply = ann.get(&target).await;
            assert!(reply.status < 500, "{target}: {}", reply.status);
            let is_page = reply.field("content-type").is_some_and(|it| it.starts_with("text/html"));
            let is_raw = reply.body.contains("<b>bold") || reply.body.contains("<script>alert");
            assert!(!(is_page && is_raw), "{target}");
        }
    }
    for etag in
        ["", "*", "1", "W/\"1\"", "\"-1\"", "\"1.5\"", "\"99999999999999999999\"", "\"x\"", "\"1\", \"2\""]
    {
        let path = "/api/v1/apps/SIP_HOTEL/rules/pushGeo";
        let reply = ann.json("DELETE", path, Some(etag), "").await;
        assert_eq!(reply.status, 412, "{etag:?}: {}", reply.body);
    }
}

#[tokio::test]
async fn json_of_64_levels_is_read_and_of_65_is_rejected_whatever_is_in_its_texts() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let nested = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
    // The body itself is a level, and `extras` in it the others.
    let body = |levels: usize, key: &str| {
        let extras = nested(levels - 1);
        format!(r#"{{"key":"{key}","max_permits":1,"description":"[[[{{{{\"","extras":{extras}}}"#)
    };
    for (levels, status) in [(2, 201), (64, 201), (65, 400), (127, 400), (10_000, 400)] {
        let path = "/api/v1/apps/SIP_HOTEL/rules";
        let reply = ann.json("POST", path, None, &body(levels, &format!("k{levels}"))).await;
        assert_eq!(reply.status, status, "{levels} levels: {reply:?}");
        assert_eq!(reply.body.contains("more than 64 levels"), status == 400, "{reply:?}");
    }
    // Of arrays too, and where nothing reads the member.
    let arrays = format!(r#"{{"key":"x","max_permits":1,"app":{}1{}}}"#, "[".repeat(64), "]".repeat(64));
    assert_eq!(ann.json("POST", "/api/v1/apps/SIP_HOTEL/rules", None, &arrays).await.status, 400);
}
