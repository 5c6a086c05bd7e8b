//! LimitPodHardAntiAffinityTopology: required pod anti-affinity may only be per node.

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::{AdmissionInput, Findings};

const HOSTNAME: &str = "kubernetes.io/hostname";
const TERMS: [&str; 4] =
    ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

/// Rejects a pod with required anti-affinity over another topology key.
pub(super) fn validate(pod: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if !input.is("pods", "") {
        return Ok(());
    }
    let terms = pod.at(&TERMS).and_then(Value::as_list).unwrap_or_default();
    let mut keys = terms.iter().map(|term| term.str_at(&["topologyKey"]));
    let Some(key) = keys.find(|key| *key != HOSTNAME) else { return Ok(()) };
    Err(input.forbidden(
        pod,
        &format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key {HOSTNAME} is allowed"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    #[test]
    fn required_anti_affinity_is_limited_to_nodes() {
        let validated = |key: &str| {
            let pod = object(&format!(
                r#"{{"metadata":{{"name":"p"}},"spec":{{"affinity":{{"podAntiAffinity":{{
                "requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"{key}"}}]}}}}}}}}"#
            ));
            Review::create("", "v1", "pods").run(|input| validate(&pod, input, &mut Findings::default()))
        };
        assert_eq!(validated(HOSTNAME), Ok(()));
        assert_eq!(
            validated("zone").unwrap_err().message,
            "pods \"p\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only \
             key kubernetes.io/hostname is allowed"
        );
    }
}
