//! References of pods and volumes.

use setpoint_api::{Value, json};

use super::super::{PodReferences, VertexType, VolumeReferences, first_api_reference};

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn pod(spec: &str, status: &str) -> Value {
    parse(&format!(
        r#"{{"metadata":{{"name":"p","namespace":"a"}},"spec":{{"nodeName":"n",{spec}}},"status":{status}}}"#
    ))
}

fn names(pod: &Value, vertex_type: VertexType) -> Vec<String> {
    let references = PodReferences::read(pod).unwrap();
    let of_type = references.objects.iter().filter(|(ty, _)| *ty == vertex_type);
    of_type.map(|(_, name)| name.to_string()).collect()
}

#[test]
fn every_secret_of_a_pod_is_found() {
    let environment = |name: &str| {
        format!(
            r#"{{"envFrom":[{{"secretRef":{{"name":"{name}-from"}}}},{{"configMapRef":{{"name":"c"}}}}],
                "env":[{{"name":"V","valueFrom":{{"secretKeyRef":{{"name":"{name}-key","key":"k"}}}}}}]}}"#
        )
    };
    let spec = format!(
        r#""imagePullSecrets":[{{"name":"pull"}},{{"name":""}}],"initContainers":[{}],"containers":[{}],
           "ephemeralContainers":[{}],
           "volumes":[{{"secret":{{"secretName":"v-secret"}}}},{{"azureFile":{{"secretName":"v-azure"}}}},
             {{"cephfs":{{"secretRef":{{"name":"v-ceph"}}}}}},{{"cinder":{{"secretRef":{{"name":"v-cinder"}}}}}},
             {{"flexVolume":{{"secretRef":{{"name":"v-flex"}}}}}},{{"rbd":{{"secretRef":{{"name":"v-rbd"}}}}}},
             {{"scaleIO":{{"secretRef":{{"name":"v-scale"}}}}}},{{"iscsi":{{"secretRef":{{"name":"v-iscsi"}}}}}},
             {{"storageos":{{"secretRef":{{"name":"v-os"}}}}}},
             {{"csi":{{"driver":"d","nodePublishSecretRef":{{"name":"v-csi"}}}}}},
             {{"projected":{{"sources":[{{"secret":{{"name":"v-projected"}}}}]}}}}]"#,
        environment("init"),
        environment("main"),
        environment("debug")
    );
    let expected = [
        "debug-from",
        "debug-key",
        "init-from",
        "init-key",
        "main-from",
        "main-key",
        "pull",
        "v-azure",
        "v-ceph",
        "v-cinder",
        "v-csi",
        "v-flex",
        "v-iscsi",
        "v-os",
        "v-projected",
        "v-rbd",
        "v-scale",
        "v-secret",
    ];
    assert_eq!(names(&pod(&spec, "{}"), VertexType::Secret), expected);
}

#[test]
fn config_maps_accounts_and_claims_of_a_pod_are_found() {
    let spec = r#""serviceAccountName":"sa",
        "containers":[{"envFrom":[{"configMapRef":{"name":"c1"}}],
            "env":[{"name":"V","valueFrom":{"configMapKeyRef":{"name":"c2","key":"k"}}}]}],
        "volumes":[{"name":"v1","configMap":{"name":"c3"}},
            {"name":"v2","projected":{"sources":[{"configMap":{"name":"c4"}}]}},
            {"name":"v3","persistentVolumeClaim":{"claimName":"pvc"}},
            {"name":"v4","ephemeral":{"volumeClaimTemplate":{"spec":{}}}}],
        "resourceClaims":[{"name":"one","resourceClaimName":"named"},
            {"name":"two","resourceClaimTemplateName":"t"},{"name":"three","resourceClaimTemplateName":"t"},
            {"name":"four","resourceClaimTemplateName":"t"}]"#;
    let status = r#"{"resourceClaimStatuses":[{"name":"two","resourceClaimName":"generated"},{"name":"three"}],
        "extendedResourceClaimStatus":{"resourceClaimName":"extended"}}"#;
    let pod = pod(spec, status);
    assert_eq!(names(&pod, VertexType::ConfigMap), ["c1", "c2", "c3", "c4"]);
    assert_eq!(names(&pod, VertexType::ServiceAccount), ["sa"]);
    assert_eq!(names(&pod, VertexType::Claim), ["p-v4", "pvc"]);
    assert_eq!(names(&pod, VertexType::ResourceClaim), ["extended", "generated", "named"]);
}

#[test]
fn unbound_and_mirror_pods_refer_to_nothing() {
    assert_eq!(PodReferences::read(&parse(r#"{"spec":{"serviceAccountName":"sa"}}"#)), None);
    let mut mirror = pod(r#""serviceAccountName":"sa""#, "{}");
    mirror.ensure_map("metadata").ensure_map("annotations").insert("kubernetes.io/config.mirror", "");
    let references = PodReferences::read(&mirror).unwrap();
    assert_eq!((&*references.node, references.objects.len()), ("n", 0));
}

#[test]
fn secrets_of_a_volume_are_in_their_own_namespace_or_that_of_the_claim() {
    let secrets = |source: &str| {
        let text = format!(r#"{{"spec":{{"claimRef":{{"namespace":"a","name":"c"}},{source}}}}}"#);
        let references = VolumeReferences::read(&parse(&text)).unwrap();
        let secrets = references.secrets.iter().map(|(namespace, name)| format!("{namespace}/{name}"));
        secrets.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(secrets(r#""azureFile":{"secretName":"s"}"#), "a/s");
    assert_eq!(secrets(r#""azureFile":{"secretName":"s","secretNamespace":"x"}"#), "x/s");
    for source in ["cephfs", "flexVolume", "rbd", "scaleIO", "iscsi"] {
        assert_eq!(secrets(&format!(r#""{source}":{{"secretRef":{{"name":"s"}}}}"#)), "a/s", "{source}");
        let named = format!(r#""{source}":{{"secretRef":{{"name":"s","namespace":"x"}}}}"#);
        assert_eq!(secrets(&named), "x/s", "{source}");
    }
    for source in ["cinder", "storageos"] {
        let named = format!(r#""{source}":{{"secretRef":{{"name":"s","namespace":"x"}}}}"#);
        assert_eq!(secrets(&named), "x/s", "{source}");
    }
    let csi = r#""csi":{"controllerPublishSecretRef":{"name":"no","namespace":"x"},
        "controllerExpandSecretRef":{"name":"no","namespace":"x"},
        "nodePublishSecretRef":{"name":"publish","namespace":"x"},
        "nodeStageSecretRef":{"name":"stage","namespace":"x"},
        "nodeExpandSecretRef":{"name":"expand","namespace":"x"}}"#;
    assert_eq!(secrets(csi), "x/expand x/publish x/stage");
    assert_eq!(VolumeReferences::read(&parse(r#"{"spec":{"azureFile":{"secretName":"s"}}}"#)), None);
}

#[test]
fn reference_of_a_mirror_pod_is_named_as_upstream_names_it() {
    let found = |spec: &str| first_api_reference(&pod(spec, "{}"));
    let volume = |source: &str| found(&format!(r#""volumes":[{{"name":"v",{source}}}]"#));
    assert_eq!(found(r#""containers":[]"#), Ok(None));
    assert_eq!(found(r#""serviceAccountName":"sa""#), Ok(Some("serviceaccounts")));
    assert_eq!(found(r#""imagePullSecrets":[{"name":"s"}]"#), Ok(Some("secrets")));
    assert_eq!(found(r#""resourceClaims":[{"name":"r"}]"#), Ok(Some("resourceclaims")));
    for (source, expected) in [
        (r#""emptyDir":{}"#, None),
        (r#""hostPath":{"path":"/x"}"#, None),
        (r#""projected":{"sources":[{"downwardAPI":{}}]}"#, None),
        (r#""configMap":{"name":"c"}"#, Some("configmaps")),
        (r#""configMap":{}"#, Some("configmaps (via configmap volumes)")),
        (r#""secret":{}"#, Some("secrets (via secret volumes)")),
        (r#""csi":{"driver":"d"}"#, Some("csidrivers (via CSI volumes)")),
        (r#""glusterfs":{"endpoints":"e"}"#, Some("endpoints (via glusterFS volumes)")),
        (r#""persistentVolumeClaim":{"claimName":"c"}"#, Some("persistentvolumeclaims")),
        (r#""ephemeral":{}"#, Some("persistentvolumeclaims (via ephemeral volumes)")),
        (r#""azureFile":{}"#, Some("secrets (via azureFile volumes)")),
        (
            r#""projected":{"sources":[{"serviceAccountToken":{}}]}"#,
            Some("serviceaccounts (via projected volumes)"),
        ),
        (r#""projected":{"sources":[{"clusterTrustBundle":{}}]}"#, Some("clustertrustbundles")),
        (r#""projected":{"sources":[{"podCertificate":{}}]}"#, Some("podcertificates")),
    ] {
        assert_eq!(volume(source), Ok(expected), "{source}");
    }
    assert_eq!(volume(r#""new":{}"#), Err("unknown volume type for volume  \"v\"".to_owned()));
    assert_eq!(
        volume(r#""projected":{"sources":[{"new":{}}]}"#),
        Err("unknown source for projected volume \"v\"".to_owned())
    );
}
