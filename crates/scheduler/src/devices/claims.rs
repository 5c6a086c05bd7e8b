//! Unallocated claims: their requests with device classes and compiled selectors.

use std::sync::{Arc, LazyLock};

use setpoint_api::Value;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::device_class::DeviceClass;
use setpoint_views::pod::Toleration;
use setpoint_views::resource_claim::{
    ClassRequest, DeviceClaim, DeviceRequest, DeviceSelector, ResourceClaim,
};

use super::selectors::{Selector, SelectorCache};

static NO_CLAIM: LazyLock<DeviceClaim> = LazyLock::new(DeviceClaim::default);

/// Reason why a claim cannot be allocated on any node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimsError {
    /// The pod is unschedulable until an object changes.
    Unschedulable(String),
    /// The claim is invalid or unknown to this version.
    Failed(String),
}

/// A claim to allocate.
#[derive(Debug)]
pub struct PendingClaim {
    object: Object,
    /// Its requests.
    pub groups: Vec<RequestGroup>,
}

/// A request of a claim.
#[derive(Debug)]
pub struct RequestGroup {
    /// Name of the request.
    pub name: Box<str>,
    /// Requests of which one is to be satisfied; exactly one unless the request is prioritized.
    pub choices: Vec<Request>,
    /// `true` if the request lists alternatives.
    pub is_prioritized: bool,
}

/// A request for devices of a class.
#[derive(Debug)]
pub struct Request {
    /// Name of the request, or of the alternative.
    pub name: Box<str>,
    /// Class.
    pub class: Object,
    /// Selectors of the class and the request, in this order.
    pub selectors: Vec<SelectorUse>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Mode and number of devices.
    pub mode: Mode,
    /// `true` for administrative access, which does not take the device from others.
    pub is_admin: bool,
    /// The request itself.
    pub spec: ClassRequest,
}

/// Number of requested devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This many.
    Exact(usize),
    /// All that match.
    All,
}

/// A selector of a class or request.
#[derive(Debug)]
pub struct SelectorUse {
    /// The selector.
    pub selector: Arc<Selector>,
    /// `true` if it is a selector of the class.
    pub is_of_class: bool,
    /// Position among the selectors of the class or request.
    pub position: usize,
}

impl PendingClaim {
    /// Reads a claim.
    ///
    /// # Errors
    /// If a device class does not exist, or a request cannot be understood.
    pub fn read(
        object: &Object,
        world: &WorldReader<'_>,
        selectors: &mut SelectorCache,
        devices: usize,
    ) -> Result<PendingClaim, ClaimsError> {
        let mut claim = PendingClaim { object: object.clone(), groups: Vec::new() };
        let mut reader = RequestReader { claim: claim.key(), world, selectors, devices };
        // Missing classes are reported before anything else.
        for request in &claim.spec().requests {
            reader.check_classes(request)?;
        }
        let groups: Result<Vec<RequestGroup>, ClaimsError> =
            claim.spec().requests.iter().map(|request| reader.group(request)).collect();
        for (number, constraint) in claim.spec().constraints.iter().enumerate() {
            if constraint.match_attribute.is_none() && constraint.distinct_attribute.is_none() {
                let text = "empty constraint (unsupported constraint type?)";
                return Err(ClaimsError::Failed(format!(
                    "claim {}, constraint #{number}: {text}",
                    claim.key()
                )));
            }
        }
        claim.groups = groups?;
        Ok(claim)
    }

    /// Returns the claim.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Returns the requested devices.
    #[must_use]
    pub fn spec(&self) -> &DeviceClaim {
        self.object.view::<ResourceClaim>().map_or(&*NO_CLAIM, |claim| &claim.spec.devices)
    }

    /// Returns `namespace/name`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.object.meta().namespace, self.object.meta().name)
    }
}

/// Reader of the requests of one claim.
struct RequestReader<'a> {
    claim: String,
    world: &'a WorldReader<'a>,
    selectors: &'a mut SelectorCache,
    devices: usize,
}

impl RequestReader<'_> {
    fn check_classes(&self, request: &DeviceRequest) -> Result<(), ClaimsError> {
        let check = |class: &str, name: &str| {
            if class.is_empty() {
                return Err(ClaimsError::Failed(format!("request {name}: unsupported request type")));
            }
            if self.world.view::<DeviceClass>("", class).is_none() {
                let text = format!("request {name}: device class {class} does not exist");
                return Err(ClaimsError::Unschedulable(text));
            }
            Ok(())
        };
        if let Some(exactly) = &request.exactly {
            return check(&exactly.device_class_name, &request.name);
        }
        if request.first_available.is_empty() {
            let text =
                format!("resource claim {}, request {}: unknown request type", self.claim, request.name);
            return Err(ClaimsError::Unschedulable(text));
        }
        let mut choices = request.first_available.iter();
        choices.try_for_each(|one| check(&one.device_class_name, &format!("{}/{}", request.name, one.name)))
    }

    fn group(&mut self, request: &DeviceRequest) -> Result<RequestGroup, ClaimsError> {
        let choices: Result<Vec<Request>, ClaimsError> = match &request.exactly {
            Some(exactly) => self.request(&request.name, exactly).map(|request| vec![request]),
            None => request.first_available.iter().map(|one| self.request(&one.name, one)).collect(),
        };
        let is_prioritized = request.exactly.is_none();
        Ok(RequestGroup { name: request.name.as_str().into(), choices: choices?, is_prioritized })
    }

    fn request(&mut self, name: &str, spec: &ClassRequest) -> Result<Request, ClaimsError> {
        let failed =
            |text: String| ClaimsError::Failed(format!("claim {}, request {name}: {text}", self.claim));
        let mode = match spec.allocation_mode.as_str() {
            "All" => Mode::All,
            "ExactCount" => Mode::Exact(usize::try_from(spec.count).unwrap_or(0)),
            other => return Err(failed(format!("unsupported count mode {other}"))),
        };
        if let Some(position) = spec.selectors.iter().position(|selector| selector.cel.is_none()) {
            let text = "CEL expression empty (unsupported selector type?)";
            return Err(ClaimsError::Failed(format!(
                "claim {}, request {name}, selector #{position}: {text}",
                self.claim
            )));
        }
        let Some((class, view)) = self.world.view::<DeviceClass>("", &spec.device_class_name) else {
            let text = format!("request {name}: device class {} does not exist", spec.device_class_name);
            return Err(ClaimsError::Unschedulable(text));
        };
        let mut selectors = self.compile(&view.spec.selectors, true);
        selectors.extend(self.compile(&spec.selectors, false));
        Ok(Request {
            name: name.into(),
            class: class.clone(),
            selectors,
            tolerations: spec.tolerations.iter().map(toleration).collect(),
            mode,
            is_admin: spec.admin_access == Some(true),
            spec: spec.clone(),
        })
    }

    fn compile(&mut self, selectors: &[DeviceSelector], is_of_class: bool) -> Vec<SelectorUse> {
        let uses = selectors.iter().enumerate().map(|(position, selector)| {
            let source = selector.cel.as_ref().map_or("", |cel| cel.expression.as_str());
            SelectorUse { selector: self.selectors.compile(source, self.devices), is_of_class, position }
        });
        uses.collect()
    }
}

fn toleration(value: &Value) -> Toleration {
    let text = |name| value.str_at(&[name]).to_owned();
    Toleration {
        key: text("key"),
        operator: text("operator"),
        value: text("value"),
        effect: text("effect"),
        toleration_seconds: None,
    }
}
