//! From creating a rule to a request that is denied on every node.

use tollgate_harness::processes::*;

#[test]
fn a_rule_made_by_the_form_and_one_by_the_api_deny_on_all_three_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let nodes = three(&control, folder.path());
    for node in &nodes {
        assert_eq!(node.ready().0, 503, "without rules: {:?}", node.ready());
        assert_eq!(node.check("shop", "push"), "undecided", "it does not know what is limited");
    }
    let form = "app=shop&key=push&max_permits=2&rate=1&description=&terms=yes&action=save";
    let fields = "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n";
    let (status, said) = control.try_send("POST", "/rules/new", fields, form).expect("an answer");
    assert_eq!(status, 303, "{said}");
    control.create_rule("shop", "pull", 1);
    for node in &nodes {
        node.wait_denied("shop", "push");
        node.wait_denied("shop", "pull");
        let ready = node.wait_ready("ready", |status, _| status == 200);
        assert_eq!((&ready["control"]["connected"], &ready["control"]["apps"]), (&true.into(), &1.into()));
        assert_eq!(node.metric("tollgate_control_connected"), Some(1));
    }
    // The console shows where it is in force.
    wait("the nodes have acknowledged", || {
        let (_, page) = control.get("/nodes");
        let all = ["a", "b", "c"].iter().all(|name| page.contains(&format!(">{name}<")));
        all.then_some(())
    });
    let (status, metrics) = control.get("/metrics");
    assert_eq!(status, 200, "{metrics}");
    for (name, want) in [
        ("tollgate_control_nodes{state=\"live\"}", 3),
        ("tollgate_control_nodes{state=\"lost\"}", 0),
        ("tollgate_control_node_streams", 3),
        ("tollgate_control_publications_total", 2),
        ("tollgate_control_hellos_deferred_total", 0),
    ] {
        assert_eq!(metric(&metrics, name), Some(want), "{name} in {metrics}");
    }
    let alerts = include_str!("../../../../deploy/alerts.yml");
    for asked in alerts.split("expr: ").skip(1).filter(|it| it.starts_with("tollgate_control_")) {
        let name = asked.split(['{', ' ']).next().unwrap_or_default();
        let is_there = metrics.lines().any(|it| it.starts_with(name));
        assert!(is_there, "an alert asks for {name}, which is not in {metrics}");
    }
}

#[test]
fn a_wrong_token_is_rejected_with_the_reason_and_the_node_is_not_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    control.create_rule("shop", "push", 1);
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "tgn_0000000000000000\n").expect("written");
    let mut command = NodeProcess::command(&control, &folder.path().join("a"), &["--control-wait", "0"]);
    command.arg("--control-token-file").arg(&wrong); // the last one counts
    let process = Process::start(command);
    let node = NodeProcess { process, state: folder.path().join("a") };
    let ready = node.wait_ready("the reason", |_, body| body["control"]["why"].is_string());
    let why = ready["control"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("--control-token-file"), "{why}");
    assert_eq!((&ready["ready"], &ready["control"]["connected"]), (&false.into(), &false.into()));
    assert!(ready["control"]["away_since"].is_string(), "{ready}");
    assert_eq!(node.metric("tollgate_control_connected"), Some(0));
    assert_eq!(node.check("shop", "push"), "undecided");
}

#[test]
fn an_app_whose_domain_the_node_has_in_a_file_is_rejected_and_the_others_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let local = folder.path().join("rules");
    std::fs::create_dir(&local).expect("a folder");
    let file = local.join("shop.yaml");
    let rule = "domain: shop\ndescriptors: [{key: key, value: local, rate_limit: {unit: year, requests_per_unit: 1}}]\n";
    std::fs::write(&file, rule).expect("written");
    let flags = ["--rules", local.to_str().expect("text")];
    let node = NodeProcess::start(&control, &folder.path().join("a"), &flags);
    assert_eq!(node.ready().0, 200, "its own rules are enough");
    control.create_rule("shop", "push", 1);
    control.create_rule("books", "push", 1);
    node.wait_denied("books", "push");
    node.wait_denied("shop", "local");
    assert_eq!(node.check("shop", "push"), "admit", "the domain belongs to the file");
    let fault = wait("the console shows the clash", || {
        let (_, page) = control.get("/nodes");
        page.contains("shop.yaml").then_some(page)
    });
    assert!(fault.contains("shop"), "{fault}");
    // Without the file, the app takes the domain over.
    std::fs::write(&file, rule.replace("domain: shop", "domain: own")).expect("written");
    node.process.signal("HUP");
    node.wait_denied("shop", "push");
    node.wait_denied("own", "local");
    // A file that is invalid changes nothing, and readiness says why.
    std::fs::write(&file, "domain: own\ndescriptors: [{key: key, rate_limit: {unit: yaer}}]\n")
        .expect("written");
    node.process.signal("HUP");
    let ready = node.wait_ready("the error", |_, body| body["rules"]["last_error"].is_string());
    assert!(ready["rules"]["last_error"].as_str().is_some_and(|it| it.contains("shop.yaml:2:")), "{ready}");
    assert_eq!(ready["ready"], true);
    node.wait_denied("own", "local");
}

#[test]
fn the_last_rule_of_an_app_goes_and_the_node_stays_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let control = ControlProcess::start(&folder.path().join("data"));
    let node = NodeProcess::start(&control, &folder.path().join("a"), &[]);
    control.create_rule("shop", "push", 1);
    node.wait_denied("shop", "push");
    let (status, said) = control
        .try_send("DELETE", "/api/v1/apps/shop/rules/push", "If-Match: \"1\"\r\n", "")
        .expect("an answer");
    assert!(status < 300, "{status} {said}");
    wait("nothing is limited", || (node.check("shop", "push") == "admit").then_some(()));
    assert_eq!(node.ready().0, 200, "a fleet must not leave its load balancers with its last rule");
}
