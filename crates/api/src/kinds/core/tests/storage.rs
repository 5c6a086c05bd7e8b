//! Validation of PersistentVolume and PersistentVolumeClaim.

use super::*;
use crate::kinds::Author;
use crate::time::Time;

/// A volume with this source and further fields.
fn volume(source: &str) -> String {
    format!(
        "{{metadata: {{name: v}}, spec: {{accessModes: [ReadWriteOnce], capacity: {{storage: 1Gi}}, {source}}}}}"
    )
}

#[test]
fn persistent_volumes_are_defaulted() {
    let made = created(
        "PersistentVolume",
        "{metadata: {creationTimestamp: '2026-01-01T00:00:00Z'}, spec: {hostPath: {path: /x}, capacity: {storage: 100u}}}",
    );
    assert_eq!(
        at(&made, &["status"]),
        r#"{"phase":"Pending","lastPhaseTransitionTime":"2026-01-01T00:00:00Z"}"#
    );
    assert_eq!(at(&made, &["spec", "persistentVolumeReclaimPolicy"]), r#""Retain""#);
    assert_eq!(at(&made, &["spec", "volumeMode"]), r#""Filesystem""#);
    assert_eq!(at(&made, &["spec", "hostPath"]), r#"{"path":"/x","type":""}"#);
    assert_eq!(at(&made, &["spec", "capacity"]), r#"{"storage":"1m"}"#);
    let disk = object("PersistentVolume", "{spec: {azureDisk: {diskName: a, diskURI: b}}}");
    let expected = r#"{"diskName":"a","diskURI":"b","cachingMode":"ReadWrite","fsType":"ext4","kind":"Shared","readOnly":false}"#;
    assert_eq!(disk.at(&["spec", "azureDisk"]), Some(&json::parse(expected.as_bytes()).unwrap()));
    let rbd = object("PersistentVolume", "{spec: {rbd: {monitors: [m], image: i}}}");
    assert_eq!(at(&rbd, &["spec", "rbd", "pool"]), r#""rbd""#);
}

#[test]
fn phase_change_sets_the_transition_time() {
    let old = object(
        "PersistentVolume",
        "{status: {phase: Pending, lastPhaseTransitionTime: '2026-01-01T00:00:00Z'}}",
    );
    for (status, expected) in [
        ("{phase: Pending}", r#""2026-01-01T00:00:00Z""#),
        ("{phase: Bound}", r#""2026-01-02T00:00:00Z""#),
        ("{phase: Bound, lastPhaseTransitionTime: '2026-01-01T00:00:00Z'}", r#""2026-01-02T00:00:00Z""#),
        ("{phase: Bound, lastPhaseTransitionTime: '2025-01-01T00:00:00Z'}", r#""2025-01-01T00:00:00Z""#),
    ] {
        let mut new = object("PersistentVolume", &format!("{{status: {status}}}"));
        of("PersistentVolume").prepare_status(&mut new, &old);
        let author = Author {
            now: Time::from_seconds(1_767_312_000),
            user: "",
            uid: "",
            groups: &[],
            extra: &Default::default(),
        };
        of("PersistentVolume").sign_status(&mut new, &old, &author);
        assert_eq!(at(&new, &["status", "lastPhaseTransitionTime"]), expected, "{status}");
    }
}

#[test]
fn volumes_require_capacity_modes_and_one_source() {
    let two = volume("hostPath: {path: /x}, nfs: {server: s, path: /p}");
    let odd = volume(
        "hostPath: {path: /x}, persistentVolumeReclaimPolicy: Odd, volumeMode: Odd, storageClassName: a",
    );
    let root = volume("hostPath: {path: /a/..}, persistentVolumeReclaimPolicy: Recycle");
    let none = volume("mountOptions: [ro]");
    check_all(
        "PersistentVolume",
        &[
            (&volume("hostPath: {path: /x}"), &[]),
            (
                "{spec: {hostPath: {path: /x}}}",
                &[
                    "spec.accessModes: Required value",
                    "spec.capacity: Required value",
                    "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                ],
            ),
            (
                "{spec: {hostPath: {path: /x}, accessModes: [Odd, ReadWriteOncePod, ReadOnlyMany], capacity: {storage: '0', cpu: '1'}}}",
                &[
                    "spec.accessModes: Unsupported value: \"Odd\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                    "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                    "spec.capacity: Unsupported value: {\"cpu\":\"1\",\"storage\":\"0\"}: supported values: \"storage\"",
                    "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero",
                ],
            ),
            (&none, &["spec: Required value: must specify a volume type"]),
            (&two, &["spec.nfs: Forbidden: may not specify more than 1 volume type"]),
            (
                &odd,
                &[
                    "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Odd\": supported values: \"Delete\", \"Recycle\", \"Retain\"",
                    "spec.volumeMode: Unsupported value: \"Odd\": supported values: \"Block\", \"Filesystem\"",
                ],
            ),
            (
                &root,
                &[
                    "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                    "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
                ],
            ),
        ],
    );
}

#[test]
fn volume_sources_are_validated() {
    for (source, expected) in [
        ("nfs: {server: s, path: /p}", vec![]),
        (
            "nfs: {path: p}",
            vec![
                "spec.nfs.server: Required value",
                "spec.nfs.path: Invalid value: \"p\": must be an absolute path",
            ],
        ),
        ("hostPath: {}", vec!["spec.hostPath.path: Required value"]),
        (
            "hostPath: {path: /x, type: Odd}",
            vec![
                "spec.hostPath.type: Unsupported value: \"Odd\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            ],
        ),
        ("csi: {driver: a.b, volumeHandle: h}", vec![]),
        (
            "csi: {nodeStageSecretRef: {}, nodePublishSecretRef: {name: a}}",
            vec![
                "spec.csi.driver: Required value",
                "spec.csi.volumeHandle: Required value",
                "spec.csi.nodePublishSecretRef.namespace: Required value",
            ],
        ),
        ("local: {path: /x}", vec!["spec.nodeAffinity: Required value: Local volume requires node affinity"]),
        (
            "gcePersistentDisk: {partition: 256}",
            vec![
                "spec.persistentDisk.pdName: Required value",
                "spec.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
            ],
        ),
    ] {
        assert_eq!(faults("PersistentVolume", &volume(source)), expected, "{source}");
    }
}

#[test]
fn network_volume_sources_are_validated() {
    let valid = "must be valid format";
    for (source, expected) in [
        ("iscsi: {targetPortal: t, iqn: 'iqn.2001-04.com.example:storage', lun: 0}", vec![]),
        (
            "iscsi: {targetPortal: t, iqn: eui.0123456789ABCDEF, lun: 256}",
            vec!["spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive"],
        ),
        (
            "iscsi: {targetPortal: t, iqn: iqn.x, lun: 0, chapAuthSession: true}",
            vec![
                "spec.iscsi.iqn: Invalid value: \"iqn.x\": must be valid format",
                "spec.iscsi.secretRef: Required value",
            ],
        ),
        (
            "fc: {}",
            vec!["spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"],
        ),
        (
            "fc: {targetWWNs: [a]}",
            vec!["spec.fc.lun: Required value: lun is required if targetWWNs is specified"],
        ),
        (
            "flexVolume: {driver: d, options: {a.k8s.io/x: v}}",
            vec![
                "spec.flexVolume.options[a.k8s.io/x]: Invalid value: \"a.k8s.io/x\": kubernetes.io and k8s.io namespaces are reserved",
            ],
        ),
        ("rbd: {monitors: []}", vec!["spec.rbd.monitors: Required value", "spec.rbd.image: Required value"]),
        (
            "azureDisk: {diskName: d, diskURI: x, kind: Managed}",
            vec![
                "spec.azureDisk.diskURI: Unsupported value: \"x\": supported values: \"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}\"",
            ],
        ),
        (
            "flocker: {datasetName: a/b}",
            vec!["spec.flocker.datasetName: Invalid value: \"a/b\": must not contain '/'"],
        ),
        (
            "quobyte: {registry: 'h:1,x', volume: v}",
            vec![
                "spec.quobyte.registry: Invalid value: \"h:1,x\": must be a host:port pair or multiple pairs separated by commas",
            ],
        ),
        (
            "cinder: {volumeID: v, secretRef: {name: a}}",
            vec!["spec.cinder.secretRef.namespace: Required value"],
        ),
    ] {
        assert_eq!(faults("PersistentVolume", &volume(source)), expected, "{source}");
    }
    let initiator = volume("iscsi: {targetPortal: t, iqn: eui.0123456789ABCDEF, lun: 0, initiatorName: x}");
    assert_eq!(
        faults("PersistentVolume", &initiator),
        [format!("spec.iscsi.initiatorname: Invalid value: \"x\": {valid}")]
    );
}

#[test]
fn node_affinity_of_volumes_is_validated() {
    let local = |required: &str| volume(&format!("local: {{path: /x}}, nodeAffinity: {{{required}}}"));
    let terms = "spec.nodeAffinity.required.nodeSelectorTerms";
    for (required, expected) in [
        (
            "required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}",
            vec![],
        ),
        (
            "",
            vec![
                "spec.nodeAffinity.required: Required value: must specify required node constraints"
                    .to_owned(),
            ],
        ),
        (
            "required: {nodeSelectorTerms: []}",
            vec![format!("{terms}: Required value: must have at least one node selector term")],
        ),
        (
            "required: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}, {key: a, operator: Exists, values: [b]}, {key: a, operator: Gt}, {key: a, operator: Odd}], matchFields: [{key: x, operator: In, values: [a]}, {key: metadata.name, operator: In}]}]}",
            vec![
                format!(
                    "{terms}[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
                ),
                format!(
                    "{terms}[0].matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                ),
                format!(
                    "{terms}[0].matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"
                ),
                format!(
                    "{terms}[0].matchExpressions[3].operator: Invalid value: \"Odd\": not a valid selector operator"
                ),
                format!(
                    "{terms}[0].matchFields[0].key: Invalid value: \"x\": not a valid field selector key"
                ),
                format!(
                    "{terms}[0].matchFields[1].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
                ),
            ],
        ),
    ] {
        assert_eq!(faults("PersistentVolume", &local(required)), expected, "{required}");
    }
    let zone = |key: &str| {
        local(&format!(
            "required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: {key}, operator: Exists}}]}}]}}"
        ))
    };
    let (beta, stable) = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    assert!(update_faults("PersistentVolume", &zone(beta), &zone(stable)).is_empty());
    assert_eq!(
        update_faults("PersistentVolume", &zone(stable), &zone(beta)),
        [format!(
            "nodeAffinity: Invalid value: {{\"Required\":{{\"NodeSelectorTerms\":[{{\"MatchExpressions\":[{{\"Key\":\"{beta}\",\"Operator\":\"Exists\",\"Values\":null}}],\"MatchFields\":null}}]}}}}: field is immutable, except for updating from beta label to GA"
        )]
    );
    assert_eq!(
        warnings("PersistentVolume", &zone(beta)),
        [format!(
            "{terms}[0].matchExpressions[0].key: {beta} is deprecated since v1.17; use \"{stable}\" instead"
        )]
    );
}

#[test]
fn immutable_volume_fields_cannot_change() {
    let source =
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n";
    let (csi, secret) = (
        volume("csi: {driver: a, volumeHandle: h}"),
        volume("csi: {driver: a, volumeHandle: h, controllerExpandSecretRef: {name: a, namespace: b}}"),
    );
    let classed = volume("csi: {driver: a, volumeHandle: h}, volumeAttributesClassName: c");
    check_updates(
        "PersistentVolume",
        &[
            (&csi, &csi, &[]),
            (&csi, &secret, &[]),
            (&secret, &csi, &[source]),
            (&csi, &volume("csi: {driver: a, volumeHandle: i}"), &[source]),
            (
                &csi,
                &volume("csi: {driver: a, volumeHandle: h}, volumeMode: Block"),
                &["volumeMode: Invalid value: \"Block\": field is immutable"],
            ),
            (
                &classed,
                &csi,
                &["spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"],
            ),
            (&csi, &classed, &[]),
        ],
    );
    let annotated = volume("csi: {driver: a, volumeHandle: h}")
        .replace("name: v", "annotations: {volume.beta.kubernetes.io/mount-options: ro}");
    assert_eq!(
        faults("PersistentVolume", &annotated),
        [
            "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type"
        ]
    );
    assert_eq!(
        warnings(
            "PersistentVolume",
            &volume("rbd: {monitors: [m], image: i}, persistentVolumeReclaimPolicy: Recycle")
        ),
        [
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
        ]
    );
}

const CLAIM: &str = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}";

fn claim(more: &str) -> String {
    format!("{{spec: {{{CLAIM}{more}}}}}")
}

#[test]
fn claims_are_validated() {
    let selector =
        "spec.selector.matchExpressions[0].operator: Invalid value: \"Odd\": not a valid selector operator";
    check_all(
        "PersistentVolumeClaim",
        &[
            (&claim(""), &[]),
            (&claim(", storageClassName: ''"), &[]),
            (
                "{}",
                &[
                    "spec.accessModes: Required value: at least 1 access mode is required",
                    "spec.resources[storage]: Required value",
                ],
            ),
            (
                "{spec: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: '0'}}, volumeMode: Odd}}",
                &[
                    "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
                    "spec.volumeMode: Unsupported value: \"Odd\": supported values: \"Block\", \"Filesystem\"",
                ],
            ),
            (&claim(", selector: {matchExpressions: [{key: a, operator: Odd}]}"), &[selector]),
            (
                &claim(", dataSourceRef: {kind: K, name: ''}"),
                &[
                    "spec.dataSource.name: Required value",
                    "spec.dataSource: Invalid value: \"K\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                    "spec.dataSourceRef.name: Required value",
                    "spec.dataSourceRef: Invalid value: \"K\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                ],
            ),
            (
                &claim(
                    ", dataSource: {kind: PersistentVolumeClaim, name: a}, dataSourceRef: {kind: PersistentVolumeClaim, name: b}",
                ),
                &["spec: Invalid value: {}: must match dataSourceRef"],
            ),
        ],
    );
    assert_eq!(faults("PersistentVolumeClaim", &claim(", storageClassName: A")).len(), 1);
    assert_eq!(
        warnings("PersistentVolumeClaim", "{spec: {resources: {requests: {storage: 500m}}}}"),
        ["spec.resources.requests[storage]: fractional byte value \"500m\" is invalid, must be an integer"]
    );
}

#[test]
fn data_source_fields_are_synchronized() {
    let spec =
        |text: &str, field: &str| at(&created("PersistentVolumeClaim", &claim(text)), &["spec", field]);
    let snapshot = "{apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: s}";
    let copied = r#"{"apiGroup":"snapshot.storage.k8s.io","kind":"VolumeSnapshot","name":"s"}"#;
    assert_eq!(spec(&format!(", dataSource: {snapshot}"), "dataSourceRef"), copied);
    assert_eq!(spec(&format!(", dataSourceRef: {snapshot}"), "dataSource"), copied);
    assert_eq!(spec(", dataSource: {apiGroup: x.y, kind: Odd, name: s}", "dataSource"), "");
    assert_eq!(
        spec(", dataSourceRef: {kind: PersistentVolumeClaim, name: s, namespace: other}", "dataSourceRef"),
        ""
    );
    let made = created("PersistentVolumeClaim", "{status: {phase: Bound, capacity: {storage: 1Gi}}}");
    assert_eq!(at(&made, &["status"]), r#"{"phase":"Pending"}"#);
}

#[test]
fn immutable_claim_spec_error_shows_a_diff() {
    let hunk = |fault: &str| fault.split_once('\n').unwrap().1.to_owned();
    let (old, new) = (volume("nfs: {server: s, path: /a}"), volume("nfs: {server: s, path: /b}"));
    let faults = update_faults("PersistentVolume", &old, &new);
    assert_eq!(
        hunk(&faults[0]),
        r#"@@ -5,7 +5,7 @@
  "Glusterfs": null,
  "NFS": {
   "Server": "s",
-  "Path": "/a",
+  "Path": "/b",
   "ReadOnly": false
  },
  "RBD": null,
"#
    );
    let bound = |size: &str, mode: &str| {
        format!(
            "{{spec: {{accessModes: [{mode}], volumeName: v, resources: {{requests: {{storage: {size}}}}}}}, status: {{phase: Bound}}}}"
        )
    };
    // The size of a bound claim may grow, so it is not part of the difference.
    let faults =
        update_faults("PersistentVolumeClaim", &bound("1Gi", "ReadWriteOnce"), &bound("2Gi", "ReadOnlyMany"));
    assert_eq!(
        hunk(&faults[0]),
        r#"@@ -1,6 +1,6 @@
 {
  "AccessModes": [
-  "ReadWriteOnce"
+  "ReadOnlyMany"
  ],
  "Selector": null,
  "Resources": {
"#
    );
}

#[test]
fn unbound_claim_can_be_bound_and_bound_claim_can_be_expanded() {
    let immutable = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n";
    let bound = |size: &str, more: &str| {
        format!(
            "{{spec: {{accessModes: [ReadWriteOnce], volumeName: v, resources: {{requests: {{storage: {size}}}}}{more}}}, status: {{phase: Bound, capacity: {{storage: 1Gi}}}}}}"
        )
    };
    let beta = "metadata: {annotations: {volume.beta.kubernetes.io/storage-class: c}}";
    check_updates(
        "PersistentVolumeClaim",
        &[
            (&claim(""), &claim(", volumeName: v"), &[]),
            (&claim(", volumeName: v"), &claim(", volumeName: w"), &[immutable]),
            (&claim(""), &claim("").replace("1Gi", "2Gi"), &[immutable]),
            (&claim(""), &claim("").replace("1Gi", "1024Mi"), &[]),
            (&claim(""), &claim(", storageClassName: c"), &[]),
            (&claim(", storageClassName: c"), &claim(""), &[immutable]),
            (&format!("{{{beta}, spec: {{{CLAIM}}}}}"), &claim(", storageClassName: c"), &[]),
            (
                &format!("{{{beta}, spec: {{{CLAIM}}}}}"),
                &claim(""),
                &[
                    "metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: \"\": field is immutable",
                ],
            ),
            (&bound("1Gi", ""), &bound("2Gi", ""), &[]),
            (&bound("3Gi", ""), &bound("2Gi", ""), &[]),
            (
                &bound("3Gi", ""),
                &bound("1Gi", ""),
                &["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
            ),
            (&bound("1Gi", ""), &bound("1Gi", ", volumeAttributesClassName: gold"), &[]),
            (&claim(""), &claim(", volumeAttributesClassName: gold"), &[immutable]),
            (
                &bound("1Gi", ""),
                &bound("1Gi", ", volumeMode: Block"),
                &[immutable, "volumeMode: Invalid value: \"Block\": field is immutable"],
            ),
            (
                &bound("1Gi", ", volumeAttributesClassName: a")
                    .replace("phase: Bound", "phase: Bound, currentVolumeAttributesClassName: a"),
                &bound("1Gi", ""),
                &[
                    "spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil",
                ],
            ),
        ],
    );
}

#[test]
fn status_of_a_claim_is_validated() {
    let status = |text: &str| format!("{{status: {text}}}");
    let old = claim("");
    for (text, expected) in [
        (
            "{phase: Bound, capacity: {storage: 1Gi}, allocatedResources: {storage: 2Gi}, allocatedResourceStatuses: {storage: NodeResizePending}}",
            vec![],
        ),
        (
            "{capacity: {storage: '-1'}}",
            vec!["status.capacity[storage]: Invalid value: -1: must be a valid resource quantity"],
        ),
        (
            "{allocatedResourceStatuses: {storage: Odd}}",
            vec![
                "status.allocatedResourceStatuses: Unsupported value: \"storage\": supported values: \"ControllerResizeInProgress\", \"ControllerResizeInfeasible\", \"NodeResizeInProgress\", \"NodeResizeInfeasible\", \"NodeResizePending\"",
            ],
        ),
        (
            "{allocatedResources: {cpu: '1'}}",
            vec!["status.allocatedResources: Unsupported value: \"cpu\": supported values: \"storage\""],
        ),
    ] {
        assert_eq!(status_faults("PersistentVolumeClaim", &old, &status(text)), expected, "{text}");
    }
    assert_eq!(status_faults("PersistentVolumeClaim", "{}", "{}"), ["Spec.accessModes: Required value"]);
}
