//! AlwaysPullImages: every container of a pod, and every image volume, pulls its image.
//!
//! A pod on a shared node can then use a private image only with the credentials for it, even if the node has it.

use std::collections::BTreeSet;

use setpoint_api::Value;
use setpoint_api::field_error::{FieldError, Path};
use setpoint_api::status::Status;

use super::{AdmissionInput, Findings};

const ALWAYS: &str = "Always";
/// Lists of containers, in upstream's order.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Sets the pull policies of a pod.
pub(super) fn admit(pod: &mut Value, input: &AdmissionInput<'_>) -> Result<(), Status> {
    if is_ignored(pod, input) {
        return Ok(());
    }
    for field in CONTAINERS {
        let Some(Value::List(containers)) = pod.at_mut(&["spec", field]) else { continue };
        for container in containers {
            container.make_map().insert("imagePullPolicy", ALWAYS);
        }
    }
    let volumes = pod.at_mut(&["spec", "volumes"]).and_then(Value::as_list_mut);
    for image in volumes.into_iter().flatten().filter_map(|volume| volume.get_mut("image")) {
        if !image.is_null() {
            image.make_map().insert("pullPolicy", ALWAYS);
        }
    }
    Ok(())
}

/// Rejects other pull policies, which a webhook may have set.
pub(super) fn validate(pod: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    if is_ignored(pod, input) {
        return Ok(());
    }
    let root = Path::root("spec");
    let mut errors = Vec::new();
    let mut check = |path: &Path<'_>, policy: &str| {
        if policy != ALWAYS {
            errors.push(FieldError::from(FieldError::not_supported(path, policy, &[ALWAYS])).to_string());
        }
    };
    for field in CONTAINERS {
        let list = root.child(field);
        for (at, container) in items(pod, field).iter().enumerate() {
            check(&list.index(at).child("imagePullPolicy"), container.str_at(&["imagePullPolicy"]));
        }
    }
    let list = root.child("volumes");
    for (at, volume) in items(pod, "volumes").iter().enumerate() {
        if let Some(image) = volume.get("image").filter(|image| !image.is_null()) {
            check(&list.index(at).child("image").child("pullPolicy"), image.str_at(&["pullPolicy"]));
        }
    }
    match &errors[..] {
        [] => Ok(()),
        [one] => Err(input.forbidden(pod, one)),
        // Upstream answers 500 for several errors.
        several => Err(input.forbidden(pod, &format!("[{}]", several.join(", ")))),
    }
}

fn items<'a>(pod: &'a Value, field: &str) -> &'a [Value] {
    pod.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default()
}

/// `true` for other kinds, and for an update without new images.
fn is_ignored(pod: &Value, input: &AdmissionInput<'_>) -> bool {
    let Some(old) = input.old else { return !input.is("pods", "") };
    let images =
        |pod| CONTAINERS.into_iter().flat_map(move |field| items(pod, field)).map(|it| it.str_at(&["image"]));
    let known: BTreeSet<&str> = images(old).collect();
    !input.is("pods", "") || images(pod).all(|image| known.contains(image))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Review, object};
    use super::*;

    const POD: &str = r#"{"metadata":{"name":"p","namespace":"a"},"spec":{
        "initContainers":[{"name":"i","image":"x","imagePullPolicy":"Never"}],
        "containers":[{"name":"c","image":"y","imagePullPolicy":"IfNotPresent"}],
        "volumes":[{"name":"v","image":{"reference":"z","pullPolicy":"IfNotPresent"}},{"name":"w","emptyDir":{}}]}}"#;

    #[test]
    fn every_image_of_a_pod_is_pulled() {
        let mut pod = object(POD);
        Review::create("", "v1", "pods").run(|input| admit(&mut pod, input)).unwrap();
        let policy = |field: &str, path: &[&str]| items(&pod, field)[0].str_at(path).to_owned();
        assert_eq!(policy("initContainers", &["imagePullPolicy"]), "Always");
        assert_eq!(policy("containers", &["imagePullPolicy"]), "Always");
        assert_eq!(policy("volumes", &["image", "pullPolicy"]), "Always");
        let review = Review::create("", "v1", "pods");
        assert!(review.run(|input| validate(&pod, input, &mut Findings::default())).is_ok());
    }

    #[test]
    fn update_without_new_images_is_ignored() {
        let old = object(POD);
        let review = Review::update("", "v1", "pods", &old);
        let mut same = old.clone();
        review.run(|input| admit(&mut same, input)).unwrap();
        assert_eq!(same, old);
        let mut new = object(&POD.replace("\"y\"", "\"new\""));
        review.run(|input| admit(&mut new, input)).unwrap();
        assert_eq!(items(&new, "containers")[0].str_at(&["imagePullPolicy"]), "Always");
    }

    #[test]
    fn other_pull_policy_after_mutation_is_rejected() {
        let pod = object(
            r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"y","imagePullPolicy":"Never"}]}}"#,
        );
        let review = Review::create("", "v1", "pods");
        let error = review.run(|input| validate(&pod, input, &mut Findings::default())).unwrap_err();
        assert_eq!(
            error.message,
            "pods \"p\" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: \"Never\": supported values: \"Always\""
        );
        let error = review.run(|input| validate(&object(POD), input, &mut Findings::default())).unwrap_err();
        assert_eq!(error.code, 403, "several errors");
        assert!(
            error.message.starts_with("pods \"p\" is forbidden: [spec.initContainers[0].imagePullPolicy: ")
        );
    }
}
