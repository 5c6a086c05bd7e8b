//! Validation and defaulting of Services.

use super::families::{Families, prepare_create, prepare_update};
use crate::field_error::ErrorList;
use crate::kinds::core::tests::{
    at, check_all, created, object, of, status_faults, texts, update_faults, warnings,
};
use crate::value::Value;

const V4: Families = Families { primary_is_ipv6: false, dual_stack: false };
const DUAL: Families = Families { primary_is_ipv6: false, dual_stack: true };
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn spec(object: &Value) -> String {
    at(object, &["spec"])
}

#[test]
fn services_are_defaulted() {
    for (text, expected) in [
        ("{}", r#"{"sessionAffinity":"None","type":"ClusterIP","internalTrafficPolicy":"Cluster"}"#),
        (
            "{spec: {ports: [{port: 80}, {port: 81, targetPort: web, protocol: UDP}]}}",
            r#"{"ports":[{"port":80,"targetPort":80,"protocol":"TCP"},{"protocol":"UDP","port":81,"targetPort":"web"}],"sessionAffinity":"None","type":"ClusterIP","internalTrafficPolicy":"Cluster"}"#,
        ),
        (
            "{spec: {type: LoadBalancer, sessionAffinity: ClientIP}}",
            r#"{"type":"LoadBalancer","sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":10800}},"externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster","allocateLoadBalancerNodePorts":true}"#,
        ),
        (
            "{spec: {type: ExternalName, externalName: a.b}}",
            r#"{"type":"ExternalName","externalName":"a.b","sessionAffinity":"None"}"#,
        ),
        (
            "{spec: {externalIPs: [1.2.3.4], sessionAffinityConfig: {}}}",
            r#"{"externalIPs":["1.2.3.4"],"sessionAffinity":"None","type":"ClusterIP","externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster"}"#,
        ),
    ] {
        let (have, want) = (object("Service", text), crate::json::parse(expected.as_bytes()).unwrap());
        let mut spec = have.get("spec").unwrap().clone();
        // Without ports, decoding may or may not leave an empty list.
        if spec.get("ports").is_some_and(Value::is_empty) {
            spec.make_map().remove("ports");
        }
        assert_eq!(spec, want, "{text}");
    }
    let balancer =
        "{spec: {type: LoadBalancer}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}, {hostname: a}]}}}";
    assert_eq!(
        at(&object("Service", balancer), &["status", "loadBalancer", "ingress"]),
        r#"[{"ip":"1.2.3.4","ipMode":"VIP"},{"hostname":"a"}]"#
    );
}

#[test]
fn service_ports_are_validated() {
    let label = format!("spec.ports[0].name: Invalid value: \"A\": {LABEL}");
    let duplicate =
        r#"{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#;
    let duplicate = format!("spec.ports[1]: Duplicate value: {duplicate}");
    check_all(
        "Service",
        &[
            ("{spec: {ports: [{port: 80}]}}", &[]),
            ("{spec: {ports: [{name: a, port: 80}, {name: b, port: 80, protocol: UDP}]}}", &[]),
            ("{spec: {ports: [{port: 80, appProtocol: kubernetes.io/h2c, targetPort: web-1}]}}", &[]),
            ("{spec: {}}", &["spec.ports: Required value"]),
            (
                "{spec: {ports: [{port: 80}, {port: 81}]}}",
                &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
            ),
            ("{spec: {ports: [{name: A, port: 80}]}}", &[&label]),
            (
                "{spec: {ports: [{name: a, port: 80}, {name: a, port: 81}]}}",
                &["spec.ports[1].name: Duplicate value: \"a\""],
            ),
            ("{spec: {ports: [{name: a, port: 80}, {name: b, port: 80}]}}", &[&duplicate]),
            (
                "{spec: {ports: [{port: 0}], type: Odd}}",
                &[
                    "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "spec.type: Unsupported value: \"Odd\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
                ],
            ),
            (
                "{spec: {ports: [{port: 80, protocol: X}]}}",
                &[
                    "spec.ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                ],
            ),
            (
                "{spec: {ports: [{port: 80, nodePort: 30000}]}}",
                &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
            ),
            (
                "{spec: {type: NodePort, ports: [{name: a, port: 80, nodePort: 30000}, {name: b, port: 81, nodePort: 30000}]}}",
                &["spec.ports[1].nodePort: Duplicate value: 30000"],
            ),
        ],
    );
}

#[test]
fn fields_depend_on_the_service_type() {
    let name = format!("spec.externalName: Invalid value: \"A\": {SUBDOMAIN}");
    let only = "may only be used when `type` is 'LoadBalancer'";
    let (ranges, class, allocate) = (
        format!("spec.LoadBalancerSourceRanges: Forbidden: {only}"),
        format!("spec.loadBalancerClass: Forbidden: {only}"),
        format!("spec.allocateLoadBalancerNodePorts: Forbidden: {only}"),
    );
    check_all(
        "Service",
        &[
            ("{spec: {type: ExternalName, externalName: a.b.}}", &[]),
            ("{spec: {type: ExternalName}}", &["spec.externalName: Required value"]),
            ("{spec: {type: ExternalName, externalName: A}}", &[&name]),
            (
                "{spec: {type: ExternalName, externalName: a, clusterIPs: [None], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}}",
                &[
                    "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
                    "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
                    "spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
                ],
            ),
            ("{spec: {clusterIP: None, clusterIPs: [None]}}", &[]),
            (
                "{spec: {type: NodePort, clusterIP: None, clusterIPs: [None]}}",
                &[
                    "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], loadBalancerSourceRanges: [10.0.0.0/8], loadBalancerClass: a/b, allocateLoadBalancerNodePorts: true}}",
                &[&ranges, &allocate, &class],
            ),
            (
                "{spec: {type: LoadBalancer, ports: [{port: 80}], loadBalancerSourceRanges: [' 10.0.0.0/8 ', x]}}",
                &[
                    "spec.LoadBalancerSourceRanges[1]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ],
            ),
            (
                "{metadata: {annotations: {service.beta.kubernetes.io/load-balancer-source-ranges: '10.0.0.0/8, x'}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}",
                &[
                    "metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
                ],
            ),
            (
                "{metadata: {annotations: {service.kubernetes.io/topology-mode: Auto, service.kubernetes.io/topology-aware-hints: 'Off'}}, spec: {ports: [{port: 80}]}}",
                &[
                    "metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: \"Auto\": must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified",
                ],
            ),
        ],
    );
}

#[test]
fn service_policies_are_validated() {
    check_all(
        "Service",
        &[
            ("{spec: {ports: [{port: 80}], sessionAffinity: ClientIP}}", &[]),
            (
                "{spec: {ports: [{port: 80}], sessionAffinity: Odd}}",
                &[
                    "spec.sessionAffinity: Unsupported value: \"Odd\": supported values: \"ClientIP\", \"None\"",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}}}",
                &[
                    "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], externalTrafficPolicy: Local}}",
                &[
                    "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
                ],
            ),
            (
                "{spec: {type: NodePort, ports: [{port: 80}], externalTrafficPolicy: Odd, healthCheckNodePort: 30000}}",
                &[
                    "spec.externalTrafficPolicy: Unsupported value: \"Odd\": supported values: \"Cluster\", \"Local\"",
                    "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
                ],
            ),
            (
                "{spec: {type: LoadBalancer, ports: [{port: 80}], externalTrafficPolicy: Local}}",
                &["spec.healthCheckNodePort: Required value"],
            ),
            (
                "{spec: {type: LoadBalancer, ports: [{port: 80}], externalTrafficPolicy: Local, healthCheckNodePort: 70000}}",
                &["spec.healthCheckNodePort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
            ),
            (
                "{spec: {ports: [{port: 80}], internalTrafficPolicy: Odd, trafficDistribution: Odd}}",
                &[
                    "spec.internalTrafficPolicy: Unsupported value: \"Odd\": supported values: \"Cluster\", \"Local\"",
                    "spec.trafficDistribution: Unsupported value: \"Odd\": supported values: \"PreferClose\", \"PreferSameZone\", \"PreferSameNode\"",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], externalIPs: [127.0.0.1, 010.0.0.1]}}",
                &[
                    "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                    "spec.externalIPs[1]: Invalid value: \"010.0.0.1\": must not have leading 0s",
                ],
            ),
        ],
    );
}

#[test]
fn addresses_match_the_ip_families() {
    check_all(
        "Service",
        &[
            (
                "{spec: {ports: [{port: 80}], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, '2001:db8::1']}}",
                &[],
            ),
            ("{spec: {ports: [{port: 80}], clusterIP: 10.0.0.1}}", &["spec.clusterIPs: Required value"]),
            (
                "{spec: {ports: [{port: 80}], clusterIPs: [10.0.0.1]}}",
                &[
                    "spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: must be empty when `clusterIP` is not specified",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], clusterIP: 10.0.0.2, clusterIPs: [10.0.0.1]}}",
                &["spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: first value must match `clusterIP`"],
            ),
            (
                "{spec: {ports: [{port: 80}], clusterIP: None, clusterIPs: [None, 10.0.0.1]}}",
                &[
                    "spec.clusterIPs: Invalid value: [\"None\",\"10.0.0.1\"]: 'None' must be the first and only value",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 10.0.0.2]}}",
                &[
                    "spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"10.0.0.2\"]: may specify no more than one IP for each IP family",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, '::2', '::3']}}",
                &[
                    "spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"::2\",\"::3\"]: may only hold up to 2 values",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv6]}}",
                &[
                    "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`",
                ],
            ),
            (
                "{spec: {ports: [{port: 80}], ipFamilies: [IPv4, IPv4, IPv5], ipFamilyPolicy: Odd}}",
                &[
                    "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
                    "spec.ipFamilies[2]: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\"",
                    "spec.ipFamilyPolicy: Unsupported value: \"Odd\": supported values: \"PreferDualStack\", \"RequireDualStack\", \"SingleStack\"",
                ],
            ),
        ],
    );
}

/// Families of a new Service, or the errors.
fn resolved(text: &str, families: Families) -> Result<String, Vec<String>> {
    let mut service = object("Service", text);
    prepare_create(&mut service, families).map_err(texts)?;
    let spec = |field: &str| at(&service, &["spec", field]);
    Ok(format!("{} {} {}", spec("ipFamilyPolicy"), spec("ipFamilies"), spec("clusterIPs")))
}

#[test]
fn families_of_a_new_service_are_resolved() {
    for (text, families, expected) in [
        ("{}", V4, r#""SingleStack" ["IPv4"] "#),
        ("{}", DUAL, r#""SingleStack" ["IPv4"] "#),
        ("{spec: {clusterIP: 10.0.0.1}}", V4, r#""SingleStack" ["IPv4"] ["10.0.0.1"]"#),
        ("{spec: {clusterIP: '::1'}}", DUAL, r#""SingleStack" ["IPv6"] ["::1"]"#),
        ("{spec: {ipFamilyPolicy: PreferDualStack}}", V4, r#""PreferDualStack" ["IPv4"] "#),
        ("{spec: {ipFamilyPolicy: PreferDualStack}}", DUAL, r#""PreferDualStack" ["IPv4","IPv6"] "#),
        (
            "{spec: {ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]}}",
            DUAL,
            r#""RequireDualStack" ["IPv6","IPv4"] "#,
        ),
        ("{spec: {clusterIP: None}}", V4, r#""RequireDualStack" ["IPv4","IPv6"] ["None"]"#),
        ("{spec: {clusterIP: None, selector: {a: b}}}", V4, r#""SingleStack" ["IPv4"] ["None"]"#),
        ("{spec: {type: ExternalName}}", V4, "  "),
    ] {
        assert_eq!(resolved(text, families), Ok(expected.to_owned()), "{text}");
    }
    for (text, expected) in [
        (
            "{spec: {ipFamilyPolicy: RequireDualStack}}",
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            "{spec: {ipFamilies: [IPv6]}}",
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            "{spec: {clusterIP: '::1'}}",
            "spec.clusterIPs[0]: Invalid value: [\"::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            "{spec: {ipFamilies: [IPv4, IPv6]}}",
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (
            "{spec: {clusterIP: x}}",
            "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
    ] {
        assert_eq!(resolved(text, V4), Err(vec![expected.to_owned()]), "{text}");
    }
}

const STORED: &str = "{metadata: {name: s}, spec: {type: NodePort, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack, ports: [{name: a, port: 80, nodePort: 30001}, {name: b, port: 81, nodePort: 30002}]}}";
const STORED_DUAL: &str = "{spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, '::1'], ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}}";

fn updated(old: &str, new: &str, families: Families) -> Result<Value, Vec<String>> {
    let (old, mut new) = (object("Service", old), object("Service", new));
    prepare_update(&mut new, &old, families).map_err(texts)?;
    of("Service").prepare_update(&mut new, &old);
    Ok(new)
}

#[test]
fn update_keeps_allocated_values() {
    let new =
        updated(STORED, "{spec: {type: NodePort, ports: [{name: a, port: 90}, {name: c, port: 91}]}}", V4)
            .unwrap();
    assert_eq!(at(&new, &["spec", "clusterIPs"]), r#"["10.0.0.1"]"#);
    assert_eq!(at(&new, &["spec", "ipFamilyPolicy"]), r#""SingleStack""#);
    let ports = new.at(&["spec", "ports"]).and_then(Value::as_list).unwrap();
    let node_ports: Vec<String> = ports.iter().map(|port| at(port, &["nodePort"])).collect();
    assert_eq!(node_ports, ["30001", ""]);
    let swap = "{spec: {type: NodePort, ports: [{name: a, port: 80}, {name: b, port: 81, nodePort: 30001}]}}";
    let new = updated(STORED, swap, V4).unwrap();
    assert!(!spec(&new).contains("30002"), "{}", spec(&new));
    let single = updated(STORED_DUAL, &STORED_DUAL.replace("RequireDualStack", "SingleStack"), DUAL).unwrap();
    assert_eq!(at(&single, &["spec", "clusterIPs"]), r#"["10.0.0.1"]"#);
    assert_eq!(at(&single, &["spec", "ipFamilies"]), r#"["IPv4"]"#);
    assert_eq!(
        updated(STORED_DUAL, &STORED_DUAL.replace(", '::1'", ""), DUAL),
        Err(vec![
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP"
                .to_owned()
        ])
    );
}

#[test]
fn type_change_clears_unused_fields() {
    let new = updated(STORED, &STORED.replace("type: NodePort", "type: ClusterIP"), V4).unwrap();
    assert!(!spec(&new).contains("nodePort"), "{}", spec(&new));
    assert_eq!(at(&new, &["spec", "externalTrafficPolicy"]), "");
    let new = updated(STORED, &STORED.replace("type: NodePort", "type: ExternalName, externalName: a"), V4)
        .unwrap();
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        assert_eq!(at(&new, &["spec", field]), "", "{field}");
    }
    let balancer = "{spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30009, loadBalancerClass: a/b, ports: [{port: 80}]}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}";
    let new = updated(balancer, &balancer.replace("LoadBalancer", "ClusterIP"), V4).unwrap();
    for field in ["healthCheckNodePort", "allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        assert_eq!(at(&new, &["spec", field]), "", "{field}");
    }
    assert_eq!(at(&new, &["status", "loadBalancer"]), "");
}

#[test]
fn immutable_service_fields_cannot_change() {
    let ip = STORED.replace("10.0.0.1", "10.0.0.2");
    assert_eq!(
        update_faults("Service", STORED, &ip),
        ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"]
    );
    assert_eq!(update_faults("Service", STORED, STORED), Vec::<String>::new());
    assert_eq!(
        update_faults("Service", STORED_DUAL, &STORED_DUAL.replace(", '::1'", "").replace(", IPv6", "")),
        [
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be set to 'SingleStack' when releasing the secondary clusterIP",
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be set to 'SingleStack' when releasing the secondary ipFamily",
        ]
    );
    let balancer = "{spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30009, ports: [{port: 80}]}}";
    assert_eq!(
        update_faults("Service", balancer, &balancer.replace("30009", "30008, loadBalancerClass: a/b")),
        [
            "spec.loadBalancerClass: Invalid value: \"a/b\": may not change once set",
            "spec.healthCheckNodePort: Forbidden: field is immutable",
        ]
    );
    let odd = "{spec: {ports: [{port: 80}], externalIPs: [010.0.0.1]}}";
    assert!(update_faults("Service", odd, odd).is_empty());
}

#[test]
fn status_of_a_service_is_validated() {
    let balancer = "{spec: {type: LoadBalancer, ports: [{port: 80}]}}";
    let with = |ingress: &str| format!("{{status: {{loadBalancer: {{ingress: [{ingress}]}}}}}}");
    for (ingress, expected) in [
        ("{hostname: a.b}", vec![]),
        ("{ip: 1.2.3.4, ipMode: Proxy}", vec![]),
        (
            "{ip: x, ipMode: Odd}",
            vec![
                "status.loadBalancer.ingress[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "status.loadBalancer.ingress[0].ipMode: Unsupported value: \"Odd\": supported values: \"Proxy\", \"VIP\"",
            ],
        ),
        (
            "{ip: 1.2.3.4}",
            vec!["status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set"],
        ),
        (
            "{hostname: 1.2.3.4, ipMode: VIP}",
            vec![
                "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set",
                "status.loadBalancer.ingress[0].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP address",
            ],
        ),
    ] {
        assert_eq!(status_faults("Service", balancer, &with(ingress)), expected, "{ingress}");
    }
    assert_eq!(
        status_faults("Service", "{}", &with("{ip: 1.2.3.4}")),
        ["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"]
    );
    assert_eq!(
        of("Service").status_warnings(&object("Service", &with("{ip: '1::0'}"))),
        [
            "status.loadBalancer.ingress[0]: IPv6 address \"1::0\" should be in RFC 5952 canonical format (\"1::\")"
        ]
    );
}

#[test]
fn ignored_and_deprecated_service_fields_cause_warnings() {
    for (text, expected) in [
        ("{spec: {ports: [{port: 80}]}}", vec![]),
        (
            "{spec: {clusterIP: None, loadBalancerIP: 1.2.3.4, externalIPs: [1.2.3.4], sessionAffinity: ClientIP}}",
            vec![
                "spec.loadBalancerIP is ignored for headless services",
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ],
        ),
        (
            "{spec: {externalIPs: [1.2.3.4], externalName: a, trafficDistribution: PreferClose}}",
            vec![
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
                "spec.externalName is ignored when spec.type is not \"ExternalName\"",
                "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
            ],
        ),
        (
            "{metadata: {annotations: {service.kubernetes.io/topology-aware-hints: Auto}}, spec: {type: ExternalName, externalIPs: [1.2.3.4]}}",
            vec![
                "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
                "spec.externalIPs is ignored when spec.type is \"ExternalName\"",
            ],
        ),
    ] {
        assert_eq!(warnings("Service", text), expected, "{text}");
    }
    let service = created("Service", "{spec: {clusterIP: None}}");
    let fields = of("Service").fields(&service);
    assert_eq!(fields, [("spec.clusterIP", "None".into()), ("spec.type", "ClusterIP".into())]);
    let mut errors = ErrorList::new();
    of("Service")
        .validate(&created("Service", "{spec: {ports: [{port: 80}], selector: {a: b c}}}"), &mut errors);
    assert_eq!(errors.len(), 1);
}
