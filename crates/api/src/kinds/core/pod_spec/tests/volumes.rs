//! Validation of volumes and annotations.

use super::{check, faults, prepared};

/// Asserts the errors of volumes named `v`: each case is the source and its errors, without the path to it.
fn check_source(cases: &[(&str, &[&str])]) {
    for (source, expected) in cases {
        let expected: Vec<String> = expected.iter().map(|fault| format!("spec.volumes[0]{fault}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let comma = if source.is_empty() { "" } else { "," };
        let spec = format!(r#""serviceAccountName":"s","volumes":[{{"name":"v"{comma}{source}}}]"#);
        check(&[(&spec, &expected)]);
    }
}

#[test]
fn volumes_have_names_and_one_source() {
    check_source(&[
        ("", &[]),
        (
            r#""emptyDir":{},"hostPath":{"path":"/x"},"cephfs":{"monitors":["m"]},"downwardAPI":{}"#,
            &[
                ".hostPath: Forbidden: may not specify more than 1 volume type",
                ".cephFS: Forbidden: may not specify more than 1 volume type",
                ".downwarAPI: Forbidden: may not specify more than 1 volume type",
            ],
        ),
        (
            r#""emptyDir":{"sizeLimit":"-1"}"#,
            &[".emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
        ),
        (r#""emptyDir":{"medium":"Memory","sizeLimit":"1Gi","mode":7777}"#, &[]),
    ]);
    check(&[
        (r#""volumes":[{"name":""}]"#, &["spec.volumes[0].name: Required value"]),
        (r#""volumes":[{"name":"a"},{"name":"a"}]"#, &[r#"spec.volumes[1].name: Duplicate value: "a""#]),
    ]);
}

#[test]
fn host_path_types_are_validated() {
    check_source(&[
        (r#""hostPath":{"path":"/x","type":"Socket"}"#, &[]),
        (r#""hostPath":{"path":""}"#, &[".hostPath.path: Required value"]),
        (
            r#""hostPath":{"path":"/a/../b","type":"Pipe"}"#,
            &[
                r#".hostPath.path: Invalid value: "/a/../b": must not contain '..'"#,
                r#".hostPath.type: Unsupported value: "Pipe": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket""#,
            ],
        ),
    ]);
}

#[test]
fn config_map_and_secret_items_are_validated() {
    check_source(&[
        (r#""secret":{"secretName":"s","items":[{"key":"k","path":"a/b","mode":511}]}"#, &[]),
        (
            r#""secret":{"defaultMode":512}"#,
            &[
                ".secret.secretName: Required value",
                ".secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            r#""configMap":{"name":"m","items":[{"key":"","path":""},{"key":"k","path":"..x"},{"key":"k","path":"/y","mode":-1}]}"#,
            &[
                ".configMap.items[0].key: Required value",
                ".configMap.items[0].path: Required value",
                r#".configMap.items[1].path: Invalid value: "..x": must not start with '..'"#,
                r#".configMap.items[2].path: Invalid value: "/y": must be a relative path"#,
                ".configMap.items[2].mode: Invalid value: -1: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            r#""persistentVolumeClaim":{"claimName":""}"#,
            &[".persistentVolumeClaim.claimName: Required value"],
        ),
    ]);
}

#[test]
fn downward_api_items_are_validated() {
    check_source(&[
        (
            r#""downwardAPI":{"items":[{"path":"l","fieldRef":{"fieldPath":"metadata.labels"}},{"path":"c","resourceFieldRef":{"containerName":"c","resource":"limits.cpu"}}]}"#,
            &[],
        ),
        (
            r#""downwardAPI":{"items":[{"path":"x"}]}"#,
            &[".downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
        ),
        (
            r#""downwardAPI":{"items":[{"path":"x","resourceFieldRef":{"resource":"limits.cpu"}}]}"#,
            &[".downwardAPI.resourceFieldRef.containerName: Required value"],
        ),
        (
            r#""downwardAPI":{"items":[{"path":"x","fieldRef":{"fieldPath":"spec.nodeName"}}]}"#,
            &[
                r#".downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid""#,
            ],
        ),
        (
            r#""downwardAPI":{"items":[{"path":"x","fieldRef":{"fieldPath":"metadata.name"},"resourceFieldRef":{"resource":"limits.cpu"}}]}"#,
            &[
                r#".downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be specified simultaneously"#,
            ],
        ),
    ]);
}

#[test]
fn projected_paths_are_unique() {
    check_source(&[
        (
            r#""projected":{"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":600}},{"configMap":{"name":"m","items":[{"key":"k","path":"a"}]}}]}"#,
            &[],
        ),
        (
            r#""projected":{"sources":[{"secret":{"name":"s","items":[{"key":"k","path":"a"}]}},{"configMap":{"name":"m","items":[{"key":"k","path":"a"}]}}]}"#,
            &[r#".projected: Invalid value: "m": conflicting duplicate paths"#],
        ),
        (
            r#""projected":{"sources":[{"serviceAccountToken":{"path":"","expirationSeconds":599}}]}"#,
            &[
                ".projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                ".projected.path: Required value",
            ],
        ),
        (
            r#""projected":{"sources":[{"serviceAccountToken":{"path":"../t","expirationSeconds":4294967297}}]}"#,
            &[
                ".projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
                r#".projected.path: Invalid value: "../t": must not contain '..'"#,
            ],
        ),
        (
            r#""projected":{"sources":[{"secret":{"name":"s"},"configMap":{"name":""}}]}"#,
            &[
                ".projected.sources[0].configMap.name: Required value",
                ".projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
            ],
        ),
    ]);
}

#[test]
fn trust_bundle_and_certificate_projections_are_validated() {
    check_source(&[
        (
            r#""projected":{"sources":[{"clusterTrustBundle":{"signerName":"example.com/s","path":"b"}}]}"#,
            &[],
        ),
        (
            r#""projected":{"sources":[{"clusterTrustBundle":{"path":"b"}}]}"#,
            &[
                ".projected.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified",
            ],
        ),
        (
            r#""projected":{"sources":[{"clusterTrustBundle":{"name":"n","labelSelector":{"matchLabels":{"a":"b"}},"path":"b"}}]}"#,
            &[
                r#".projected.sources[0].clusterTrustBundle.labelSelector: Invalid value: {"matchLabels":{"a":"b"}}: labelSelector must be unset if name is specified"#,
            ],
        ),
        (
            r#""projected":{"sources":[{"clusterTrustBundle":{"name":"n","signerName":"example.com/s","path":"b"}}]}"#,
            &[
                r#".projected.sources[0].clusterTrustBundle: Invalid value: {"Name":"n","SignerName":"example.com/s","LabelSelector":null,"Optional":null,"Path":"b","User":null}: only one of name and signerName may be used"#,
            ],
        ),
        (
            r#""projected":{"sources":[{"podCertificate":{"signerName":"example.com/s","keyType":"ED25519","credentialBundlePath":"c"}}]}"#,
            &[],
        ),
        (
            r#""projected":{"sources":[{"podCertificate":{"signerName":"s","keyType":"RSA1","maxExpirationSeconds":60}}]}"#,
            &[
                r#".projected.sources[0].podCertificate.signerName: Invalid value: "s": must be a fully qualified domain and path of the form 'example.com/signer-name'"#,
                r#".projected.sources[0].podCertificate.keyType: Unsupported value: "RSA1": supported values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519""#,
                ".projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 60: if provided, maxExpirationSeconds must be >= 3600",
                ".projected.sources[0].podCertificate: Required value: specify at least one of credentialBundlePath, keyPath, and certificateChainPath",
            ],
        ),
        (
            r#""projected":{"sources":[{"podCertificate":{"signerName":"kubernetes.io/x","keyType":"ED25519","keyPath":"k","certificateChainPath":"k","maxExpirationSeconds":86401}}]}"#,
            &[
                ".projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 86401: if provided, maxExpirationSeconds must be <= 86400",
                r#".projected: Invalid value: "k": conflicting duplicate paths"#,
            ],
        ),
    ]);
    check(&[(
        r#""volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}}]"#,
        &[
            "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
        ],
    )]);
}

#[test]
fn ephemeral_volume_claims_are_validated() {
    let ephemeral = |spec: &str| format!(r#""ephemeral":{{"volumeClaimTemplate":{{"spec":{{{spec}}}}}}}"#);
    let at = ".ephemeral.volumeClaimTemplate.spec";
    check_source(&[
        (&ephemeral(r#""accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}"#), &[]),
        (r#""ephemeral":{}"#, &[".ephemeral.volumeClaimTemplate: Required value"]),
        (
            &ephemeral(""),
            &[
                &format!("{at}.accessModes: Required value: at least 1 access mode is required"),
                &format!("{at}.resources[storage]: Required value"),
            ],
        ),
        (
            &ephemeral(
                r#""accessModes":["ReadWriteOncePod","ReadWriteMany"],"resources":{"requests":{"storage":"0"}},"volumeMode":"Tape""#,
            ),
            &[
                &format!("{at}.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"),
                &format!(r#"{at}.resources[storage]: Invalid value: "0": must be greater than zero"#),
                &format!(
                    r#"{at}.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem""#
                ),
            ],
        ),
        (
            &ephemeral(
                r#""accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}},"dataSource":{"kind":"X","name":"n"},"dataSourceRef":{"kind":"PersistentVolumeClaim","name":"n"}"#,
            ),
            &[
                &format!(
                    r#"{at}.dataSource: Invalid value: "X": must be 'PersistentVolumeClaim' when referencing the default apiGroup"#
                ),
                &format!("{at}: Invalid value: {{}}: must match dataSourceRef"),
            ],
        ),
        (
            r#""ephemeral":{"volumeClaimTemplate":{"metadata":{"name":"x","uid":"y","labels":{"a":"b"}},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}}"#,
            &[
                ".ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
                ".ephemeral.volumeClaimTemplate.metadata.uID: Forbidden: cannot be set",
            ],
        ),
    ]);
    let good = ephemeral(r#""accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}"#);
    let spec = format!(
        r#""volumes":[{{"name":"v",{good}}},{{"name":"w","persistentVolumeClaim":{{"claimName":"p-v"}}}}]"#
    );
    check(&[(
        &spec,
        &[
            r#"spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "p-v": must not reference a PVC that gets created for an ephemeral volume"#,
        ],
    )]);
}

#[test]
fn csi_and_image_volumes_are_validated() {
    check_source(&[
        (r#""csi":{"driver":"Example.com"},"name":"v""#, &[]),
        (r#""csi":{"driver":""}"#, &[".csi.driver: Required value"]),
        (
            r#""csi":{"driver":"a","nodePublishSecretRef":{}}"#,
            &[".csi.nodePublishSecretRef.name: Required value"],
        ),
        (r#""image":{"reference":"r","pullPolicy":"Never"}"#, &[]),
        (
            r#""image":{"pullPolicy":"x"}"#,
            &[
                ".image.reference: Required value",
                r#".image.pullPolicy: Unsupported value: "x": supported values: "Always", "IfNotPresent", "Never""#,
            ],
        ),
    ]);
}

#[test]
fn removed_drivers_are_still_validated() {
    check_source(&[
        (
            r#""gitRepo":{"repository":"r","directory":"/x"}"#,
            &[r#".gitRepo.directory: Invalid value: "/x": must be a relative path"#],
        ),
        (
            r#""gcePersistentDisk":{"pdName":"","partition":256}"#,
            &[
                ".persistentDisk.pdName: Required value",
                ".persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
            ],
        ),
        (r#""awsElasticBlockStore":{"volumeID":"x","partition":1}"#, &[]),
        (
            r#""nfs":{"server":"","path":"x"}"#,
            &[".nfs.server: Required value", r#".nfs.path: Invalid value: "x": must be an absolute path"#],
        ),
        (r#""iscsi":{"targetPortal":"t","iqn":"iqn.2024-01.example.com:x","lun":0}"#, &[]),
        (r#""iscsi":{"targetPortal":"t","iqn":"eui.0123456789abcdef","lun":0}"#, &[]),
        (
            r#""iscsi":{"targetPortal":"","iqn":"iqn.24-01.x:y","lun":256,"chapAuthSession":true,"initiatorName":"x"}"#,
            &[
                ".iscsi.targetPortal: Required value",
                r#".iscsi.iqn: Invalid value: "iqn.24-01.x:y": must be valid format"#,
                ".iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
                ".iscsi.secretRef: Required value",
                r#".iscsi.initiatorname: Invalid value: "x": must be valid format starting with iqn, eui, or naa"#,
            ],
        ),
        (
            r#""glusterfs":{"endpoints":"","path":""}"#,
            &[".glusterfs.endpoints: Required value", ".glusterfs.path: Required value"],
        ),
    ]);
}

#[test]
fn more_removed_drivers_are_still_validated() {
    check_source(&[
        (
            r#""flocker":{"datasetName":"a/b","datasetUUID":"u"}"#,
            &[
                r#".flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously"#,
                r#".flocker.datasetName: Invalid value: "a/b": must not contain '/'"#,
            ],
        ),
        (
            r#""rbd":{"monitors":[],"image":""}"#,
            &[".rbd.monitors: Required value", ".rbd.image: Required value"],
        ),
        (
            r#""cinder":{"volumeID":"","secretRef":{}}"#,
            &[".cinder.volumeID: Required value", ".cinder.secretRef.name: Required value"],
        ),
        (r#""cephfs":{"monitors":[]}"#, &[".cephfs.monitors: Required value"]),
        (r#""quobyte":{"registry":"a:1,b:2","volume":"v"}"#, &[]),
        (
            r#""quobyte":{"registry":"a","volume":""}"#,
            &[
                r#".quobyte.registry: Invalid value: "a": must be a host:port pair or multiple pairs separated by commas"#,
                ".quobyte.volume: Required value",
            ],
        ),
        (
            r#""fc":{"targetWWNs":["a"],"wwids":["b"]}"#,
            &[
                r#".fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously"#,
                ".fc.lun: Required value: lun is required if targetWWNs is specified",
            ],
        ),
        (
            r#""flexVolume":{"driver":"d","options":{"a.Kubernetes.io/x":"1","ok":"2"}}"#,
            &[
                r#".flexVolume.options[a.Kubernetes.io/x]: Invalid value: "a.Kubernetes.io/x": kubernetes.io and k8s.io namespaces are reserved"#,
            ],
        ),
        (r#""azureFile":{"secretName":"","shareName":"s"}"#, &[".azureFile.secretName: Required value"]),
        (
            r#""azureDisk":{"diskName":"d","diskURI":"x","kind":"Managed","cachingMode":"Most"}"#,
            &[
                r#".azureDisk.cachingMode: Unsupported value: "Most": supported values: "None", "ReadOnly", "ReadWrite""#,
                r#".azureDisk.diskURI: Unsupported value: "x": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}""#,
            ],
        ),
        (r#""vsphereVolume":{"volumePath":""}"#, &[".vsphereVolume.volumePath: Required value"]),
        (r#""photonPersistentDisk":{"pdID":""}"#, &[".photonPersistentDisk.pdID: Required value"]),
        (r#""portworxVolume":{"volumeID":""}"#, &[".portworxVolume.volumeID: Required value"]),
        (r#""storageos":{"volumeName":""}"#, &[".storageos.volumeName: Required value"]),
        (
            r#""scaleIO":{"gateway":"","system":"s","secretRef":{"name":"x"}}"#,
            &[".scaleIO.gateway: Required value", ".scaleIO.volumeName: Required value"],
        ),
    ]);
}

#[test]
fn pod_annotations_are_validated() {
    let with = |key: &str, value: &str| {
        format!(
            r#"{{"metadata":{{"name":"p","annotations":{{"{key}":"{value}"}}}},"spec":{{"containers":[{{"name":"c","image":"i:1","securityContext":{{"seccompProfile":{{"type":"RuntimeDefault"}}}}}}]}}}}"#
        )
    };
    let cases: [(&str, &str, &[&str]); 9] = [
        ("controller.kubernetes.io/pod-deletion-cost", "-7", &[]),
        (
            "controller.kubernetes.io/pod-deletion-cost",
            "+7",
            &[
                r#"metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+7": must be a 32bit integer"#,
            ],
        ),
        (
            "kubernetes.io/config.mirror",
            "x",
            &[
                r#"metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set"#,
            ],
        ),
        (
            "seccomp.security.alpha.kubernetes.io/pod",
            "odd",
            &[
                r#"metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "odd": must be a valid seccomp profile"#,
            ],
        ),
        ("container.seccomp.security.alpha.kubernetes.io/c", "docker/default", &[]),
        (
            "container.seccomp.security.alpha.kubernetes.io/c",
            "unconfined",
            &[
                "spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
            ],
        ),
        (
            "container.apparmor.security.beta.kubernetes.io/d",
            "odd",
            &[
                r#"metadata.annotations[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: "d": container not found"#,
                r#"metadata.annotations[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: "odd": invalid AppArmor profile name: "odd""#,
            ],
        ),
        ("container.apparmor.security.beta.kubernetes.io/c", "localhost/x", &[]),
        (
            "scheduler.alpha.kubernetes.io/tolerations",
            r#"[{\"Key\":\"a\",\"Operator\":\"Odd\"}]"#,
            &[
                r#"metadata.annotations.scheduler.alpha.kubernetes.io/tolerations[0].operator: Unsupported value: "Odd": supported values: "Equal", "Exists""#,
            ],
        ),
    ];
    for (key, value, expected) in cases {
        assert_eq!(faults("Pod", &prepared("Pod", &with(key, value))), expected, "{key}: {value}");
    }
}
