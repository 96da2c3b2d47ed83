//! `#[rate_limit]` on functions and on handlers of axum.

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tollgate::registry::{self, RuleDenied};
use tollgate::{Denied, Quota, rate_limit};
use tollgate_human_text::with_causes;
use tower::ServiceExt;

#[rate_limit(app = "HOTEL_SIP", name = "TEST", need_permits = 2, desc = "rooms")]
fn rooms(hotel: u32) -> Result<u32, RuleDenied> {
    Ok(hotel + 1)
}

#[rate_limit(app = "HOTEL_SIP", name = "PER_USER", quota = "1/hour", key = "user")]
async fn book(user: &str, rooms: u32) -> Result<u32, Denied> {
    let _user = user;
    std::future::ready(Ok(rooms)).await
}

#[rate_limit(app = "HOTEL_SIP", name = "STAY", quota = "1/hour", key = "guest.name")]
fn stay(guest: &Guest) -> Option<u32> {
    Some(guest.room)
}

#[rate_limit(app = "HOTEL_SIP", name = "TRY", quota = "1/hour", fallback = later)]
fn ask() -> impl std::fmt::Display {
    "now".to_owned()
}

fn later(denied: RuleDenied) -> String {
    format!("later, says {}", denied.name())
}

struct Guest {
    name: String,
    room: u32,
}

impl Guest {
    #[rate_limit(app = "HOTEL_SIP", name = "PER_USER", quota = "5/hour", key = "self.name")]
    fn leave(&self) -> Result<u32, Box<dyn std::error::Error>> {
        Ok(self.room)
    }
}

#[test]
fn a_function_registers_its_rule_and_obeys_the_quota_that_is_set_at_run_time() {
    let rule = || registry::all().into_iter().find(|rule| (&*rule.app, &*rule.name) == ("HOTEL_SIP", "TEST"));
    assert_eq!(rule(), None);
    for _ in 0..100 {
        assert_eq!(rooms(1).ok(), Some(2), "without a quota everything is admitted");
    }
    let registered = rule().expect("registered by the first call");
    assert!(registered.is_registered && registered.bounds.is_none());
    assert_eq!((registered.need_permits, registered.desc), (2, "rooms"));

    registry::set_quota("HOTEL_SIP", "TEST", Quota::per_hour(4)).expect("a quota");
    let answers = [(); 3].map(|()| rooms(1).is_ok());
    assert_eq!(answers, [true, true, false], "each call takes two");
    let denied = rooms(1).expect_err("denied");
    let shown = with_causes(&denied).to_string();
    assert!(shown.starts_with("HOTEL_SIP/TEST (rooms): rate limit exceeded; retry in"), "{shown}");

    registry::set_quota("HOTEL_SIP", "TEST", Quota::per_hour(6)).expect("a quota");
    assert_eq!([(); 2].map(|()| rooms(1).is_ok()), [true, false], "what was taken stays taken");
    registry::set_quota("HOTEL_SIP", "TEST", Quota::per_hour(1).burst(0)).expect_err("no burst");
    assert_eq!(rule().and_then(|rule| rule.bounds).map(|bounds| bounds.limit), Some(6));
}

#[tokio::test]
async fn the_values_of_the_key_have_permits_of_their_own_and_equal_names_share_them() {
    assert_eq!(book("ann", 2).await.ok(), Some(2));
    assert!(book("ann", 2).await.is_err());
    assert!(book("bob", 2).await.is_ok());
    // Another function of the same rule counts with it.
    let guest = |name: &str| Guest { name: name.to_owned(), room: 7 };
    assert!(guest("ann").leave().is_err() && guest("cid").leave().is_ok());
    assert!(book("cid", 1).await.is_err());
    assert_eq!([stay(&guest("ann")), stay(&guest("ann")), stay(&guest("bob"))], [Some(7), None, Some(7)]);
}

#[test]
fn a_fallback_answers_for_a_denied_call() {
    assert_eq!(ask().to_string(), "now");
    assert_eq!(ask().to_string(), "later, says TRY");
}

#[rate_limit(app = "SHOP", name = "ITEM", quota = "1/hour", key = "id")]
async fn item(Path(id): Path<u64>) -> Result<String, Response> {
    Ok(format!("item {id}"))
}

#[rate_limit(app = "SHOP", name = "CART", quota = "1/hour", template = "busy, {{retry_after}} s")]
async fn cart() -> Response {
    "cart".into_response()
}

#[rate_limit(app = "SHOP", name = "LIST", quota = "1/hour")]
async fn list() -> Result<impl IntoResponse, Response> {
    Ok("list")
}

#[tokio::test]
async fn handlers_of_axum_are_limited_and_reply_with_429_and_the_template() {
    let routes: Router =
        Router::new().route("/item/{id}", get(item)).route("/cart", get(cart)).route("/list", get(list));
    let ask = async |path: &str| {
        let request = Request::get(path).body(axum::body::Body::empty()).expect("a request");
        let response = routes.clone().oneshot(request).await.expect("a response");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (head, String::from_utf8(body.to_vec()).expect("a text"))
    };
    for (path, want) in [("/item/1", "item 1"), ("/item/2", "item 2"), ("/cart", "cart"), ("/list", "list")] {
        assert_eq!(ask(path).await.1, want);
    }
    let (head, body) = ask("/cart").await;
    assert_eq!((head.status, body.as_str()), (StatusCode::TOO_MANY_REQUESTS, "busy, 3600 s"));
    assert_eq!(head.headers["content-type"], "text/plain; charset=utf-8");
    for (path, name) in [("/item/1", "ITEM"), ("/item/2", "ITEM"), ("/list", "LIST")] {
        let (head, body) = ask(path).await;
        assert_eq!(head.status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(head.headers["retry-after"], "3600");
        assert!(body.contains(&format!(r#""violated-policies":["{name}"]"#)), "{body}");
    }
}
