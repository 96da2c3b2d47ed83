//! `deploy/kubernetes`: each resource has fields that Kubernetes knows, and all of them fit together.

use super::*;

/// The file and the resource in it.
fn resources() -> Vec<(String, Value)> {
    let folder = root().join("deploy/kubernetes");
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), yaml::read_typed(&folder.join(&name)))).collect()
}

/// The resource of this kind.
fn of_kind(kind: &str) -> Value {
    let found = resources().into_iter().find(|(_, resource)| resource["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}")).1
}

/// The only container.
fn container() -> Value {
    of_kind("Deployment")["spec"]["template"]["spec"]["containers"][0].clone()
}

fn args() -> Vec<String> {
    let container = container();
    let args = container["args"].as_array().expect("a list").iter();
    args.map(|arg| arg.as_str().expect("text").to_owned()).collect()
}

/// The value of a flag of the container.
fn flag(name: &str) -> Option<String> {
    args().iter().find_map(|arg| arg.strip_prefix(&format!("--{name}="))).map(str::to_owned)
}

#[test]
fn every_resource_has_the_fields_of_its_kind() {
    let shapes: Value = serde_json::from_str(include_str!("kubernetes.json")).expect("JSON");
    let mut kinds = Vec::new();
    for (file, mut resource) in resources() {
        let fields = resource.as_object_mut().expect("a map");
        let [version, kind] = ["apiVersion", "kind"]
            .map(|name| fields.remove(name).and_then(|value| Some(value.as_str()?.to_owned())).expect(name));
        let shape = &shapes[format!("{version} {kind}")];
        assert!(shape.is_object(), "{file}: {version} {kind} is not a kind that we know");
        assert_eq!(shape::faults(&shapes, shape, &resource, &file), Vec::<String>::new());
        kinds.push(kind);
    }
    kinds.sort();
    let want = ["ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Kustomization", "PodDisruptionBudget"];
    assert_eq!(kinds, [&want[..], &["Service", "ServiceMonitor"]].concat());
    let listed = of_kind("Kustomization")["resources"].clone();
    for (file, _) in resources() {
        let is_listed = listed.as_array().expect("a list").iter().any(|it| *it == *file);
        let is_left_out = matches!(file.as_str(), "kustomization.yaml" | "servicemonitor.yaml");
        assert_eq!(is_listed, !is_left_out, "{file}");
    }
}

#[test]
fn the_resources_refer_to_each_other() {
    let deployment = of_kind("Deployment");
    let pod = &deployment["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&of_kind("Service")["spec"]["selector"], labels);
    assert_eq!(&of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"], labels);
    let monitor = of_kind("ServiceMonitor");
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], of_kind("Service")["metadata"]["labels"]);

    let scaled = &of_kind("HorizontalPodAutoscaler")["spec"];
    assert_eq!(scaled["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    assert!(deployment["spec"]["replicas"].is_null(), "each apply would undo what the autoscaler has set");
    let (least, away) = (&scaled["minReplicas"], &of_kind("PodDisruptionBudget")["spec"]["maxUnavailable"]);
    assert!(least.as_u64() > away.as_u64(), "a node that is drained would take all pods");

    let spec = &pod["spec"];
    assert_eq!(spec["enableServiceLinks"], false);
    assert!(spec["terminationGracePeriodSeconds"].as_u64() > Some(5 + 30), "longer than the drain");
    let container = container();
    assert_eq!(container["volumeMounts"][0]["name"], spec["volumes"][0]["name"]);
    assert_eq!(spec["volumes"][0]["configMap"]["name"], of_kind("ConfigMap")["metadata"]["name"]);
    assert_eq!(flag("rules").as_deref(), container["volumeMounts"][0]["mountPath"].as_str());
    assert_eq!(container["image"], of_kind("Kustomization")["images"][0]["name"]);

    // Each port listens, is open, and is what others ask for.
    let ports = container["ports"].as_array().expect("ports");
    for port in ports {
        let name = port["name"].as_str().expect("a name");
        assert_eq!(flag(name), Some(format!("0.0.0.0:{}", port["containerPort"])), "{name}");
    }
    let has = |name: &Value| ports.iter().any(|port| port["name"] == *name);
    for port in of_kind("Service")["spec"]["ports"].as_array().expect("ports") {
        assert!(has(&port["targetPort"]) && port["name"] == port["targetPort"], "{port}");
    }
    assert!(has(&monitor["spec"]["endpoints"][0]["port"]));
    for (probe, path) in
        [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz"), ("startupProbe", "/healthz")]
    {
        assert_eq!(
            (&container[probe]["httpGet"]["path"], &container[probe]["httpGet"]["port"]),
            (&path.into(), &"http".into())
        );
    }
}

#[test]
fn the_container_starts_with_its_arguments_and_rules() {
    let args = args();
    assert_eq!(fault(&args.iter().map(String::as_str).collect::<Vec<_>>()), None);
    for env in container()["env"].as_array().expect("a list") {
        let name = env["name"].as_str().expect("a name");
        let known = tollgate_server::settings::SETTINGS.iter().any(|setting| setting.env() == name);
        assert!(known, "{name} is not a setting");
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in of_kind("ConfigMap")["data"].as_object().expect("files") {
        std::fs::write(folder.path().join(name), text.as_str().expect("text")).expect("written");
    }
    let ran = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .env_clear()
        .args(["check", "--strict"])
        .arg(folder.path())
        .output()
        .expect("it ends");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()));
    // The counters fit into the pod, with room for connections.
    let limit = container()["resources"]["limits"]["memory"].clone();
    assert_eq!((flag("memory-max").as_deref(), limit.as_str()), (Some("256MiB"), Some("512Mi")));
}
