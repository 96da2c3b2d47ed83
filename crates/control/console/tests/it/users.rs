//! Users over real sockets: links, passwords, roles, own logins, preferences.

use tollgate_harness::console::{ConsoleClient, ConsoleServer};

#[tokio::test]
async fn a_new_user_chooses_the_password_by_a_link_that_works_once() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let made = ann.post("/users", "name=Bob&role=editor&app=SIP_HOTEL").await;
    assert_eq!(made.status, 201, "{}", made.body);
    let code = made.body.split("/link?code=").nth(1).expect("a link")[..64].to_owned();
    let mut bob = ConsoleClient::new(&server);
    assert_eq!(bob.post("/login", "name=bob&password=").await.status, 401, "no password yet");
    let form = bob.get(&format!("/link?code={code}")).await;
    assert!(form.status == 200 && form.body.contains("value=\"bob\""), "{}", form.body);
    assert_eq!(bob.get(&format!("/link?code={}", "0".repeat(64))).await.status, 403);
    for (password, again, faults) in [
        ("short", "short", 1),
        ("bob+is+in+this+one", "bob+is+in+this+one", 1),
        ("a+good+long+password", "another+long+password", 1),
        ("", "", 1),
    ] {
        let reply = bob.post("/link", &format!("code={code}&password={password}&again={again}")).await;
        assert_eq!((reply.status, reply.faults().len()), (422, faults), "{password}: {:?}", reply.faults());
    }
    let form = format!("code={code}&password=a+good+long+password&again=a+good+long+password");
    assert_eq!(bob.post("/link", &form).await.place(), "/rules");
    assert_eq!(bob.get("/rules").await.status, 200);
    assert_eq!(ConsoleClient::new(&server).post("/link", &form).await.status, 403, "used");
    assert_eq!(ann.post("/users", "name=bob&role=editor&app=*").await.faults(), ["Exists already"]);
    let page = ann.get("/users/bob").await.body;
    assert!(page.contains("SIP_HOTEL") && page.contains("Editor") && !page.contains(&code));
    // A reset ends the password and the logins; its link ends after three days.
    let reset = ann.post("/users/bob/link", "").await;
    assert_eq!(reset.status, 201);
    assert_eq!(bob.get("/rules").await.status, 303);
    assert_eq!(bob.post("/login", "name=bob&password=a+good+long+password").await.status, 401);
    let code = reset.body.split("/link?code=").nth(1).expect("a link")[..64].to_owned();
    let until = 72 * 3_600_000;
    server.set_time(server.now_ms() + until - 1);
    assert_eq!(bob.get(&format!("/link?code={code}")).await.status, 200);
    server.set_time(server.now_ms() + 1);
    assert_eq!(bob.get(&format!("/link?code={code}")).await.status, 403);
}

#[tokio::test]
async fn a_role_is_granted_and_taken_away_at_once_and_the_last_admin_stays() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    ann.json("POST", "/api/v1/apps/SIP_HOTEL/rules", None, r#"{"key": "a", "max_permits": 1}"#).await;
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "OTHER").await;
    assert_eq!(vic.get("/apps/SIP_HOTEL/rules/a").await.status, 403);
    assert_eq!(ann.post("/users/vic/roles", "app=SIP_HOTEL&role=editor").await.place(), "/users/vic");
    assert_eq!(vic.get("/apps/SIP_HOTEL/rules/a").await.status, 200);
    assert_eq!(ann.post("/users/vic/roles", "app=a+b&role=editor").await.status, 422);
    assert_eq!(ann.post("/users/vic/roles", "app=A&role=god").await.status, 400);
    assert_eq!(ann.post("/users/vic/roles/remove", "app=SIP_HOTEL").await.status, 303);
    assert_eq!(vic.get("/apps/SIP_HOTEL/rules/a").await.status, 403);
    for (path, form) in [("/users/ann/state", "state=disabled"), ("/users/ann/roles/remove", "app=*")] {
        let reply = ann.post(path, form).await;
        assert_eq!(reply.status, 422, "{path}");
        assert!(reply.body.contains("last admin"), "{path}: {}", reply.body);
    }
    assert_eq!(ann.post("/users/nobody/state", "state=disabled").await.status, 404);
    // Over the API a change names what it changes.
    let etag = ann.get("/api/v1/users/vic").await.field("etag").expect("an etag").to_owned();
    let path = "/api/v1/users/vic/roles/SIP_HOTEL";
    let set = ann.json("PUT", path, Some(&etag), r#"{"role": "approver"}"#).await;
    assert_eq!(set.value()["roles"][1]["role"], "approver", "{}", set.body);
    let late = ann.json("PUT", path, Some(&etag), r#"{"role": "viewer"}"#).await;
    assert_eq!((late.status, &late.value()["roles"][1]["role"]), (412, &"approver".into()));
}

/// Row 91
#[tokio::test]
async fn a_disabled_user_is_out_at_once_and_comes_back_when_enabled_and_the_list_shows_the_last_login() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "*").await;
    let first = server.now_ms();
    assert_eq!(ann.get("/api/v1/users/vic").await.value()["last_login_at"], first);
    let login = "name=vic&password=another+good+password";
    for state in ["disabled", "active"] {
        let is_out = state == "disabled";
        server.set_time(server.now_ms() + 60_000);
        assert_eq!(ann.post("/users/vic/state", &format!("state={state}")).await.status, 303, "{state}");
        let user = ann.get("/api/v1/users/vic").await.value();
        let list = ann.get("/users").await.body;
        assert_eq!((&user["state"], list.contains(">disabled<")), (&state.into(), is_out), "{list}");
        assert_eq!(user["last_login_at"], first, "{state}: nobody has logged in since");
        // Neither the login that there is nor a new one is worth anything to a disabled user.
        assert_eq!(vic.get("/rules").await.status, 303, "{state}: the login before has ended");
        let again = ConsoleClient::new(&server).post("/login", login).await;
        assert_eq!(again.status, if is_out { 401 } else { 303 }, "{state}");
    }
    assert_eq!(ann.get("/api/v1/users/vic").await.value()["last_login_at"], server.now_ms());
    assert_eq!(vic.post("/login", login).await.status, 303);
    assert_eq!(vic.get("/rules").await.status, 200);
}

#[tokio::test]
async fn users_see_and_end_their_own_logins_and_change_their_password() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let mut phone = ConsoleClient::again(&server).await;
    let logins = ann.get("/api/v1/me/logins").await.value();
    let logins = logins["logins"].as_array().expect("logins").clone();
    assert_eq!(logins.len(), 2);
    let other = logins.iter().find(|it| it["is_this"] == false).expect("the other");
    let id = other["id"].as_str().expect("an id");
    assert_eq!(ann.post(&format!("/me/logins/{id}/end"), "").await.status, 303);
    assert_eq!(phone.get("/rules").await.status, 303, "it has ended");
    assert_eq!(ann.json("DELETE", &format!("/api/v1/me/logins/{id}"), None, "").await.status, 404);
    let mut vic = ConsoleClient::user(&server, "vic", "viewer", "*").await;
    let mine = ann.get("/api/v1/me/logins").await.value()["logins"][0]["id"].clone();
    let path = format!("/api/v1/me/logins/{}", mine.as_str().expect("an id"));
    assert_eq!(vic.json("DELETE", &path, None, "").await.status, 404, "of another user");
    let phone = ConsoleClient::again(&server).await;
    let form =
        |current: &str| format!("current={current}&password=correct+horse+stable&again=correct+horse+stable");
    let wrong = ann.post("/me/password", &form("wrong+horse+battery")).await;
    assert_eq!((wrong.status, wrong.faults()), (422, vec!["Wrong password"]));
    assert_eq!(ann.post("/me/password", &form("correct+horse+battery")).await.place(), "/me?done=password");
    assert_eq!(ann.get("/rules").await.status, 200, "this login stays");
    let mut phone = phone;
    assert_eq!(phone.get("/rules").await.status, 303, "the others end");
    assert_eq!(phone.post("/login", "name=ann&password=correct+horse+stable").await.status, 303);
}

#[tokio::test]
async fn language_theme_and_zone_are_kept_with_the_user() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    assert_eq!(ann.post("/me", "locale=zh&theme=dark&zone=Asia%2FShanghai").await.place(), "/me?done=saved");
    let mut elsewhere = ConsoleClient::again(&server).await;
    let page = elsewhere.send("GET", "/me", &["Accept-Language: en"], "").await.body;
    assert!(
        page.contains("lang=\"zh-CN\"") && page.contains("data-theme=\"dark\"") && page.contains("Shanghai")
    );
    let wrong = ann.post("/me", "locale=fr&theme=&zone=Mars%2FBase").await;
    assert_eq!((wrong.status, wrong.faults().len()), (422, 2), "{:?}", wrong.faults());
    let me = ann.get("/api/v1/me").await;
    assert_eq!((&me.value()["locale"], &me.value()["zone"]), (&"zh".into(), &"Asia/Shanghai".into()));
    let etag = me.field("etag").map(str::to_owned);
    let changed = ann.json("PATCH", "/api/v1/me", etag.as_deref(), r#"{"locale": "en"}"#).await;
    assert_eq!((&changed.value()["locale"], &changed.value()["theme"]), (&"en".into(), &"dark".into()));
    assert_eq!(ann.post("/preferences", "lang=zh&back=/me").await.place(), "/me");
    assert!(elsewhere.get("/me").await.body.contains("lang=\"zh-CN\""));
}
