//! Shared test helpers of the controllers.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

/// Certificate signing request in base64 of PEM.
pub const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISU1IQUNBUUF3RGpFTU1Bb0dBMVVFQXd3RFlXNXVNRmt3RXdZSEtvWkl6ajBDQVFZSUtvWkl6ajBEQVFjRApRZ0FFOUJVNnF4YXdPYUNudlAzRDVrdkp6RElUWGcva3J4QUJJNFl0dlRvYWlKR2kwR3JpT1RxNndrRWJpYjB5ClRkRExjTWF1aW5hYXpFa1Y4clIzM29MTjRhQUFNQW9HQ0NxR1NNNDlCQU1DQTBnQU1FVUNJRkJvQXpyWldlVUIKSEtnbTZZeGpXa3o5YVdWSExLaFFlVXpSdFpIelFBWitBaUVBOUJjWmpFMUk3MDBLb01WVlhpV0ZPUVBsMDh2SgpOTmt0dVltazJ1cE5CSjQ9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";
/// Certificate in PEM.
pub const CERTIFICATE_PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIBcjCCARmgAwIBAgIUbeG3/+/zoXPumXN8EYFu1obPf/4wCgYIKoZIzj0EAwIw\nDjEMMAoGA1UEAwwDYW5uMCAXDTI2MTExNjAzMTMwNloYDzIxMjYxMDIzMDMxMzA2\nWjAOMQwwCgYDVQQDDANhbm4wWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAT0FTqr\nFrA5oKe8/cPmS8nMMhNeD+SvEAEjhi29OhqIkaLQauI5OrrCQRuJvTJN0Mtwxq6K\ndprMSRXytHfegs3ho1MwUTAdBgNVHQ4EFgQUjqt0GBc/zIAgXRUfLEpSaRMTYDsw\nHwYDVR0jBBgwFoAUjqt0GBc/zIAgXRUfLEpSaRMTYDswDwYDVR0TAQH/BAUwAwEB\n/zAKBggqhkjOPQQDAgNHADBEAiAB02/BMjUW+K6tfgaS1VikDmFKi1r1vUhlJxQ5\nVNW/qAIgIjd9WkGzZuOUS/7q/7VnCDWc3aeU9sX7H2Ctgjz30Ec=\n-----END CERTIFICATE-----\n";
/// The same certificate in base64 of PEM.
pub const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJjakNDQVJtZ0F3SUJBZ0lVYmVHMy8rL3pvWFB1bVhOOEVZRnUxb2JQZi80d0NnWUlLb1pJemowRUF3SXcKRGpFTU1Bb0dBMVVFQXd3RFlXNXVNQ0FYRFRJMk1URXhOakF6TVRNd05sb1lEekl4TWpZeE1ESXpNRE14TXpBMgpXakFPTVF3d0NnWURWUVFEREFOaGJtNHdXVEFUQmdjcWhrak9QUUlCQmdncWhrak9QUU1CQndOQ0FBVDBGVHFyCkZyQTVvS2U4L2NQbVM4bk1NaE5lRCtTdkVBRWpoaTI5T2hxSWthTFFhdUk1T3JyQ1FSdUp2VEpOME10d3hxNksKZHByTVNSWHl0SGZlZ3MzaG8xTXdVVEFkQmdOVkhRNEVGZ1FVanF0MEdCYy96SUFnWFJVZkxFcFNhUk1UWURzdwpId1lEVlIwakJCZ3dGb0FVanF0MEdCYy96SUFnWFJVZkxFcFNhUk1UWURzd0R3WURWUjBUQVFIL0JBVXdBd0VCCi96QUtCZ2dxaGtqT1BRUURBZ05IQURCRUFpQUIwMi9CTWpVVytLNnRmZ2FTMVZpa0RtRktpMXIxdlVobEp4UTUKVk5XL3FBSWdJamQ5V2tHelp1T1VTLzdxLzdWbkNEV2MzYWVVOXNYN0gyQ3RnanozMEVjPQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg==";

/// Number in the status of an object; 0 if it is missing.
pub fn number(cluster: &Cluster, resource: &str, path: &str, field: &str) -> i64 {
    let object = cluster.get(resource, path).unwrap();
    object.at(&["status", field]).and_then(Value::as_i64).unwrap_or(0)
}

/// Condition of an object as `status reason message`; empty if it is missing.
pub fn condition(cluster: &Cluster, resource: &str, path: &str, kind: &str) -> String {
    let object = cluster.get(resource, path).unwrap();
    let conditions =
        object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    let found = conditions.iter().find(|condition| condition.str_at(&["type"]) == kind);
    found.map_or(String::new(), |found| {
        let part = |name| found.str_at(&[name]);
        format!("{} {} {}", part("status"), part("reason"), part("message"))
    })
}

/// `true` if an Event with this reason and message was emitted.
pub fn has_event(cluster: &Cluster, reason: &str, message: &str) -> bool {
    let events = cluster.list("events");
    events.iter().any(|event| event.str_at(&["reason"]) == reason && event.str_at(&["message"]) == message)
}

/// Names of all objects of a resource.
pub fn names(cluster: &Cluster, resource: &str) -> Vec<String> {
    cluster.list(resource).iter().map(|object| object.str_at(&["metadata", "name"]).to_owned()).collect()
}

/// Pod template with the label `app` and an image.
pub fn template(app: &str, image: &str) -> Value {
    value!({
        "metadata": {"labels": {"app": (app)}},
        "spec": {"containers": [{"name": "c", "image": (image)}]},
    })
}

/// `true` if a pod is being deleted.
pub fn is_terminating(pod: &Value) -> bool {
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// `true` if a pod is ready.
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    !is_terminating(pod)
        && conditions.iter().any(|condition| {
            condition.str_at(&["type"]) == "Ready" && condition.str_at(&["status"]) == "True"
        })
}

/// Resource of [`create_foos`].
pub const FOOS: &str = "foos.example.com";

/// Defines the custom resource [`FOOS`] of the kind `Foo`, with these subresources. The cluster has
/// [`crate::crd::server_controllers`].
pub fn create_foos(cluster: &mut Cluster, subresources: Value) {
    let schema =
        value!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, is_storage: bool| {
        value!({
            "name": (name), "served": true, "storage": (is_storage), "schema": (schema.clone()),
            "subresources": (subresources.clone()),
        })
    };
    let definition = value!({
        "metadata": {"name": (FOOS)},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [(version("v1", true)), (version("v1alpha1", false))],
        },
    });
    cluster.create("customresourcedefinitions.apiextensions.k8s.io", "", definition);
    cluster.settle();
}

/// Stores an object of [`FOOS`] in the namespace `default`, with more metadata and fields.
pub fn put_foo(cluster: &mut Cluster, name: &str, metadata: &Value, fields: Value) {
    let mut all = metadata.clone();
    let map = all.make_map();
    map.insert("name", name);
    map.insert("namespace", "default");
    map.insert("uid", format!("uid-{name}"));
    let mut object = fields;
    object.make_map().insert("metadata", all);
    cluster.put_stored(FOOS, &format!("default/{name}"), Some(&object));
}

/// Binds every pod to a node, so its deletion is graceful.
pub fn bind_all(cluster: &mut Cluster) {
    for pod in cluster.list("pods") {
        let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
        if pod.str_at(&["spec", "nodeName"]).is_empty() {
            cluster.bind(&path, "n").unwrap();
        }
    }
}
