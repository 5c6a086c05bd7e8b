//! Rules of the built-in signers, in the order and with the messages of upstream.

use setpoint_api::Value;

/// Checks a request for a kubelet client certificate.
///
/// # Errors
/// The message of the condition, if the request is not permitted.
pub fn validate_kubelet_client(csr: &Value, usages: &[String]) -> Result<(), String> {
    require_node_organization(csr)?;
    for (field, message) in [
        ("dnsNames", "DNS subjectAltNames are not allowed"),
        ("emailAddresses", "Email subjectAltNames are not allowed"),
        ("ipAddresses", "IP subjectAltNames are not allowed"),
        ("uris", "URI subjectAltNames are not allowed"),
    ] {
        require_empty(csr, field, message)?;
    }
    require_node_common_name(csr)?;
    require_usages(usages, "client auth", ["client auth", "digital signature", "key encipherment"])
}

/// Checks a request for a kubelet serving certificate.
///
/// # Errors
/// The message of the condition, if the request is not permitted.
pub fn validate_kubelet_serving(csr: &Value, usages: &[String]) -> Result<(), String> {
    require_node_organization(csr)?;
    if is_empty(csr, "dnsNames") && is_empty(csr, "ipAddresses") {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    require_empty(csr, "emailAddresses", "Email subjectAltNames are not allowed")?;
    require_empty(csr, "uris", "URI subjectAltNames are not allowed")?;
    require_usages(usages, "server auth", ["digital signature", "key encipherment", "server auth"])?;
    require_node_common_name(csr)
}

/// Checks a request for a client certificate.
///
/// # Errors
/// The message of the condition, if the request is not permitted.
pub fn validate_client(usages: &[String]) -> Result<(), String> {
    let allowed = ["client auth", "digital signature", "key encipherment"];
    if let Some(other) = usages.iter().find(|usage| !allowed.contains(&usage.as_str())) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.iter().any(|usage| usage == "client auth") {
        return Err("missing required usage for client certificate: client auth".to_owned());
    }
    Ok(())
}

fn require_node_organization(csr: &Value) -> Result<(), String> {
    let organizations = csr.get("organizations").and_then(Value::as_list).unwrap_or_default();
    let is_nodes = organizations == [Value::from("system:nodes")];
    is_nodes.then_some(()).ok_or_else(|| "subject organization is not system:nodes".to_owned())
}

fn require_node_common_name(csr: &Value) -> Result<(), String> {
    let is_node = csr.str_at(&["commonName"]).starts_with("system:node:");
    is_node.then_some(()).ok_or_else(|| "subject common name does not begin with system:node:".to_owned())
}

fn require_empty(csr: &Value, field: &str, message: &str) -> Result<(), String> {
    is_empty(csr, field).then_some(()).ok_or_else(|| message.to_owned())
}

fn is_empty(csr: &Value, field: &str) -> bool {
    csr.get(field).is_none_or(Value::is_empty)
}

/// Requires a purpose and digital signature, and allows key encipherment, which only some types of keys
/// support.
fn require_usages(usages: &[String], purpose: &str, all: [&str; 3]) -> Result<(), String> {
    let mut usages: Vec<&str> = usages.iter().map(String::as_str).collect();
    usages.sort_unstable();
    usages.dedup();
    usages.retain(|usage| *usage != "key encipherment");
    let mut desired = [purpose, "digital signature"];
    desired.sort_unstable();
    let matches = usages == desired;
    matches.then_some(()).ok_or_else(|| format!("usages did not match [{}]", all.join(" ")))
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;

    use super::*;

    fn usages(list: &[&str]) -> Vec<String> {
        list.iter().map(|usage| (*usage).to_owned()).collect()
    }

    fn node() -> Value {
        value!({"commonName": "system:node:n", "organizations": ["system:nodes"], "dnsNames": []})
    }

    fn with(field: &str, value: Value) -> Value {
        let mut csr = node();
        csr.make_map().insert(field, value);
        csr
    }

    #[test]
    fn kubelet_client_certificate_names_one_node() {
        let good = usages(&["digital signature", "client auth"]);
        assert_eq!(validate_kubelet_client(&node(), &good), Ok(()));
        let three = usages(&["key encipherment", "client auth", "digital signature"]);
        assert_eq!(validate_kubelet_client(&node(), &three), Ok(()));
        let refused = |csr: &Value| validate_kubelet_client(csr, &good).unwrap_err();
        assert_eq!(
            refused(&with("organizations", value!(["a", "system:nodes"]))),
            "subject organization is not system:nodes"
        );
        assert_eq!(refused(&with("dnsNames", value!(["a"]))), "DNS subjectAltNames are not allowed");
        assert_eq!(refused(&with("emailAddresses", value!(["a"]))), "Email subjectAltNames are not allowed");
        assert_eq!(refused(&with("ipAddresses", value!(["a"]))), "IP subjectAltNames are not allowed");
        assert_eq!(refused(&with("uris", value!(["a"]))), "URI subjectAltNames are not allowed");
        assert_eq!(
            refused(&with("commonName", "n".into())),
            "subject common name does not begin with system:node:"
        );
        let error = validate_kubelet_client(&node(), &usages(&["client auth"])).unwrap_err();
        assert_eq!(error, "usages did not match [client auth digital signature key encipherment]");
    }

    #[test]
    fn kubelet_serving_certificate_has_dns_names_or_addresses() {
        let good = usages(&["digital signature", "key encipherment", "server auth"]);
        assert_eq!(validate_kubelet_serving(&with("dnsNames", value!(["n"])), &good), Ok(()));
        assert_eq!(validate_kubelet_serving(&with("ipAddresses", value!(["10.0.0.1"])), &good), Ok(()));
        let none = validate_kubelet_serving(&node(), &good).unwrap_err();
        assert_eq!(none, "DNS or IP subjectAltName is required");
        let error = validate_kubelet_serving(&with("dnsNames", value!(["n"])), &usages(&["client auth"]))
            .unwrap_err();
        assert_eq!(error, "usages did not match [digital signature key encipherment server auth]");
    }

    #[test]
    fn client_certificate_has_only_client_usages() {
        assert_eq!(validate_client(&usages(&["client auth"])), Ok(()));
        let other = validate_client(&usages(&["client auth", "server auth"])).unwrap_err();
        assert_eq!(other, "invalid usage for client certificate: server auth");
        let none = validate_client(&usages(&["digital signature"])).unwrap_err();
        assert_eq!(none, "missing required usage for client certificate: client auth");
    }
}
