//! Tests of container behavior.

use super::*;

fn meta(annotations: &str) -> ObjectMeta {
    ObjectMeta { annotations: serde_json::from_str(annotations).unwrap(), ..ObjectMeta::default() }
}

fn container(name: &str, command: &[&str]) -> Container {
    Container {
        name: name.to_owned(),
        image: "x".to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        ..Container::default()
    }
}

#[test]
fn durations_are_parsed() {
    let read = |text: &str| parse_duration(text).map(|time| time.as_millis());
    assert_eq!(
        (read("10s"), read("1m30s"), read("250ms"), read("7")),
        (Some(10_000), Some(90_000), Some(250), Some(7_000))
    );
    assert_eq!(
        (read(""), read("s"), read("10x"), read("-1s"), read("1.5h")),
        (None, None, None, None, Some(5_400_000))
    );
}

#[test]
fn annotations_override_rules_and_rules_override_the_command() {
    let rules =
        rules_file::parse_rules(b"rules:\n- match: {image: x}\n  exit-after: 5s\n  exit-code: 3\n").unwrap();
    let sleeping = container("a", &["sleep", "1"]);
    let end = |rules: &[BehaviorRule], annotations: &str| {
        let behavior = container_behavior(
            (rules, &ScriptCache::default()),
            &sleeping,
            0,
            &Pod::default(),
            &meta(annotations),
            1,
        );
        behavior.exit().map(|exit| (exit.after.as_secs(), exit.exit_code, exit.reason))
    };
    assert_eq!(end(&[], "{}"), Some((1, 0, "Completed")));
    assert_eq!(end(&rules, "{}"), Some((5, 3, "Error")));
    assert_eq!(end(&rules, r#"{"simulate.setpoint.dev/exit-after":"9s"}"#), Some((9, 3, "Error")));
    let own = r#"{"a.simulate.setpoint.dev/oom-after":"2s","b.simulate.setpoint.dev/exit-after":"1s"}"#;
    assert_eq!(end(&rules, own), Some((2, 137, "OOMKilled")));
    assert_eq!(end(&[], r#"{"simulate.setpoint.dev/exit-code":"4"}"#), Some((1, 4, "Error")));
}

#[test]
fn shell_image_without_a_command_exits_at_once() {
    let end = |image: &str, stdin: bool| {
        let container = Container { image: image.to_owned(), stdin, ..Container::default() };
        container_behavior(
            (&[], &ScriptCache::default()),
            &container,
            0,
            &Pod::default(),
            &ObjectMeta::default(),
            1,
        )
        .exit()
        .map(|exit| exit.exit_code)
    };
    assert_eq!((end("busybox", false), end("quay.io/a/busybox:1.37@sha256:0", false)), (Some(0), Some(0)));
    assert_eq!((end("busybox", true), end("nginx", false), end("a/busybox/b", false)), (None, None, None));
}

#[test]
fn init_container_with_an_unknown_command_succeeds() {
    let end = |container: &Container, is_init: bool, annotations: &str| {
        let mut pod = Pod::default();
        let list = if is_init { &mut pod.spec.init_containers } else { &mut pod.spec.containers };
        list.push(container.clone());
        let scripts = (&[][..], &ScriptCache::default());
        let behavior = container_behavior(scripts, container, 0, &pod, &meta(annotations), 1);
        behavior.exit().map(|exit| (exit.after.as_secs(), exit.exit_code))
    };
    let prepare = container("a", &["/app/prepare"]);
    assert_eq!((end(&prepare, true, "{}"), end(&prepare, false, "{}")), (Some((0, 0)), None));
    let sidecar = Container { restart_policy: Some("Always".to_owned()), ..prepare.clone() };
    assert_eq!(end(&sidecar, true, "{}"), None, "a sidecar keeps running");
    assert_eq!(end(&container("a", &["sh", "-c", "sleep 4; migrate"]), true, "{}"), Some((4, 0)));
    assert_eq!(end(&container("a", &["/bin/false"]), true, "{}"), Some((0, 1)));
    assert_eq!(end(&container("a", &["tail", "-f", "/dev/null"]), true, "{}"), None);
    let image = |image: &str| Container { image: image.to_owned(), ..container("a", &[]) };
    assert_eq!(end(&image("a/migrations:3"), true, "{}"), Some((0, 0)));
    assert_eq!(end(&image("registry.k8s.io/pause:3.10"), true, "{}"), None);
    let fails = r#"{"simulate.setpoint.dev/exit-code":"3"}"#;
    assert_eq!((end(&prepare, true, fails), end(&prepare, false, fails)), (Some((0, 3)), None));
    let late = r#"{"a.simulate.setpoint.dev/exit-after":"9s"}"#;
    assert_eq!(end(&prepare, true, late), Some((9, 0)));
}

#[test]
fn files_on_volumes_outlive_a_run() {
    let text = "if [[ -r /data/foo ]]\n then exit 0\n else touch /data/foo\n exit 1\n fi";
    let mut container = container("a", &["sh", "-c", text]);
    let code = |container: &Container, restarts| {
        let behavior = container_behavior(
            (&[], &ScriptCache::default()),
            container,
            restarts,
            &Pod::default(),
            &ObjectMeta::default(),
            1,
        );
        behavior.exit().map(|exit| exit.exit_code)
    };
    assert_eq!(
        (code(&container, 0), code(&container, 1)),
        (Some(1), Some(1)),
        "files outside of volumes do not outlive a run"
    );
    container.volume_mounts =
        vec![crate::pod::VolumeMount { mount_path: "/data".to_owned(), ..Default::default() }];
    assert_eq!(
        [0, 1, 2, 9].map(|restarts| code(&container, restarts)),
        [Some(1), Some(0), Some(0), Some(0)],
        "unchanged files on volumes outlive a run, too"
    );
}

#[test]
fn run_with_a_high_restart_count_is_found_quickly() {
    let of = |text: &str| Container {
        volume_mounts: vec![crate::pod::VolumeMount { mount_path: "/data".to_owned(), ..Default::default() }],
        ..container("a", &["sh", "-c", text])
    };
    let code = |container: &Container, restarts| {
        let behavior = container_behavior(
            (&[], &ScriptCache::default()),
            container,
            restarts,
            &Pod::default(),
            &ObjectMeta::default(),
            1,
        );
        behavior.exit().map(|exit| exit.exit_code)
    };
    // The first script has a period of two runs; the second never repeats.
    let toggles = of("if [ -f /data/a ]; then rm /data/a; exit 1; fi; touch /data/a; exit 2");
    let grows = of("echo x >> /data/a; exit 3");
    for (restarts, expected) in [(0, 2), (1, 1), (2, 2), (1_000_001, 1), (i64::MAX - 1, 2), (i64::MAX, 1)] {
        assert_eq!(code(&toggles, restarts), Some(expected), "{restarts}");
        assert_eq!(code(&grows, restarts), Some(3), "{restarts}");
    }
    assert_eq!(code(&toggles, i64::MIN), Some(2), "a negative restart count counts as zero");
}

#[test]
fn scripts_of_a_pod_share_one_budget() {
    let words = (0..40).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
    let text = format!("for i in {words}; do for j in {words}; do a=$i$j; done; done; exit 3");
    let long = container("a", &["sh", "-c", &text]);
    let end = |script_count: usize, name: &str| {
        let meta = ObjectMeta { name: name.into(), ..ObjectMeta::default() };
        container_behavior((&[], &ScriptCache::default()), &long, 0, &Pod::default(), &meta, script_count)
            .exit()
            .map(|exit| exit.exit_code)
    };
    assert_eq!((end(1, "a"), end(5, "a")), (Some(3), Some(3)), "1,600 commands are few for a small pod");
    assert_eq!(end(300, "a"), None, "each of many scripts gets a small share");
    let short = container("a", &["sh", "-c", "echo a; sleep 1; exit 4"]);
    let short = container_behavior(
        (&[], &ScriptCache::default()),
        &short,
        0,
        &Pod::default(),
        &ObjectMeta::default(),
        1_000,
    );
    assert_eq!(short.exit().map(|exit| exit.exit_code), Some(4));
}

#[test]
fn runs_of_a_long_script_are_bounded_by_its_share() {
    let words = (0..40).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
    let text = format!("echo x >> /data/a; for i in {words}; do a=$i; done; exit 3");
    let mut grows = container("a", &["sh", "-c", &text]);
    grows.volume_mounts =
        vec![crate::pod::VolumeMount { mount_path: "/data".to_owned(), ..Default::default() }];
    let lines = |script_count: usize| {
        let behavior = container_behavior(
            (&[], &ScriptCache::default()),
            &grows,
            100,
            &Pod::default(),
            &ObjectMeta::default(),
            script_count,
        );
        assert_eq!(behavior.exit().map(|exit| exit.exit_code), Some(3));
        behavior.timeline.files_at(Duration::ZERO)["/data/a"].lines().count()
    };
    assert_eq!((lines(1), lines(300)), (33, 3));
}

#[test]
fn invalid_settings_are_rejected_by_name() {
    let mut overrides = BehaviorOverrides::default();
    assert!(overrides.set("exit-code", "999").unwrap_err().to_string().contains("exit-code"));
    assert!(overrides.set("exits", "1").unwrap_err().to_string().contains("unknown setting"));
    for (name, value) in [("cpu", "-1"), ("memory", "-1Mi"), ("exit-after", "-1s"), ("cpu", "nonsense")] {
        assert!(overrides.set(name, value).is_err(), "{name} {value}");
    }
    assert_eq!(overrides, BehaviorOverrides::default());
    overrides.set("cpu", "100m").unwrap();
    overrides.set("memory", "64Mi").unwrap();
    assert_eq!((overrides.cpu, overrides.memory), (Some(100), Some(64 << 20)));
}

#[test]
fn invalid_annotations_are_reported() {
    let pod: Pod = serde_json::from_str(r#"{"spec":{"containers":[{"name":"a"}]}}"#).unwrap();
    let overrides = meta(
        r#"{"simulate.setpoint.dev/exit-after":"soon","a.simulate.setpoint.dev/exits":"1","x/y":"z",
            "b.simulate.setpoint.dev/cpu":"1","a.simulate.setpoint.dev/cpu":"1"}"#,
    );
    assert_eq!(
        invalid_annotations(&pod, &overrides.annotations),
        [
            r#"Annotation a.simulate.setpoint.dev/exits is ignored: exits: "1": unknown setting"#,
            r#"Annotation b.simulate.setpoint.dev/cpu is ignored: no such container "b""#,
            r#"Annotation simulate.setpoint.dev/exit-after is ignored: exit-after: "soon": is not a duration such as 10s or 1m30s"#,
        ]
    );
}

#[test]
fn commands_expand_environment_variables() {
    let mut container = container("a", &["sh", "-c", "sleep $(N); exit $CODE"]);
    container.env = serde_json::from_str(
        r#"[{"name":"N","value":"4"},{"name":"CODE","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['code']"}}}]"#,
    )
    .unwrap();
    let behavior = container_behavior(
        (&[], &ScriptCache::default()),
        &container,
        0,
        &Pod::default(),
        &meta(r#"{"code":"3"}"#),
        1,
    );
    assert_eq!(behavior.exit().map(|exit| (exit.after.as_secs(), exit.exit_code)), Some((4, 3)));
}
