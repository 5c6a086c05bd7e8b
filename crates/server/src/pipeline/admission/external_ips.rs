//! DenyServiceExternalIPs: a Service may keep its external IPs, but not get new ones.

use setpoint_api::Value;
use setpoint_api::status::Status;

use super::{AdmissionInput, Findings};

/// Rejects new external IPs.
pub(super) fn validate(service: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if !input.is("services", "") {
        return Ok(());
    }
    let ips = |service: Option<&Value>| -> Vec<Value> {
        let list = service.and_then(|service| service.at(&["spec", "externalIPs"])).and_then(Value::as_list);
        list.unwrap_or_default().to_vec()
    };
    let old = ips(input.old);
    if ips(Some(service)).iter().all(|ip| old.contains(ip)) {
        return Ok(());
    }
    Err(input.forbidden(service, "Use of external IPs is denied by admission control"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    #[test]
    fn service_gets_no_new_external_ips() {
        let service =
            |ips: &str| object(&format!(r#"{{"metadata":{{"name":"s"}},"spec":{{"externalIPs":[{ips}]}}}}"#));
        let two = service(r#""1.1.1.1","2.2.2.2""#);
        let update = |new: &Value| {
            let review = Review::update("", "v1", "services", &two);
            review.run(|input| validate(new, input, &mut Findings::default()))
        };
        let create = Review::create("", "v1", "services");
        let create = |new: &Value| create.run(|input| validate(new, input, &mut Findings::default()));
        assert_eq!(update(&service(r#""2.2.2.2""#)), Ok(()));
        assert_eq!(create(&service("")), Ok(()));
        assert!(update(&service(r#""2.2.2.2","3.3.3.3""#)).is_err());
        assert_eq!(
            create(&two).unwrap_err().message,
            "services \"s\" is forbidden: Use of external IPs is denied by admission control"
        );
    }
}
