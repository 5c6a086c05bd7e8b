//! Validation and defaulting of workloads.

use crate::kinds::workload::fixture::{KindFixture, parse};
use crate::value::Value;

const DEPLOYMENT: KindFixture = KindFixture {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    good: r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{
        "selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{
        "restartPolicy":"Always","containers":[{"name":"main","image":"nginx:1"}]}}}}"#,
};

const REPLICA_SET: KindFixture = KindFixture {
    group: "apps",
    version: "v1",
    kind: "ReplicaSet",
    good: r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web"},"spec":{
        "selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{
        "restartPolicy":"Always","containers":[{"name":"main","image":"nginx:1"}]}}}}"#,
};

const DAEMON_SET: KindFixture = KindFixture {
    group: "apps",
    version: "v1",
    kind: "DaemonSet",
    good: r#"{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"web"},"spec":{
        "selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{
        "restartPolicy":"Always","containers":[{"name":"main","image":"nginx:1"}]}}}}"#,
};

const STATEFUL_SET: KindFixture = KindFixture {
    group: "apps",
    version: "v1",
    kind: "StatefulSet",
    good: r#"{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"web"},"spec":{"serviceName":"web",
        "selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{
        "restartPolicy":"Always","containers":[{"name":"main","image":"nginx:1"}]}}}}"#,
};

const REVISION: KindFixture = KindFixture {
    group: "apps",
    version: "v1",
    kind: "ControllerRevision",
    good: r#"{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"revision":1,
        "data":{"a":1}}"#,
};

const MISMATCH: &str = "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: \
    `selector` does not match template `labels`";
const BAD_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

#[test]
fn deployments_default_to_a_rolling_update_of_one_pod() {
    let spec = DEPLOYMENT.created("{}").get("spec").cloned().unwrap();
    for (field, expected) in [
        ("replicas", "1"),
        ("strategy", r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}}"#),
        ("revisionHistoryLimit", "10"),
        ("progressDeadlineSeconds", "600"),
    ] {
        assert_eq!(spec.get(field), Some(&parse(expected)), "{field}");
    }
    let recreate = DEPLOYMENT.created(r#"{"spec":{"strategy":{"type":"Recreate"}}}"#);
    assert_eq!(recreate.at(&["spec", "strategy"]), Some(&parse(r#"{"type":"Recreate"}"#)));
    let half = DEPLOYMENT.created(r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0}}}}"#);
    let rolling = half.at(&["spec", "strategy", "rollingUpdate"]);
    assert_eq!(rolling, Some(&parse(r#"{"maxUnavailable":"25%","maxSurge":0}"#)));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn invalid_deployments_are_rejected() {
    let strategy_fault = |shown: &str| {
        format!(
            "spec.strategy: Unsupported value: {shown}: supported values: \"Recreate\", \"RollingUpdate\""
        )
    };
    DEPLOYMENT.creates(&[
        ("{}", &[]),
        (r#"{"spec":{"replicas":0}}"#, &[]),
        (r#"{"spec":{"replicas":-1}}"#, &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        (
            r#"{"spec":{"selector":null}}"#,
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template \
                 `labels`",
            ],
        ),
        (
            r#"{"spec":{"selector":{"matchLabels":null}}}"#,
            &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (r#"{"spec":{"template":{"metadata":{"labels":{"app":"y"}}}}}"#, &[MISMATCH]),
        (
            r#"{"spec":{"selector":{"matchExpressions":[{"key":"app","operator":"In","values":["y"]}]}}}"#,
            &["spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template \
               `labels`"],
        ),
        (r#"{"spec":{"selector":{"matchExpressions":[{"key":"app","operator":"In","values":["y","x"]}]}}}"#, &[]),
        (r#"{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"NotIn","values":["y"]}]}}}"#, &[]),
        (r#"{"spec":{"selector":{"matchExpressions":[{"key":"app","operator":"Exists"}]}}}"#, &[]),
        (r#"{"spec":{"selector":{"matchExpressions":[{"key":"b","operator":"DoesNotExist"}]}}}"#, &[]),
        (
            r#"{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Maybe"}]}}}"#,
            &[
                "spec.selector.matchExpressions[0].operator: Invalid value: \"Maybe\": not a valid selector operator",
                "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\"},\"matchExpressions\":[{\"key\":\"a\",\
                 \"operator\":\"Maybe\"}]}: invalid label selector",
            ],
        ),
        (
            r#"{"spec":{"selector":{"matchLabels":{"-":"x"}}}}"#,
            &[
                &format!("spec.selector.matchLabels: Invalid value: \"-\": {BAD_KEY}"),
                "spec.selector: Invalid value: {\"matchLabels\":{\"-\":\"x\",\"app\":\"x\"}}: invalid label selector",
            ],
        ),
        (
            r#"{"spec":{"template":{"spec":{"restartPolicy":"Never"}}}}"#,
            &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""],
        ),
        (
            r#"{"spec":{"template":{"spec":{"activeDeadlineSeconds":5}}}}"#,
            &["spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not \
               Supported"],
        ),
        (
            r#"{"spec":{"strategy":{"type":"Recreate","rollingUpdate":{}}}}"#,
            &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        ),
        (
            r#"{"spec":{"strategy":{"type":"Slow"}}}"#,
            &[&strategy_fault(r#"{"Type":"Slow","RollingUpdate":null}"#)],
        ),
        (
            r#"{"spec":{"strategy":{"type":"Slow","rollingUpdate":{"maxSurge":"5%"}}}}"#,
            &[&strategy_fault(r#"{"Type":"Slow","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"5%"}}"#)],
        ),
        (r#"{"spec":{"minReadySeconds":599}}"#, &[]),
        (
            r#"{"spec":{"minReadySeconds":600}}"#,
            &["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
        ),
        (
            r#"{"spec":{"minReadySeconds":-1,"revisionHistoryLimit":-2,"progressDeadlineSeconds":-3}}"#,
            &[
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.revisionHistoryLimit: Invalid value: -2: must be greater than or equal to 0",
                "spec.progressDeadlineSeconds: Invalid value: -3: must be greater than or equal to 0",
                "spec.progressDeadlineSeconds: Invalid value: -3: must be greater than minReadySeconds",
            ],
        ),
        (
            r#"{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"-1"}}}"#,
            &["spec.rollback.version: Invalid value: -1: must be greater than or equal to 0"],
        ),
    ]);
}

#[test]
fn rolling_update_values_are_numbers_or_percentages() {
    let percent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                   regex used for validation is '[0-9]+%')";
    let at = "spec.strategy.rollingUpdate";
    DEPLOYMENT.creates(&[
        (r#"{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":1}}}}"#, &[]),
        (r#"{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"100%","maxSurge":"200%"}}}}"#, &[]),
        (
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":0}}}}"#,
            &[&format!("{at}.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0")],
        ),
        (
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"0%","maxSurge":"0%"}}}}"#,
            &[&format!("{at}.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0")],
        ),
        (
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"101%"}}}}"#,
            &[&format!("{at}.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%")],
        ),
        (
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"99999999999999999999%"}}}}"#,
            &[&format!(
                "{at}.maxUnavailable: Invalid value: \"99999999999999999999%\": must not be greater than 100%"
            )],
        ),
        (
            r#"{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"half","maxSurge":-1}}}}"#,
            &[
                &format!("{at}.maxUnavailable: Invalid value: \"half\": {percent}"),
                &format!("{at}.maxSurge: Invalid value: -1: must be greater than or equal to 0"),
            ],
        ),
    ]);
}

#[test]
fn selector_of_a_workload_is_immutable() {
    let relabel =
        r#"{"spec":{"selector":{"matchLabels":{"app":"z"}},"template":{"metadata":{"labels":{"app":"z"}}}}}"#;
    let fault = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"z\"}}: field is immutable";
    for kind in [DEPLOYMENT, REPLICA_SET, DAEMON_SET, STATEFUL_SET] {
        kind.updates("{}", &[("{}", &[]), (relabel, &[fault])]);
    }
    // The order of errors depends on the kind.
    let only = r#"{"spec":{"selector":{"matchLabels":{"app":"z"}}}}"#;
    let mismatch = "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match \
                    template `labels`";
    DEPLOYMENT.updates("{}", &[(only, &[mismatch, fault])]);
    DAEMON_SET.updates("{}", &[(only, &[fault, mismatch])]);
}

#[test]
fn generation_rises_with_the_spec_and_for_deployments_with_annotations() {
    let old = DEPLOYMENT.created("{}");
    let rules = DEPLOYMENT.rules();
    assert!(rules.has_generation() && rules.has_status() && rules.allows_unconditional_update());
    assert!(!rules.has_new_generation(&DEPLOYMENT.created(r#"{"metadata":{"labels":{"a":"b"}}}"#), &old));
    assert!(rules.has_new_generation(&DEPLOYMENT.created(r#"{"metadata":{"annotations":{"a":"b"}}}"#), &old));
    assert!(rules.has_new_generation(&DEPLOYMENT.created(r#"{"spec":{"paused":true}}"#), &old));
    let old = REPLICA_SET.created("{}");
    let annotated = REPLICA_SET.created(r#"{"metadata":{"annotations":{"a":"b"}}}"#);
    assert!(!REPLICA_SET.rules().has_new_generation(&annotated, &old));
}

#[test]
fn status_counters_of_a_deployment_are_consistent() {
    let all =
        r#"{"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,"collisionCount":1}"#;
    DEPLOYMENT.statuses(&[
        ("{}", "{}", all, &[]),
        (
            "{}",
            "{}",
            r#"{"replicas":1,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":3}"#,
            &[
                "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
            ],
        ),
        (
            "{}",
            all,
            r#"{"collisionCount":0}"#,
            &["status.collisionCount: Invalid value: 0: cannot be decremented"],
        ),
        ("{}", all, "{}", &["status.collisionCount: Invalid value: 0: cannot be decremented"]),
        (
            "{}",
            "{}",
            r#"{"observedGeneration":-1,"unavailableReplicas":-1,"terminatingReplicas":-1}"#,
            &[
                "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
                "status.unavailableReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
    ]);
}

#[test]
fn invalid_replica_sets_are_rejected() {
    assert_eq!(REPLICA_SET.created("{}").at(&["spec", "replicas"]), Some(&Value::Int(1)));
    REPLICA_SET.creates(&[
        ("{}", &[]),
        (
            r#"{"spec":{"replicas":-1,"minReadySeconds":-1}}"#,
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (r#"{"spec":{"template":{"metadata":{"labels":{"app":"y"}}}}}"#, &[MISMATCH]),
        (
            r#"{"spec":{"selector":{"matchLabels":null}}}"#,
            &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
    ]);
    REPLICA_SET.statuses(&[
        (
            "{}",
            "{}",
            r#"{"replicas":2,"fullyLabeledReplicas":2,"readyReplicas":1,"availableReplicas":1}"#,
            &[],
        ),
        (
            "{}",
            "{}",
            r#"{"replicas":1,"fullyLabeledReplicas":2}"#,
            &["status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        ),
        (
            "{}",
            "{}",
            r#"{"replicas":1,"availableReplicas":1}"#,
            &["status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"],
        ),
        (
            "{}",
            "{}",
            r#"{"replicas":-1}"#,
            &["status.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
    ]);
}

#[test]
fn invalid_daemon_sets_are_rejected() {
    let rolling = "spec.updateStrategy.rollingUpdate";
    DAEMON_SET.creates(&[
        ("{}", &[]),
        (
            r#"{"spec":{"selector":null}}"#,
            &["spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template \
               `labels`"],
        ),
        (
            r#"{"spec":{"selector":{"matchLabels":null}}}"#,
            &["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
        ),
        (
            r#"{"spec":{"template":{"spec":{"activeDeadlineSeconds":5,"restartPolicy":"OnFailure"}}}}"#,
            &[
                "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not \
                 Supported",
            ],
        ),
        (r#"{"spec":{"updateStrategy":{"type":"OnDelete"}}}"#, &[]),
        (r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":"10%"}}}}"#, &[]),
        (
            r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":1,"maxSurge":1}}}}"#,
            &[&format!("{rolling}.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero")],
        ),
        (
            r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":0}}}}"#,
            &[&format!("{rolling}.maxUnavailable: Required value: cannot be 0 when maxSurge is 0")],
        ),
        (
            r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":"101%"}}}}"#,
            &[&format!("{rolling}.maxSurge: Invalid value: \"101%\": must not be greater than 100%")],
        ),
        (
            r#"{"spec":{"updateStrategy":{"type":"Never"}}}"#,
            &["spec.updateStrategy: Unsupported value: {\"Type\":\"Never\",\"RollingUpdate\":null}: supported values: \
               \"RollingUpdate\", \"OnDelete\""],
        ),
        (
            r#"{"spec":{"minReadySeconds":-1,"revisionHistoryLimit":-1}}"#,
            &[
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
    ]);
    DAEMON_SET.statuses(&[
        ("{}", "{}", r#"{"numberReady":1,"desiredNumberScheduled":1}"#, &[]),
        (
            "{}",
            "{}",
            r#"{"numberReady":-1}"#,
            &["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            "{}",
            r#"{"collisionCount":2}"#,
            r#"{"collisionCount":1}"#,
            &["status.collisionCount: Invalid value: 1: cannot be decremented"],
        ),
    ]);
}

#[test]
fn template_generation_counts_template_changes() {
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    let count = |object: &Value| object.str_at(&["metadata", "annotations", ANNOTATION]).to_owned();
    let old = DAEMON_SET.created("{}");
    assert_eq!(count(&old), "1");
    let sent = r#"{"metadata":{"annotations":{"deprecated.daemonset.template.generation":"7"}}}"#;
    assert_eq!(count(&DAEMON_SET.created(sent)), "7");
    for (patch, expected) in [
        ("{}", "1"),
        (sent, "1"),
        (r#"{"spec":{"minReadySeconds":5}}"#, "1"),
        (r#"{"spec":{"template":{"spec":{"hostNetwork":true}}}}"#, "2"),
    ] {
        let mut new = DAEMON_SET.sent(patch);
        DAEMON_SET.rules().prepare_update(&mut new, &old);
        assert_eq!(count(&new), expected, "{patch}");
    }
}

#[test]
fn stateful_sets_default_to_ordered_pods_and_retained_claims() {
    let claims = r#"{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],
        "resources":{"requests":{"storage":"1Gi"}}}}]}}"#;
    let object = STATEFUL_SET.created(claims);
    let spec = object.get("spec").unwrap();
    for (field, expected) in [
        ("replicas", "1"),
        ("podManagementPolicy", "\"OrderedReady\""),
        ("updateStrategy", r#"{"type":"RollingUpdate","rollingUpdate":{"partition":0,"maxUnavailable":1}}"#),
        ("persistentVolumeClaimRetentionPolicy", r#"{"whenDeleted":"Retain","whenScaled":"Retain"}"#),
        ("revisionHistoryLimit", "10"),
        (
            "volumeClaimTemplates",
            r#"[{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"d"},"spec":{
                "accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},
                "volumeMode":"Filesystem"},"status":{"phase":"Pending"}}]"#,
        ),
    ] {
        assert_eq!(spec.get(field), Some(&parse(expected)), "{field}");
    }
    let bare = STATEFUL_SET.created(r#"{"spec":{"updateStrategy":{"type":"RollingUpdate"}}}"#);
    assert_eq!(bare.at(&["spec", "updateStrategy"]), Some(&parse(r#"{"type":"RollingUpdate"}"#)));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn invalid_stateful_sets_are_rejected() {
    let strategy = "spec.updateStrategy";
    STATEFUL_SET.creates(&[
        ("{}", &[]),
        (r#"{"spec":{"serviceName":null}}"#, &[]),
        (
            r#"{"spec":{"podManagementPolicy":"Chaos"}}"#,
            &["spec.podManagementPolicy: Invalid value: \"Chaos\": must be 'OrderedReady' or 'Parallel'"],
        ),
        (r#"{"spec":{"updateStrategy":{"type":"OnDelete"}}}"#, &[]),
        (
            r#"{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":2}}}}"#,
            &[&format!(
                "{strategy}.rollingUpdate: Invalid value: {{\"Partition\":2,\"MaxUnavailable\":null}}: only allowed \
                 for updateStrategy 'RollingUpdate'"
            )],
        ),
        (
            r#"{"spec":{"updateStrategy":{"type":"Recreate"}}}"#,
            &[&format!(
                "{strategy}: Invalid value: {{\"Type\":\"Recreate\",\"RollingUpdate\":null}}: must be \
                 'RollingUpdate' or 'OnDelete'"
            )],
        ),
        (
            r#"{"spec":{"updateStrategy":{"rollingUpdate":{"partition":-1,"maxUnavailable":0}}}}"#,
            &[
                &format!("{strategy}.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0"),
                &format!("{strategy}.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0"),
            ],
        ),
        (
            r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxUnavailable":"101%"}}}}"#,
            &[&format!(
                "{strategy}.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"
            )],
        ),
        (
            r#"{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Burn"}}}"#,
            &["spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Burn\": supported values: \
               \"Retain\", \"Delete\""],
        ),
        (
            r#"{"spec":{"replicas":-1,"minReadySeconds":-1,"ordinals":{"start":-1}}}"#,
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            r#"{"spec":{"serviceName":"A b"}}"#,
            &["spec.serviceName: Invalid value: \"A b\": a lowercase RFC 1123 label must consist of lower case \
               alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. \
               'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"],
        ),
        (
            r#"{"spec":{"selector":null}}"#,
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template \
                 `labels`",
            ],
        ),
        (
            r#"{"spec":{"selector":{"matchLabels":null}}}"#,
            &["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"],
        ),
        (
            r#"{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}}}"#,
            &[
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is \
                 'In' or 'NotIn'",
                "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\"},\"matchExpressions\":[{\"key\":\"a\",\
                 \"operator\":\"In\"}]}",
            ],
        ),
        (
            r#"{"spec":{"template":{"spec":{"restartPolicy":"Never","activeDeadlineSeconds":1}}}}"#,
            &[
                "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not \
                 Supported",
            ],
        ),
    ]);
}

#[test]
fn immutable_stateful_set_fields_cannot_change() {
    STATEFUL_SET.updates(
        "{}",
        &[
            (r#"{"spec":{"replicas":3,"revisionHistoryLimit":1,"minReadySeconds":5}}"#, &[]),
            (
                r#"{"spec":{"serviceName":"b"}}"#,
                &["spec.serviceName: Invalid value: \"b\": field is immutable"],
            ),
            (
                r#"{"spec":{"podManagementPolicy":"Parallel"}}"#,
                &["spec.podManagementPolicy: Invalid value: \"Parallel\": field is immutable"],
            ),
            (
                r#"{"spec":{"replicas":-1}}"#,
                &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
            ),
        ],
    );
    STATEFUL_SET.statuses(&[
        ("{}", "{}", r#"{"replicas":2,"readyReplicas":2,"availableReplicas":1}"#, &[]),
        (
            "{}",
            "{}",
            r#"{"replicas":2,"readyReplicas":1,"availableReplicas":2,"currentReplicas":3,"updatedReplicas":3}"#,
            &[
                "status.currentReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.updatedReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 2: cannot be greater than status.readyReplicas",
            ],
        ),
        (
            "{}",
            r#"{"collisionCount":2}"#,
            r#"{"collisionCount":1}"#,
            &["status.collisionCount: Invalid value: 1: cannot be decremented"],
        ),
    ]);
}

#[test]
fn claim_templates_are_validated_on_create_and_immutable() {
    let claim = |modes: &str, amount: &str| {
        format!(
            r#"{{"spec":{{"volumeClaimTemplates":[{{"metadata":{{"name":"d"}},"spec":{{"accessModes":[{modes}],
                "resources":{{"requests":{{"storage":"{amount}"}}}}}}}}]}}}}"#
        )
    };
    let at = "spec.volumeClaimTemplates";
    STATEFUL_SET.creates(&[
        (&claim(r#""ReadWriteOnce""#, "1Gi"), &[]),
        (
            &claim("", "0"),
            &[
                &format!("{at}[0].spec.accessModes: Required value: at least 1 access mode is required"),
                &format!("{at}[0].spec.resources[storage]: Invalid value: \"0\": must be greater than zero"),
            ],
        ),
    ]);
    let shown = r#"[{"name":"d","Spec":{"AccessModes":["ReadWriteOnce"],"Selector":null,"Resources":{"Limits":null,"Requests":{"storage":"2Gi"}},"VolumeName":"","StorageClassName":null,"VolumeMode":"Filesystem","DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null},"Status":{"Phase":"Pending","AccessModes":null,"Capacity":null,"Conditions":null,"AllocatedResources":null,"AllocatedResourceStatuses":null,"CurrentVolumeAttributesClassName":null,"ModifyVolumeStatus":null,"HealthStatus":null}}]"#;
    STATEFUL_SET.updates(
        &claim(r#""ReadWriteOnce""#, "1Gi"),
        &[(
            &claim(r#""ReadWriteOnce""#, "2Gi"),
            &[&format!("{at}: Invalid value: {shown}: field is immutable")],
        )],
    );
}

#[test]
fn template_may_mount_claim_templates() {
    let object = |mount: &str| {
        format!(
            r#"{{"spec":{{"volumeClaimTemplates":[{{"metadata":{{"name":"d"}},"spec":{{"accessModes":["ReadWriteOnce"],
                "resources":{{"requests":{{"storage":"1Gi"}}}}}}}}],"template":{{"spec":{{"hostname":"Not A Host",
                "containers":[{{"name":"main","image":"nginx:1","volumeMounts":[{{"name":"{mount}",
                "mountPath":"/d"}}]}}]}}}}}}}}"#
        )
    };
    STATEFUL_SET.creates(&[
        (&object("d"), &[]),
        (&object("e"), &["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"e\""]),
    ]);
}

#[test]
fn revision_data_is_immutable() {
    REVISION.creates(&[
        ("{}", &[]),
        (r#"{"revision":-1}"#, &["revision: Invalid value: -1: must be greater than or equal to 0"]),
        (r#"{"data":null}"#, &["data: Required value: data is mandatory"]),
        (r#"{"data":[1]}"#, &["data: Required value: data must be a valid JSON object"]),
        (r#"{"data":"x"}"#, &["data: Required value: data must be a valid JSON object"]),
    ]);
    REVISION.updates(
        "{}",
        &[
            (r#"{"revision":2}"#, &[]),
            (r#"{"data":{"a":2}}"#, &["data: Invalid value: {\"a\":2}: field is immutable"]),
            (r#"{"data":null}"#, &["data: Invalid value: null: field is immutable"]),
        ],
    );
    assert!(!REVISION.rules().has_status() && !REVISION.rules().has_generation());
}

#[test]
fn dotted_names_and_negative_history_limits_cause_warnings() {
    let dots = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
                label is recommended: [must not contain dots]";
    DEPLOYMENT.warns(&[("{}", &[]), (r#"{"metadata":{"name":"a.b"}}"#, &[dots])]);
    REPLICA_SET.warns(&[("{}", &[]), (r#"{"metadata":{"name":"a.b"}}"#, &[dots])]);
    DAEMON_SET.warns(&[(r#"{"metadata":{"name":"a.b"}}"#, &[])]);
    STATEFUL_SET.warns(&[
        ("{}", &[]),
        (
            r#"{"spec":{"revisionHistoryLimit":-1}}"#,
            &["spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
               recommended"],
        ),
        (
            r#"{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"accessModes":["ReadWriteOnce"],
                "resources":{"requests":{"storage":"100m"}}}}]}}"#,
            &["spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value \"100m\" is invalid, \
               must be an integer"],
        ),
    ]);
}
