//! `deploy/kubernetes` and `deploy/kubernetes-control`: each resource has fields that Kubernetes knows, all
//! of them fit together, and what their pods run starts here.

use std::net::SocketAddr;

use tollgate_testkit::redis::{Options, Redis, free_port, poll};

use super::*;

const NODES: &str = "deploy/kubernetes";
const CONTROL: &str = "deploy/kubernetes-control";
/// Files that an operator adds to `resources`, for the Prometheus operator.
const ON_REQUEST: [&str; 2] = ["servicemonitor.yaml", "prometheusrule.yaml"];

/// A resource, and the file that it is in.
fn resources(folder: &str) -> Vec<(String, Value)> {
    let mut names: Vec<_> = std::fs::read_dir(root().join(folder))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let read = |name: String| {
        let documents = yaml::read_all_typed(&root().join(folder).join(&name));
        documents.into_iter().map(move |document| (name.clone(), document))
    };
    names.into_iter().flat_map(read).collect()
}

/// The resource of this kind and name, in either folder.
fn resource(kind: &str, name: &str) -> Value {
    let mut all = resources(NODES).into_iter().chain(resources(CONTROL));
    let found = all.find(|(file, it)| {
        !is_patch(file) && it["kind"] == kind && (it["metadata"]["name"] == name || it["metadata"].is_null())
    });
    found.unwrap_or_else(|| panic!("no {kind} {name}")).1
}

fn is_patch(file: &str) -> bool {
    let patches = yaml::read(&root().join(CONTROL).join("kustomization.yaml"))["patches"].clone();
    patches.as_array().expect("patches").iter().any(|patch| patch["path"] == file)
}

/// The only container of a Deployment or a StatefulSet.
fn container(of: &Value) -> Value {
    let containers = of["spec"]["template"]["spec"]["containers"].as_array().expect("containers");
    assert_eq!(containers.len(), 1);
    containers[0].clone()
}

fn args(container: &Value) -> Vec<String> {
    let args = container["args"].as_array().expect("a list").iter();
    args.map(|arg| arg.as_str().expect("text").to_owned()).collect()
}

/// The value of a flag of a container.
fn flag(container: &Value, name: &str) -> Option<String> {
    args(container).iter().find_map(|arg| arg.strip_prefix(&format!("--{name}="))).map(str::to_owned)
}

/// A variable of a container.
fn env(container: &Value, name: &str) -> Value {
    let env = container["env"].as_array().expect("variables");
    env.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
}

/// Everything that runs pods.
fn workloads() -> [Value; 3] {
    [
        resource("Deployment", "tollgate"),
        resource("StatefulSet", "valkey"),
        resource("StatefulSet", "tollgate-control"),
    ]
}

#[test]
fn every_resource_has_the_fields_of_its_kind_and_is_listed() {
    let shapes: Value = serde_json::from_str(include_str!("kubernetes.json")).expect("JSON");
    for (folder, want) in [
        (
            NODES,
            &[
                "ConfigMap",
                "Deployment",
                "HorizontalPodAutoscaler",
                "Kustomization",
                "NetworkPolicy",
                "NetworkPolicy",
                "PodDisruptionBudget",
                "PrometheusRule",
                "Service",
                "Service",
                "ServiceMonitor",
                "StatefulSet",
            ][..],
        ),
        (CONTROL, &["Kustomization", "NetworkPolicy", "Service", "StatefulSet"]),
    ] {
        let mut kinds = Vec::new();
        let kustomization = yaml::read(&root().join(folder).join("kustomization.yaml"));
        let listed = yaml::strings(&kustomization["resources"]);
        for (file, mut resource) in resources(folder) {
            let is_patch = folder == CONTROL && is_patch(&file);
            let is_left_out = file == "kustomization.yaml" || ON_REQUEST.contains(&file.as_str()) || is_patch;
            assert_eq!(listed.contains(&file.as_str()), !is_left_out, "{file}");
            if is_patch {
                continue; // a part of a resource
            }
            let fields = resource.as_object_mut().expect("a map");
            let [version, kind] = ["apiVersion", "kind"].map(|name| {
                fields.remove(name).and_then(|value| Some(value.as_str()?.to_owned())).expect(name)
            });
            let shape = &shapes[format!("{version} {kind}")];
            assert!(shape.is_object(), "{file}: {version} {kind} is not a kind that we know");
            assert_eq!(shape::faults(&shapes, shape, &resource, &file), Vec::<String>::new());
            kinds.push(kind);
        }
        kinds.sort();
        assert_eq!(kinds, want, "{folder}");
    }
}

#[test]
fn the_alerts_of_the_operator_are_those_of_the_file() {
    let alerts = read("deploy/alerts.yml");
    let groups = &alerts[alerts.find("groups:").expect("groups")..];
    let mut want = String::from(
        "# The alerts of ../alerts.yml for the Prometheus operator, whose resource this is. A test writes it.\n\
         apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: tollgate\n  labels:\n    \
         app.kubernetes.io/name: tollgate\nspec:\n",
    );
    for line in groups.lines() {
        want += &if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") };
    }
    let file = root().join(NODES).join("prometheusrule.yaml");
    if std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        std::fs::write(&file, &want).expect("written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == want,
        "it is out of date: TOLLGATE_WRITE_DOCS=1 cargo test -p tollgate-server --test deploy"
    );
    assert_eq!(yaml::read(&file)["spec"]["groups"], yaml::read(&root().join("deploy/alerts.yml"))["groups"]);
}

#[test]
fn pods_services_policies_and_budgets_refer_to_each_other() {
    for workload in workloads() {
        let name = workload["metadata"]["name"].as_str().expect("a name");
        let pod = &workload["spec"]["template"];
        let container = container(&workload);
        let labels = &pod["metadata"]["labels"];
        assert_eq!(&workload["spec"]["selector"]["matchLabels"], labels, "{name}");
        assert_eq!(pod["spec"]["enableServiceLinks"], false, "{name}");
        assert_eq!(pod["spec"]["automountServiceAccountToken"], false, "{name}");
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{name}");
        assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true, "{name}");
        // The service leads to its pods, and so does the policy, each to ports that there are.
        let ports = container["ports"].as_array().expect("ports");
        let has = |name: &Value| ports.iter().any(|port| port["name"] == *name);
        let service = resource("Service", name);
        assert_eq!(&service["spec"]["selector"], labels, "{name}");
        for port in service["spec"]["ports"].as_array().expect("ports") {
            assert!(has(&port["targetPort"]) && port["name"] == port["targetPort"], "{name}: {port}");
            let of_pod = ports.iter().find(|it| it["name"] == port["name"]).expect("it is there");
            assert_eq!(of_pod["containerPort"], port["port"], "{name}");
        }
        let policy = resource("NetworkPolicy", name);
        assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels, "{name}");
        let open: Vec<_> = policy["spec"]["ingress"][0]["ports"]
            .as_array()
            .expect("ports")
            .iter()
            .map(|it| &it["port"])
            .collect();
        assert_eq!(open, ports.iter().map(|port| &port["name"]).collect::<Vec<_>>(), "{name}");
        for from in policy["spec"]["ingress"][0]["from"].as_array().expect("peers") {
            let peer = &from["podSelector"]["matchLabels"];
            let is_known = workloads().iter().any(|it| it["spec"]["template"]["metadata"]["labels"] == *peer);
            assert!(peer.is_null() || is_known, "{name}: {from}");
        }
        // Each mount has a volume, and each written path is on a writable one.
        let claims = workload["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
        let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        for mount in container["volumeMounts"].as_array().expect("mounts") {
            let volume = volumes.iter().find(|it| it["name"] == mount["name"]);
            let is_claimed = claims.iter().any(|it| it["metadata"]["name"] == mount["name"]);
            assert!(volume.is_some() != is_claimed, "{name}: {mount}");
            let is_writable = is_claimed || volume.is_some_and(|it| it["emptyDir"].is_object());
            assert_eq!(mount["readOnly"] != true, is_writable, "{name}: {mount}");
        }
        for probe in ["readinessProbe", "livenessProbe", "startupProbe"] {
            let port = &container[probe]["httpGet"]["port"];
            assert!(port.is_null() || has(port), "{name}: {probe}");
        }
    }
    let deployment = resource("Deployment", "tollgate");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&resource("PodDisruptionBudget", "tollgate")["spec"]["selector"]["matchLabels"], labels);
    let monitor = resource("ServiceMonitor", "tollgate");
    assert_eq!(
        monitor["spec"]["selector"]["matchLabels"],
        resource("Service", "tollgate")["metadata"]["labels"]
    );
    let node = container(&deployment);
    let ports = node["ports"].as_array().expect("ports");
    assert!(ports.iter().any(|port| port["name"] == monitor["spec"]["endpoints"][0]["port"]));
    assert_eq!(monitor["spec"]["endpoints"][0]["path"], "/metrics");

    let scaled = &resource("HorizontalPodAutoscaler", "tollgate")["spec"];
    assert_eq!(scaled["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    assert!(deployment["spec"]["replicas"].is_null(), "each apply would undo what the autoscaler has set");
    let away = &resource("PodDisruptionBudget", "tollgate")["spec"]["maxUnavailable"];
    assert!(scaled["minReplicas"].as_u64() > away.as_u64(), "a node that is drained would take all pods");
    let grace =
        |workload: &Value| workload["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_u64();
    assert!(grace(&deployment) > Some(5 + 30), "longer than the drain");
    assert!(grace(&resource("StatefulSet", "tollgate-control")) > Some(30), "longer than the drain");
    let image = &resource("Kustomization", "")["images"][0]["name"];
    assert_eq!(&node["image"], image);
}

#[test]
fn a_node_listens_where_its_ports_are_and_has_as_many_workers_as_it_asks_for() {
    let node = container(&resource("Deployment", "tollgate"));
    for port in node["ports"].as_array().expect("ports") {
        let name = port["name"].as_str().expect("a name");
        assert_eq!(flag(&node, name), Some(format!("0.0.0.0:{}", port["containerPort"])), "{name}");
    }
    // Without a password, every client that reaches the Redis protocol is served.
    assert_eq!(flag(&node, "resp").as_deref(), Some("off"));
    for (probe, path) in
        [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz"), ("startupProbe", "/healthz")]
    {
        let get = &node[probe]["httpGet"];
        assert_eq!((&get["path"], &get["port"]), (&path.into(), &"http".into()));
    }
    // Kubernetes rounds the request up to a multiple of the divisor, so that half a core is a worker too.
    let workers = &env(&node, "TOLLGATE_WORKERS")["valueFrom"]["resourceFieldRef"];
    assert_eq!((&workers["resource"], &workers["divisor"]), (&"requests.cpu".into(), &"1".into()));
    assert_eq!(workers["containerName"], node["name"]);
    assert!(node["resources"]["requests"]["cpu"].is_string(), "without a request there would be 0 workers");
    // The counters fit into the pod, with room for connections.
    let limit = node["resources"]["limits"]["memory"].clone();
    assert_eq!((flag(&node, "memory-max").as_deref(), limit.as_str()), (Some("256MiB"), Some("512Mi")));
    // The store that it counts in is there, with the password that the node has.
    let store = env(&node, "TOLLGATE_STORE")["value"].as_str().expect("an address").to_owned();
    let (host, port) =
        store.strip_prefix("redis://").and_then(|it| it.split_once(':')).expect("host and port");
    assert_eq!(resource("Service", host)["spec"]["ports"][0]["port"].to_string(), port);
    let secret = |container: &Value, name: &str| {
        let mut secret = env(container, name)["valueFrom"]["secretKeyRef"].clone();
        secret.as_object_mut().expect("a secret").remove("optional");
        secret
    };
    let valkey = container(&resource("StatefulSet", host));
    assert_eq!(secret(&node, "TOLLGATE_STORE_PASSWORD"), secret(&valkey, "REDISCLI_AUTH"));
    assert!(args(&valkey).contains(&"$(REDISCLI_AUTH)".to_owned()), "it demands the password");
    for (container, command) in
        [(node, "serve"), (container(&resource("StatefulSet", "tollgate-control")), "control")]
    {
        let args = args(&container);
        assert_eq!(
            (args[0].as_str(), fault(&args.iter().map(String::as_str).collect::<Vec<_>>())),
            (command, None)
        );
        for env in container["env"].as_array().into_iter().flatten() {
            let name = env["name"].as_str().expect("a name");
            let known = tollgate_server::settings::SETTINGS.iter().any(|setting| setting.env() == name);
            assert!(known, "{name} is not a setting");
        }
    }
}

/// Output of `kubectl kustomize` for a folder.
fn rendered(folder: &str) -> Option<Vec<Value>> {
    let ran = Command::new("kubectl").arg("kustomize").arg(root().join(folder)).output();
    let Ok(ran) = ran else {
        println!("SKIPPED kustomize {folder}: there is no kubectl on this machine");
        return None;
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), ran.stdout).expect("written");
    Some(yaml::read_all_typed(file.path()))
}

/// The container of the nodes of a control plane: that of the Deployment, with the patch applied.
fn patched() -> Value {
    let mut node = container(&resource("Deployment", "tollgate"));
    let patch = resources(CONTROL).into_iter().find(|(file, _)| file == "nodes.yaml").expect("a patch").1;
    let patch = container(&patch);
    node["args"] = patch["args"].clone();
    let env =
        patch["env"].as_array().expect("variables").iter().chain(node["env"].as_array().expect("variables"));
    node["env"] = env.cloned().collect();
    node
}

#[test]
fn nodes_of_a_control_plane_differ_only_in_where_their_rules_come_from() {
    let base = container(&resource("Deployment", "tollgate"));
    let without_rules: Vec<_> = args(&base).into_iter().filter(|arg| !arg.starts_with("--rules=")).collect();
    assert_eq!(args(&patched()), without_rules);
    for folder in [NODES, CONTROL] {
        let Some(all) = rendered(folder) else { return };
        let is_control = folder == CONTROL;
        let count = |kind: &str| all.iter().filter(|it| it["kind"] == kind).count();
        assert_eq!([count("StatefulSet"), count("ConfigMap")], if is_control { [2, 0] } else { [1, 1] });
        let deployment = all.iter().find(|it| it["kind"] == "Deployment").expect("the nodes");
        let node = container(deployment);
        if is_control {
            assert_eq!((&node["args"], &node["env"]), (&patched()["args"], &patched()["env"]));
        }
        let names = |list: &Value| {
            let names = list
                .as_array()
                .expect("a list")
                .iter()
                .map(|it| it["name"].as_str().expect("a name").to_owned());
            names.collect::<std::collections::BTreeSet<_>>()
        };
        let volumes = names(&deployment["spec"]["template"]["spec"]["volumes"]);
        assert_eq!(names(&node["volumeMounts"]), volumes);
        let want = if is_control { ["control", "state"] } else { ["rules", "state"] };
        assert_eq!(volumes, want.map(str::to_owned).into());
    }
}

/// A container of ours as it starts here: with other addresses and paths, each as `(there, here)`.
fn started(container: &Value, here: &[(String, String)], more: &[(&str, &str)]) -> ReadyProcess {
    let translated =
        |text: &str| here.iter().fold(text.to_owned(), |text, (there, here)| text.replace(there, here));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear().args(args(container).iter().map(|arg| translated(arg)));
    for env in container["env"].as_array().into_iter().flatten() {
        let name = env["name"].as_str().expect("a name");
        if let Some(value) = env["value"].as_str() {
            command.env(name, translated(value));
        }
    }
    ReadyProcess::start(command.envs(more.iter().copied()))
}

/// Ports of this machine instead of those of a pod.
fn elsewhere(more: &[(&str, String)]) -> Vec<(String, String)> {
    let ports = [("0.0.0.0:8081", "127.0.0.1:0"), ("0.0.0.0:8080", "127.0.0.1:0")];
    let ports = ports.into_iter().map(|(there, here)| (there.to_owned(), here.to_owned()));
    ports.chain(more.iter().map(|(there, here)| ((*there).to_owned(), here.clone()))).collect()
}

/// The words of the store's command, for Options.
fn store() -> Options {
    let valkey = container(&resource("StatefulSet", "valkey"));
    let words = args(&valkey);
    words[1..].chunks(2).fold(Options::new(), |options, pair| {
        match pair[0].strip_prefix("--").expect("a flag") {
            "requirepass" => options.password("store-password"),
            name => options.set(name, &pair[1]),
        }
    })
}

#[test]
fn pods_count_together_in_the_store_and_are_not_ready_without_it() {
    let node = container(&resource("Deployment", "tollgate"));
    let folder = tempfile::tempdir().expect("a folder");
    let rules = folder.path().join("rules");
    std::fs::create_dir(&rules).expect("made");
    for (name, text) in resource("ConfigMap", "tollgate-rules")["data"].as_object().expect("files") {
        std::fs::write(rules.join(name), text.as_str().expect("text")).expect("written");
    }
    let ran = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .env_clear()
        .args(["check", "--strict"])
        .arg(&rules)
        .output();
    let ran = ran.expect("it ends");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()));

    // A limit whose window does not end meanwhile.
    let slow = "domain: here\ndescriptors: [{key: user, rate_limit: {rate: 2/year}}]\n";
    std::fs::write(rules.join("here.yaml"), slow).expect("written");
    let Some(redis) = Redis::start(&store()) else { return };
    let state = folder.path().display().to_string();
    let here = |store: SocketAddr| {
        elsewhere(&[
            ("/etc/tollgate/rules", rules.display().to_string()),
            ("/var/lib/tollgate", state.clone()),
            ("valkey:6379", store.to_string()),
        ])
    };
    let secrets = [
        ("TOLLGATE_STORE_PASSWORD", "store-password"),
        ("TOLLGATE_STORE_DEADLINE", "10s"),
        ("TOLLGATE_WORKERS", "1"),
    ];
    let pods = [0, 1].map(|_| started(&node, &here(redis.address()), &secrets));
    for pod in &pods {
        poll("a pod to be ready", || (pod.get("/readyz").0 == 200).then_some(()));
    }
    let outcomes = pods.iter().cycle().take(3).map(|pod| {
        let (_, said) = pod.get("/v1/check?domain=here&entry=user=ann");
        assert!(said.contains(r#""degraded":null"#), "{said}");
        said.contains(r#""outcome":"admit""#)
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), [true, true, false], "two by both together");
    // Without a store behind the address, no pod is ready, and so a rollout waits.
    let nobody = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let alone = started(&node, &here(nobody), &secrets);
    poll("the store to be known as down", || {
        alone.get("/readyz").1.contains(r#""state":"down""#).then_some(())
    });
    assert_eq!((alone.get("/readyz").0, alone.get("/healthz").0), (503, 200));
}

#[test]
fn nodes_get_their_rules_from_the_control_plane_beside_them() {
    let plane = container(&resource("StatefulSet", "tollgate-control"));
    let node = patched();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["tls", "control", "plane", "node"] {
        std::fs::create_dir(folder.path().join(name)).expect("made");
    }
    // The Secret, as its file says to make it, and as its items are mounted in both pods.
    let said = read(&format!("{CONTROL}/kustomization.yaml"));
    let lines = said
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .skip_while(|line| !line.starts_with("openssl"));
    let command: Vec<_> = lines.take_while(|line| !line.starts_with("kubectl")).collect();
    let made =
        Command::new("sh").args(["-c", &command.join("\n")]).current_dir(path("tls")).output().expect("sh");
    if String::from_utf8_lossy(&made.stderr).contains("openssl: not found") {
        return println!("SKIPPED the control plane of Kubernetes: there is no openssl on this machine");
    }
    assert!(made.status.success() && command.len() > 1, "{}", String::from_utf8_lossy(&made.stderr));
    assert!(said.contains("--from-file=tls.key --from-file=tls.crt --from-file=ca.crt=tls.crt"));
    std::fs::copy(path("tls/tls.crt"), path("control/ca.crt")).expect("copied");
    let port = free_port();
    let here = elsewhere(&[
        ("0.0.0.0:8070", format!("127.0.0.1:{port}")),
        ("/var/lib/tollgate", path("plane")),
        ("/etc/tollgate/tls", path("tls")),
    ]);
    let _plane = started(&plane, &here, &[]);
    // The operator's files for the Secret.
    std::fs::copy(path("plane/data/node-token"), path("control/node-token"))
        .expect("the token is where it is said to be");
    let here = elsewhere(&[
        ("tollgate-control:8070", format!("localhost:{port}")),
        ("/etc/tollgate/control", path("control")),
        ("/var/lib/tollgate", path("node")),
        ("redis://valkey:6379", "memory".to_owned()),
    ]);
    let node = started(&node, &here, &[("TOLLGATE_WORKERS", "1"), ("TOLLGATE_CONTROL_WAIT", "0")]);
    poll("the node to be attached", || node.get("/readyz").1.contains(r#""connected":true"#).then_some(()));
    assert!(Path::new(&path("node/node")).is_file(), "its identity is in its folder");
    // Nothing is published yet.
    assert_eq!(node.get("/readyz").0, 503);
    let probe = &plane["readinessProbe"]["httpGet"];
    let host = &probe["httpHeaders"][0];
    assert_eq!(
        (&probe["scheme"], &host["name"], &host["value"]),
        (&"HTTPS".into(), &"Host".into(), &"localhost".into())
    );
}
