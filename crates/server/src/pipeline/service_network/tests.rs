//! Tests of address and port allocation.

use setpoint_api::metadata::options::DeleteOptions;
use setpoint_api::resource_types;
use setpoint_api::{Time, json};
use setpoint_store::{Retention, Store};

use super::*;
use crate::exchange::Identity;
use crate::pipeline::create::create;
use crate::pipeline::delete::delete;
use crate::pipeline::update::{Subresource, update};
use crate::pipeline::{Decision, DesiredObject, PipelineResult, WriteOrigin};

/// A store with a namespace, and a client's operations on Services in it.
struct Cluster {
    store: Store,
    writer: WriteOrigin,
    entropy: u64,
}

impl Cluster {
    fn new() -> Cluster {
        let identity = Identity::new("u", Vec::new());
        let writer = WriteOrigin {
            identity,
            manager: "m".into(),
            dry_run: false,
            reconciler: String::new(),
            takes_over: false,
        };
        let mut cluster = Cluster { store: Store::in_memory(Retention::default()), writer, entropy: 0 };
        let text = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"a"}}"#;
        cluster.create_core("namespaces", "", text).unwrap();
        cluster
    }

    /// A cluster with these ServiceCIDRs.
    fn with_ranges(cidrs: &[(&str, &str)]) -> Cluster {
        let mut cluster = Cluster::new();
        for (name, cidrs) in cidrs {
            let cidrs: Vec<String> = cidrs.split(',').map(|cidr| format!("\"{cidr}\"")).collect();
            let text = format!(
                r#"{{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{{"name":"{name}"}},"spec":{{"cidrs":[{}]}}}}"#,
                cidrs.join(",")
            );
            cluster.create_in_group("networking.k8s.io", "servicecidrs", "", &text).unwrap();
        }
        cluster
    }

    fn create_core(&mut self, plural: &str, namespace: &str, text: &str) -> Result<Value, Status> {
        self.create_in_group("", plural, namespace, text)
    }

    fn create_in_group(
        &mut self,
        group: &str,
        plural: &str,
        namespace: &str,
        text: &str,
    ) -> Result<Value, Status> {
        let snapshot = self.store.snapshot();
        self.entropy += 1;
        let context = RequestContext {
            snapshot: &snapshot,
            now: Time(1_000_000),
            entropy: [self.entropy; 3],
            tolerations: Default::default(),
            catalog: crate::catalog::Catalog::built_in(),
            webhooks: None,
            conversions: None,
            authorization: None,
        };
        let object = json::parse(text.as_bytes()).unwrap();
        let step = create(
            resource_types::find(group, "v1", plural).unwrap(),
            namespace,
            DesiredObject::new(object),
            &self.writer,
            &context,
        )?;
        Ok(self.perform(step.step))
    }

    fn service(&mut self, name: &str, spec: &str) -> Result<Value, Status> {
        let text =
            format!(r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{name}"}},"spec":{spec}}}"#);
        self.create_core("services", "a", &text)
    }

    fn update_service(&mut self, name: &str, spec: &str) -> Result<Value, Status> {
        let snapshot = self.store.snapshot();
        let context = RequestContext {
            snapshot: &snapshot,
            now: Time(2_000_000),
            entropy: [9; 3],
            tolerations: Default::default(),
            catalog: crate::catalog::Catalog::built_in(),
            webhooks: None,
            conversions: None,
            authorization: None,
        };
        let resource_type = resource_types::find("", "v1", "services").unwrap();
        let record = snapshot.get(&resource_type.key("a", name).unwrap()).unwrap();
        let mut object = codec::object(record);
        object.make_map().insert("spec", json::parse(spec.as_bytes()).unwrap());
        let step = update(
            resource_type,
            Subresource::None,
            DesiredObject::new(object),
            record,
            &self.writer,
            &context,
        )?;
        Ok(self.perform(step.step))
    }

    fn delete(&mut self, name: &str) {
        let snapshot = self.store.snapshot();
        let context = RequestContext {
            snapshot: &snapshot,
            now: Time(2_000_000),
            entropy: [9; 3],
            tolerations: Default::default(),
            catalog: crate::catalog::Catalog::built_in(),
            webhooks: None,
            conversions: None,
            authorization: None,
        };
        let resource_type = resource_types::find("", "v1", "services").unwrap();
        let record = snapshot.get(&resource_type.key("a", name).unwrap()).unwrap();
        let options = Value::map();
        let step =
            delete(resource_type, record, &DeleteOptions::from_value(&options), &self.writer, &context)
                .unwrap();
        self.perform(step);
    }

    fn perform(&self, step: PipelineResult) -> Value {
        match step {
            PipelineResult::Commit(proposal) => {
                codec::object(&self.store.commit(*proposal).unwrap().records[0])
            }
            PipelineResult::Remove(proposal, object) => {
                self.store.commit(*proposal).unwrap();
                object
            }
            _ => unreachable!("no other step is expected"),
        }
    }

    fn has(&self, ip: &str) -> bool {
        self.store.snapshot().get(&address_key(ip.parse().unwrap()).unwrap()).is_some()
    }
}

fn ip(service: &Value) -> String {
    service.str_at(&["spec", "clusterIP"]).to_owned()
}

fn node_port(service: &Value) -> i64 {
    service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap()[0]
        .get("nodePort")
        .unwrap()
        .as_i64()
        .unwrap()
}

#[test]
fn service_keeps_its_address_until_deleted() {
    let mut cluster = Cluster::new();
    let service = cluster.service("x", r#"{"ports":[{"port":80}]}"#).unwrap();
    let given = ip(&service);
    assert!(cluster.has(&given), "{given}");
    assert!(given.parse::<IpAddr>().unwrap() > IpAddr::from([10, 0, 1, 0]), "{given}");
    let other = cluster.service("y", r#"{"ports":[{"port":80}]}"#).unwrap();
    assert_ne!(ip(&other), given);
    cluster.delete("x");
    assert!(!cluster.has(&given));
}

#[test]
fn address_is_allocated_once() {
    let mut cluster = Cluster::new();
    let spec = r#"{"clusterIP":"10.0.7.7","ports":[{"port":80}]}"#;
    cluster.service("x", spec).unwrap();
    let refused = cluster.service("y", spec).unwrap_err();
    assert_eq!(
        refused.message,
        "Service \"y\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.7.7\"]: failed to allocate IP \
         10.0.7.7: provided IP is already allocated"
    );
    let outside = cluster.service("y", r#"{"clusterIP":"10.200.0.1","ports":[{"port":80}]}"#).unwrap_err();
    assert!(outside.message.contains("the provided network does not match the current range"));
    cluster.delete("x");
    assert_eq!(ip(&cluster.service("y", spec).unwrap()), "10.0.7.7");
}

#[test]
fn headless_and_external_services_have_no_address() {
    let mut cluster = Cluster::new();
    let headless = cluster.service("h", r#"{"clusterIP":"None","selector":{"a":"b"}}"#).unwrap();
    assert_eq!(ip(&headless), "None");
    let external = r#"{"type":"ExternalName","externalName":"a.example"}"#;
    assert_eq!(ip(&cluster.service("e", external).unwrap()), "");
    assert!(
        cluster.store.snapshot().table(&Resource::new("ipaddresses.networking.k8s.io").unwrap()).is_none()
    );
    let changed = cluster.update_service("e", r#"{"type":"ClusterIP","ports":[{"port":80}]}"#).unwrap();
    let given = ip(&changed);
    assert!(cluster.has(&given), "{given}");
    cluster.update_service("e", external).unwrap();
    assert!(!cluster.has(&given));
}

#[test]
fn node_ports_are_unique_and_kept() {
    let mut cluster = Cluster::new();
    let spec = r#"{"type":"NodePort","ports":[{"port":80,"nodePort":30080}]}"#;
    assert_eq!(node_port(&cluster.service("x", spec).unwrap()), 30080);
    let refused = cluster.service("y", spec).unwrap_err();
    assert_eq!(
        refused.message,
        "Service \"y\" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"
    );
    let given = node_port(&cluster.service("y", r#"{"type":"NodePort","ports":[{"port":80}]}"#).unwrap());
    assert!((30000..=32767).contains(&given) && given != 30080, "{given}");
    let kept = cluster.update_service("y", r#"{"type":"NodePort","ports":[{"port":81}]}"#).unwrap();
    assert_eq!(node_port(&kept), given);
    cluster.delete("x");
    assert_eq!(node_port(&cluster.service("z", spec).unwrap()), 30080);
}

#[test]
fn port_of_two_protocols_has_one_node_port() {
    let mut cluster = Cluster::new();
    let spec =
        r#"{"type":"NodePort","ports":[{"name":"a","port":53},{"name":"b","port":53,"protocol":"UDP"}]}"#;
    let service = cluster.service("x", spec).unwrap();
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap();
    assert_eq!(ports[0].get("nodePort"), ports[1].get("nodePort"));
}

#[test]
fn of_two_concurrent_decisions_one_conflicts() {
    let cluster = Cluster::new();
    let resource_type = resource_types::find("", "v1", "services").unwrap();
    let snapshot = cluster.store.snapshot();
    let context = RequestContext {
        snapshot: &snapshot,
        now: Time(1),
        entropy: [7; 3],
        tolerations: Default::default(),
        catalog: crate::catalog::Catalog::built_in(),
        webhooks: None,
        conversions: None,
        authorization: None,
    };
    let decide = |name: &str, spec: &str, entropy: u64| {
        let text =
            format!(r#"{{"kind":"Service","apiVersion":"v1","metadata":{{"name":"{name}"}},"spec":{spec}}}"#);
        let context = RequestContext { entropy: [entropy; 3], ..context };
        match create(
            resource_type,
            "a",
            DesiredObject::new(json::parse(text.as_bytes()).unwrap()),
            &cluster.writer,
            &context,
        ) {
            Ok(Decision { step: PipelineResult::Commit(proposal), .. }) => *proposal,
            _ => unreachable!("the Service can be made"),
        }
    };
    let plain = r#"{"ports":[{"port":80}]}"#;
    let with_port = r#"{"type":"NodePort","ports":[{"port":80}]}"#;
    let (one, other) = (decide("x", plain, 7), decide("y", plain, 7));
    cluster.store.commit(one).unwrap();
    assert!(cluster.store.commit(other).is_err(), "the same address");
    let (one, other) = (decide("p", with_port, 100), decide("q", with_port, 200));
    cluster.store.commit(one).unwrap();
    assert!(cluster.store.commit(other).is_err(), "ports counted on the same state");
}

const DUAL: &[(&str, &str)] = &[("kubernetes", "10.0.0.0/16,fd00::/108")];

fn ips(service: &Value) -> Vec<String> {
    spec_strings(service, "clusterIPs")
}

/// Families, policy and number of addresses of a Service.
fn family_fields(service: &Value) -> (Vec<String>, &str, usize) {
    (spec_strings(service, "ipFamilies"), service.str_at(&["spec", "ipFamilyPolicy"]), ips(service).len())
}

#[test]
fn service_gets_the_requested_ip_families() {
    let mut cluster = Cluster::with_ranges(DUAL);
    let families = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    for (i, (spec, expected, policy)) in [
        ("", &["IPv4"][..], "SingleStack"),
        (r#""ipFamilies":["IPv6"],"#, &["IPv6"], "SingleStack"),
        (r#""ipFamilyPolicy":"PreferDualStack","#, &["IPv4", "IPv6"], "PreferDualStack"),
        (r#""ipFamilyPolicy":"RequireDualStack","#, &["IPv4", "IPv6"], "RequireDualStack"),
        (
            r#""ipFamilyPolicy":"PreferDualStack","ipFamilies":["IPv6"],"#,
            &["IPv6", "IPv4"],
            "PreferDualStack",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("s{i}");
        let service = cluster.service(&name, &format!(r#"{{{spec}"ports":[{{"port":80}}]}}"#)).unwrap();
        assert_eq!(family_fields(&service), (families(expected), policy, expected.len()), "{spec}");
        for (ip, family) in ips(&service).iter().zip(expected) {
            assert!(cluster.has(ip), "{ip}");
            assert_eq!(ip.parse::<IpAddr>().unwrap().is_ipv6(), *family == "IPv6");
        }
        assert_eq!(ip(&service), ips(&service)[0]);
        cluster.delete(&name);
        assert!(ips(&service).iter().all(|ip| !cluster.has(ip)), "{spec}");
    }
}

#[test]
fn second_address_is_added_and_removed() {
    let mut cluster = Cluster::with_ranges(DUAL);
    let one = ip(&cluster.service("x", r#"{"ports":[{"port":80}]}"#).unwrap());
    let spec = |policy: &str| {
        format!(r#"{{"type":"ClusterIP","ipFamilyPolicy":"{policy}","ports":[{{"port":80}}]}}"#)
    };
    let two = ips(&cluster.update_service("x", &spec("RequireDualStack")).unwrap());
    assert_eq!((two.len(), &two[0]), (2, &one));
    assert!(two.iter().all(|ip| cluster.has(ip)));
    let kept = cluster.update_service("x", &spec("SingleStack")).unwrap();
    assert_eq!((ips(&kept), spec_strings(&kept, "ipFamilies").len()), (vec![one.clone()], 1));
    assert!(cluster.has(&one) && !cluster.has(&two[1]));
    cluster.update_service("x", &spec("PreferDualStack")).unwrap();
    let given = ips(&cluster.update_service("x", &spec("PreferDualStack").replace("80", "81")).unwrap());
    let external = r#"{"type":"ExternalName","externalName":"a.example"}"#;
    cluster.update_service("x", external).unwrap();
    assert_eq!(given.len(), 2);
    assert!(given.iter().all(|ip| !cluster.has(ip)));
}

#[test]
fn dual_stack_addresses_are_unique() {
    let mut cluster = Cluster::with_ranges(DUAL);
    let spec = r#"{"ipFamilyPolicy":"RequireDualStack","clusterIP":"10.0.7.7","clusterIPs":["10.0.7.7","fd00::7"],"ports":[{"port":80}]}"#;
    assert_eq!(ips(&cluster.service("x", spec).unwrap()), ["10.0.7.7", "fd00::7"]);
    let refused = cluster.service("y", &spec.replace("10.0.7.7", "10.0.7.8")).unwrap_err();
    assert_eq!(
        refused.message,
        "Service \"y\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.7.8\",\"fd00::7\"]: failed to allocate \
         IP fd00::7: provided IP is already allocated"
    );
    assert!(!cluster.has("10.0.7.8"));
}

#[test]
fn single_stack_cluster_has_no_second_address() {
    let mut cluster = Cluster::with_ranges(&[("kubernetes", "fd00::/108")]);
    let service =
        cluster.service("x", r#"{"ipFamilyPolicy":"PreferDualStack","ports":[{"port":80}]}"#).unwrap();
    assert_eq!(family_fields(&service), (vec!["IPv6".to_owned()], "PreferDualStack", 1));
    let refused =
        cluster.service("y", r#"{"ipFamilyPolicy":"RequireDualStack","ports":[{"port":80}]}"#).unwrap_err();
    assert!(refused.message.contains("this cluster is not configured for dual-stack services"), "{refused}");
    let refused = cluster.service("y", r#"{"ipFamilies":["IPv4"],"ports":[{"port":80}]}"#).unwrap_err();
    assert!(
        refused.message.contains("spec.ipFamilies[0]: Invalid value: \"IPv4\": not configured"),
        "{refused}"
    );
}

#[test]
fn further_service_cidrs_add_addresses() {
    let mut cluster = Cluster::with_ranges(&[("kubernetes", "10.0.0.0/30")]);
    let spec = r#"{"ports":[{"port":80}]}"#;
    for name in ["a", "b"] {
        cluster.service(name, spec).unwrap();
    }
    let full = cluster.service("c", spec).unwrap_err();
    assert_eq!((full.code, full.message.contains("range is full")), (500, true), "{full}");
    let more = r#"{"kind":"ServiceCIDR","apiVersion":"networking.k8s.io/v1","metadata":{"name":"more"},"spec":{"cidrs":["10.9.0.0/24"]}}"#;
    cluster.create_in_group("networking.k8s.io", "servicecidrs", "", more).unwrap();
    assert!(ip(&cluster.service("c", spec).unwrap()).starts_with("10.9.0."));
}
