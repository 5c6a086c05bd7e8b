//! Tokens of service accounts.

use setpoint_api::quote::Quoted;
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};

use super::{NodeWrite, find};
use crate::webhooks::Operation;

/// CSI drivers that took over volume sources of the core API.
const MIGRATED_SOURCES: [(&str, &str); 7] = [
    ("awsElasticBlockStore", "ebs.csi.aws.com"),
    ("azureDisk", "disk.csi.azure.com"),
    ("azureFile", "file.csi.azure.com"),
    ("cinder", "cinder.csi.openstack.org"),
    ("gcePersistentDisk", "pd.csi.storage.gke.io"),
    ("portworxVolume", "pxd.portworx.com"),
    ("vsphereVolume", "csi.vsphere.vmware.com"),
];

impl NodeWrite<'_> {
    /// A token must be bound to a pod on the node, and its audience must be one that the pod uses.
    pub(super) fn check_token(&self) -> Result<(), Status> {
        if self.operation() != Operation::Create || self.request.subresource != "token" {
            return Ok(());
        }
        let bound = |field: &str| self.object.str_at(&["spec", "boundObjectRef", field]);
        if (bound("apiVersion"), bound("kind")) != ("v1", "Pod") || bound("name").is_empty() {
            return self.forbid("node requested token not bound to a pod");
        }
        if bound("uid").is_empty() {
            return self.forbid("node requested token with a pod binding without a uid");
        }
        let pod = self.find("pods", self.request.namespace, bound("name"))?;
        if bound("uid") != metadata::text(&pod, "uid") {
            return self.forbid(format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The object might have been deleted and then recreated",
                bound("uid")
            ));
        }
        if pod.str_at(&["spec", "nodeName"]) != self.node {
            return self.forbid("node requested token bound to a pod scheduled on a different node");
        }
        self.check_audience(&pod)
    }

    fn check_audience(&self, pod: &Value) -> Result<(), Status> {
        let audiences = self.object.at(&["spec", "audiences"]).and_then(Value::as_list).unwrap_or_default();
        let audience = match audiences {
            [] => "",
            [audience] => audience.as_str().unwrap_or_default(),
            _ => return self.forbid("node may only request 0 or 1 audiences"),
        };
        match self.uses_audience(pod, audience) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => {
                return self.forbid(format!("error validating audience {}: {why}", Quoted(audience)));
            }
        }
        if self.has_permission("request-serviceaccounts-token-audience", audience, self.name()) {
            return Ok(());
        }
        let user = &self.request.writer.identity.user;
        self.forbid(format!("{user} is not authorized to request tokens for audience {}", Quoted(audience)))
    }

    /// `true` if a volume of the pod, or the CSI driver of one, requests tokens for the audience.
    fn uses_audience(&self, pod: &Value, audience: &str) -> Result<bool, String> {
        let mut errors = Vec::new();
        for volume in items(pod.get("spec"), "volumes") {
            let mut tokens = items(volume.get("projected"), "sources")
                .iter()
                .filter_map(|source| source.get("serviceAccountToken"))
                .filter(|token| !token.is_null());
            if tokens.any(|token| token.str_at(&["audience"]) == audience) {
                return Ok(true);
            }
            match self.driver_of(pod, volume).and_then(|driver| self.has_audience(&driver, audience)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) => errors.push(error),
            }
        }
        match &errors[..] {
            [] => Ok(false),
            [only] => Err(only.clone()),
            all => Err(format!("[{}]", all.join(", "))),
        }
    }

    /// Returns the CSI driver of a volume; empty if it has none.
    fn driver_of(&self, pod: &Value, volume: &Value) -> Result<String, String> {
        let claim = volume.str_at(&["persistentVolumeClaim", "claimName"]);
        if volume.at(&["ephemeral", "volumeClaimTemplate"]).is_some_and(|template| !template.is_null()) {
            let claim = format!("{}-{}", metadata::name(pod), volume.str_at(&["name"]));
            return self.driver_of_claim(metadata::namespace(pod), &claim);
        }
        if volume.get("persistentVolumeClaim").is_some_and(|claim| !claim.is_null()) {
            return self.driver_of_claim(metadata::namespace(pod), claim);
        }
        Ok(driver_of_source(volume))
    }

    fn driver_of_claim(&self, namespace: &str, name: &str) -> Result<String, String> {
        let missing = |plural: &str, name: &str| format!("{plural} {} not found", Quoted(name));
        let claim = find(self.snapshot, "persistentvolumeclaims", namespace, name)
            .ok_or_else(|| missing("persistentvolumeclaims", name))?;
        let volume = claim.str_at(&["spec", "volumeName"]);
        let volume = find(self.snapshot, "persistentvolumes", "", volume)
            .ok_or_else(|| missing("persistentvolumes", volume))?;
        Ok(driver_of_source(volume.get("spec").unwrap_or(&Value::Null)))
    }

    fn has_audience(&self, driver: &str, audience: &str) -> Result<bool, String> {
        if driver.is_empty() {
            return Ok(false);
        }
        let found = find(self.snapshot, "csidrivers.storage.k8s.io", "", driver)
            .ok_or_else(|| format!("csidrivers.storage.k8s.io {} not found", Quoted(driver)))?;
        let requests = items(found.get("spec"), "tokenRequests");
        Ok(requests.iter().any(|request| request.str_at(&["audience"]) == audience))
    }
}

fn items<'a>(object: Option<&'a Value>, field: &str) -> &'a [Value] {
    object.and_then(|object| object.get(field)).and_then(Value::as_list).unwrap_or_default()
}

/// Returns the CSI driver of a volume source; empty if it has none.
fn driver_of_source(source: &Value) -> String {
    let driver = source.str_at(&["csi", "driver"]);
    if !driver.is_empty() {
        return driver.to_owned();
    }
    let is_set = |field: &str| source.get(field).is_some_and(|value| !value.is_null());
    let migrated = MIGRATED_SOURCES.iter().find(|(field, _)| is_set(field));
    migrated.map(|(_, driver)| (*driver).to_owned()).unwrap_or_default()
}
