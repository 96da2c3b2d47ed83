//! The gallery of examples: each link opens what it shows.

use tollgate_harness::console::{ConsoleClient, ConsoleServer};

/// The text as it stands in a page.
fn plain(html: &str) -> String {
    let signs = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")];
    signs.into_iter().fold(html.to_owned(), |text, (entity, sign)| text.replace(entity, sign))
}

/// The text between `from` and the next `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
    Some(text.split_once(from)?.1.split_once(to)?.0)
}

/// Row 17: whom a limit protects decides what the form makes.
#[tokio::test]
async fn to_protect_a_third_party_the_form_becomes_a_rule_file_with_a_queue_of_its_numbers() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let form = ann.get("/rules/new").await.body;
    assert!(form.contains("name=\"action\" value=\"queue\"") && !form.contains("Burst = rate"), "{form}");
    for (fields, filled) in [
        ("app=SIP_HOTEL&key=pushGeo&max_permits=50&rate=2", true),
        ("app=SIP_HOTEL&key=&max_permits=50&rate=2", false),
        ("app=SIP_HOTEL&key=pushGeo&max_permits=50&rate=x", false),
        ("app=a%22b&key=pushGeo&max_permits=50&rate=2", false),
    ] {
        let reply = ann.post("/rules/new", &format!("{fields}&action=queue")).await;
        assert_eq!(reply.status, 303, "{fields}");
        let page = ann.get(reply.place()).await.body;
        let text = between(&page, "<textarea id=\"text\"", "</textarea>").expect("an editor");
        let text = plain(text.split_once('>').expect("the end of its tag").1);
        let policy = tollgate_rule_files::parse_text("", text.as_str()).expect("a rule file");
        let rule = policy.rules().next().expect("a rule");
        assert_eq!(rule.limits[0].quota.algorithm().name(), "leaky_bucket", "{text}");
        let numbers = ["form: queue", "requests_per_unit: 2\n", "capacity: 50\n", "value: \"pushGeo\""];
        assert_eq!(numbers.map(|it| text.contains(it)), [true, filled, filled, filled], "{text}");
        assert_eq!(text.starts_with("domain: \"SIP_HOTEL-queue\"\n"), filled, "{text}");
    }
    assert!(server.control.published().borrow().apps.is_empty(), "nothing is saved yet");
}

/// Row 96
#[tokio::test]
async fn every_example_opens_a_form_or_a_rule_file_with_what_it_shows() {
    let server = ConsoleServer::start().await;
    let mut ann = ConsoleClient::admin(&server).await;
    let gallery = ann.get("/examples").await.body;
    let mut forms = 0;
    let mut files = 0;
    for card in gallery.split("<section class=\"card\">").skip(1) {
        let title = between(card, "<h2>", "</h2>").expect("a title");
        let shown = plain(between(card, "<pre tabindex=\"0\">", "</pre>").expect("what it holds"));
        let href = plain(between(card, "href=\"", "\"").expect("a link"));
        let page = ann.get(&href).await;
        assert_eq!(page.status, 200, "{title}: {href}");
        if href.starts_with("/files/new") {
            let text = between(&page.body, "<textarea id=\"text\"", "</textarea>").expect("an editor");
            let text = plain(text.split_once('>').expect("the end of its tag").1);
            for line in shown.lines() {
                assert!(text.lines().any(|it| it.trim() == line.trim()), "{title}: {line:?} of {text}");
            }
            let lines = text.lines().filter(|line| !line.is_empty()).count();
            assert_eq!(shown.lines().count() + 2, lines, "{title}: all but the first two lines are shown");
            files += 1;
        } else {
            for line in shown.lines() {
                let (name, value) = line.split_once(": ").expect("name: value");
                let field = between(&page.body, &format!("name=\"{name}\""), ">").expect("a field");
                assert!(field.contains(&format!(" value=\"{value}\"")), "{title}: {line}: {field}");
            }
            forms += 1;
        }
    }
    assert!(forms >= 4 && files >= 3, "{forms} forms, {files} rule files");
}
