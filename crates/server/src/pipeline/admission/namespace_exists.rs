//! NamespaceExists: the namespace of a write must exist.

use setpoint_api::Value;
use setpoint_api::status::{Qualified, Status};

use super::{AdmissionInput, Findings};

/// Rejects a write in a namespace that does not exist.
pub(super) fn validate(_: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    let namespace = input.request.namespace;
    let is_namespace = input.request.resource_type.resource.as_str() == "namespaces";
    let creates_it = || input.config().is_enabled(super::plugins::Plugin::NamespaceAutoProvision);
    if namespace.is_empty()
        || is_namespace
        || input.namespace().is_some()
        || input.is_create() && creates_it()
    {
        return Ok(());
    }
    Err(Status::not_found(Qualified { group: "", name: "namespaces" }, namespace))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    #[test]
    fn write_in_a_missing_namespace_is_not_found() {
        let review = Review::update("", "v1", "configmaps", &Value::Null).in_namespace("gone");
        let check = |review: &Review<'_>| {
            review.run(|input| validate(&object("{}"), input, &mut Findings::default()))
        };
        assert_eq!(check(&review).unwrap_err().message, "namespaces \"gone\" not found");
        let namespace =
            ("", "v1", "namespaces", r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"gone"}}"#);
        assert_eq!(check(&review.over(&[namespace])), Ok(()));
    }
}
