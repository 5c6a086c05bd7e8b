//! Constraints between the devices of a claim: an attribute is the same, or different, for all of them.

use setpoint_views::resource_claim::DeviceConstraint;
use setpoint_views::resource_slice::{Device, DeviceAttribute};

/// A constraint, with the devices chosen so far.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// Requests that it applies to; all if empty.
    requests: Vec<String>,
    attribute: String,
    is_distinct: bool,
    /// Values of the chosen devices.
    values: Vec<DeviceAttribute>,
}

/// Name of a request, and of the alternative if it is prioritized.
#[derive(Clone, Copy, Debug)]
pub struct RequestName<'a> {
    /// Name of the request.
    pub request: &'a str,
    /// Name of the alternative.
    pub choice: Option<&'a str>,
}

impl RequestName<'_> {
    /// `true` if a reference names the request or the alternative.
    #[must_use]
    pub fn is_named_by(&self, reference: &str) -> bool {
        reference == self.request
            || self.choice.is_some_and(|choice| {
                reference.strip_prefix(self.request).and_then(|rest| rest.strip_prefix('/')) == Some(choice)
            })
    }

    /// Returns the name that results and configuration use: `request` or `request/alternative`.
    #[must_use]
    pub fn text(&self) -> String {
        match self.choice {
            Some(choice) => format!("{}/{choice}", self.request),
            None => self.request.to_owned(),
        }
    }
}

impl Constraint {
    /// Returns a constraint without devices.
    #[must_use]
    pub fn new(constraint: &DeviceConstraint) -> Constraint {
        let matching = constraint.match_attribute.as_ref();
        let attribute = matching.or(constraint.distinct_attribute.as_ref()).cloned().unwrap_or_default();
        Constraint {
            requests: constraint.requests.clone(),
            attribute,
            is_distinct: matching.is_none(),
            values: Vec::new(),
        }
    }

    fn applies_to(&self, name: RequestName<'_>) -> bool {
        self.requests.is_empty() || self.requests.iter().any(|reference| name.is_named_by(reference))
    }

    /// Adds a device. Returns `false` and adds nothing if the constraint is violated.
    pub fn add(&mut self, name: RequestName<'_>, driver: &str, device: &Device) -> bool {
        if !self.applies_to(name) {
            return true;
        }
        let Some(value) = find_attribute(device, driver, &self.attribute) else { return false };
        let is_allowed = match (self.is_distinct, self.values.first()) {
            (_, None) => true,
            (false, Some(first)) => is_same(value, first) == Some(true),
            (true, _) => self.values.iter().all(|other| is_same(value, other) == Some(false)),
        };
        if is_allowed {
            self.values.push(value.clone());
        }
        is_allowed
    }

    /// Removes the device that was added last.
    pub fn remove(&mut self, name: RequestName<'_>) {
        if self.applies_to(name) {
            self.values.pop();
        }
    }
}

/// Compares two values; `None` if the type of the first is unknown.
fn is_same(value: &DeviceAttribute, other: &DeviceAttribute) -> Option<bool> {
    if value.string.is_some() {
        return Some(value.string == other.string);
    }
    if value.int.is_some() {
        return Some(value.int == other.int);
    }
    if value.bool.is_some() {
        return Some(value.bool == other.bool);
    }
    value.version.is_some().then(|| value.version == other.version)
}

/// Returns an attribute by its qualified name. The domain of the driver is implied in names without one.
fn find_attribute<'a>(device: &'a Device, driver: &str, name: &str) -> Option<&'a DeviceAttribute> {
    if let Some(found) = device.attributes.get(name) {
        return Some(found);
    }
    let (domain, name) = name.split_once('/')?;
    if domain == driver { device.attributes.get(name) } else { None }
}
