//! CEL selectors of devices: in DeviceClasses and in the requests of ResourceClaims.
//!
//! [`DeviceSelector`] is a compiled selector, which the scheduler evaluates for a [`Device`]. [`validate_selectors`]
//! compiles the selectors of an object that is written. The variable `device` has the fields `driver`,
//! `allowMultipleAllocations`, `attributes` and `capacity`; the latter two map domains to names to values.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use setpoint_api::Value as Json;
use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::quantity::Quantity;
use setpoint_cel::{
    Activation, Checked, Decl, DeclKind, Environment, FieldDecl, MapKey, MapValue, ObjectDecl, Program,
    TextValue, Type, Value, check, estimate, is_valid_pattern, parse,
};

/// Largest cost of a selector: estimated when it is written, and actual for each device.
pub const SELECTOR_COST_MAX: u64 = 1_000_000;
/// Longest selector, which the rules of the kinds check.
const EXPRESSION_BYTES_MAX: usize = 10 << 10;
/// Largest number of selectors of a class or request, which the rules of the kinds check.
const SELECTORS_MAX: usize = 32;
/// Largest number of attributes and capacities of a device, and so of their domains.
const ATTRIBUTES_MAX: u64 = 32;
const DOMAIN_BYTES_MAX: u64 = 63;
const NAME_BYTES_MAX: u64 = 32;
const DRIVER_BYTES_MAX: u64 = 63;
const VALUE_BYTES_MAX: u64 = 64;
/// Name of the variable.
const DEVICE: &str = "device";

static DECLARATION: LazyLock<Decl> = LazyLock::new(declaration);
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new().with_regex_test(is_valid_pattern).with_bindings().with_variable(DEVICE, &*DECLARATION)
});

fn declaration() -> Decl {
    let bounded = |kind, max| Decl { kind, max_elements: Some(max) };
    let domains = |value: Decl| {
        let map = |value, key_size_max| {
            bounded(DeclKind::Map { value: Arc::new(value), key_size_max }, ATTRIBUTES_MAX)
        };
        map(map(value, NAME_BYTES_MAX), DOMAIN_BYTES_MAX)
    };
    let fields = [
        ("driver", bounded(DeclKind::String, DRIVER_BYTES_MAX)),
        ("allowMultipleAllocations", bounded(DeclKind::Bool, 1)),
        ("attributes", domains(bounded(DeclKind::Any, VALUE_BYTES_MAX))),
        ("capacity", domains(Decl::new(DeclKind::Quantity))),
    ];
    let fields = fields.map(|(name, decl)| (Box::from(name), FieldDecl { decl, is_required: true }));
    let object = ObjectDecl { name: "kubernetes.DRADevice".into(), fields: fields.into() };
    Decl::new(DeclKind::Object(Arc::new(object)))
}

/// Error of the compilation of a selector, with upstream's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The expression is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The expression cannot be planned.
    #[error("{0}")]
    Internal(String),
}

/// A compiled selector.
#[derive(Debug)]
pub struct DeviceSelector {
    program: Program,
    checked: Checked,
}

/// Value of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// `int`.
    Int(i64),
    /// `bool`.
    Bool(bool),
    /// `string`.
    String(&'a str),
    /// `version`, a semantic version.
    Version(&'a str),
    /// None, or one of an unknown type.
    Unsupported,
}

/// A device, in the form in which selectors read it.
#[derive(Debug)]
pub struct Device<'a>(Value<'a>);

impl DeviceSelector {
    /// Compiles a selector.
    ///
    /// # Errors
    /// If the expression does not compile, or its result is not a boolean.
    pub fn compile(source: &str) -> Result<DeviceSelector, SelectorError> {
        let failed = |text: String| SelectorError::Invalid(format!("compilation failed: {text}"));
        let ast = parse(source).map_err(|error| failed(error.to_string()))?;
        let checked = check(&ENVIRONMENT, ast).map_err(|errors| failed(errors.to_string()))?;
        let result = checked.result_type();
        if !matches!(result, Type::Bool | Type::Any) {
            let text = format!("must evaluate to bool or the unknown type, not {}", result.runtime_text());
            return Err(SelectorError::Invalid(text));
        }
        let program = Program::new(checked.ast())
            .map_err(|error| SelectorError::Internal(format!("program instantiation failed: {error}")))?;
        Ok(DeviceSelector { program, checked })
    }

    /// Largest cost of an evaluation, as estimated.
    #[must_use]
    pub fn max_cost(&self) -> u64 {
        estimate(&self.checked, Some(&DECLARATION)).max
    }

    /// `true` if the selector matches a device, or the text of the runtime error, with upstream's hint for absent keys;
    /// and the cost of the evaluation.
    pub fn evaluate(&self, device: &Device<'_>) -> (Result<bool, String>, u64) {
        let mut activation = Activation::new();
        activation.bind(DEVICE, device.0.clone());
        let evaluation = self.program.evaluate(&activation, SELECTOR_COST_MAX);
        let result = match evaluation.result {
            Ok(Value::Bool(is_match)) => Ok(is_match),
            Ok(other) => Err(format!(
                "CEL result of type {} could not be converted to bool: type conversion error from '{0}' to 'bool'",
                other.type_name()
            )),
            Err(error) => Err(with_hint(error.to_string())),
        };
        (result, evaluation.cost)
    }
}

fn with_hint(error: String) -> String {
    if !error.contains("no such key:") {
        return error;
    }
    format!(
        "{error}. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields"
    )
}

impl<'a> Device<'a> {
    /// Returns a device. Names of attributes and capacities without a domain belong to that of the driver.
    ///
    /// # Errors
    /// If the value of an attribute is not of a supported type.
    pub fn new(
        driver: &'a str,
        allows_multiple_allocations: bool,
        attributes: impl IntoIterator<Item = (&'a str, AttributeValue<'a>)>,
        capacity: impl IntoIterator<Item = (&'a str, Quantity)>,
    ) -> Result<Device<'a>, String> {
        let mut by_domain = Domains::new();
        for (name, value) in attributes {
            let value = attribute(value).map_err(|error| format!("attribute {name}: {error}"))?;
            insert(&mut by_domain, driver, name, value);
        }
        let mut capacities = Domains::new();
        for (name, quantity) in capacity {
            insert(&mut capacities, driver, name, Value::quantity(quantity));
        }
        let fields = [
            ("driver", Value::String(TextValue::Borrowed(driver))),
            ("allowMultipleAllocations", Value::Bool(allows_multiple_allocations)),
            ("attributes", domains(by_domain)),
            ("capacity", domains(capacities)),
        ];
        let fields = fields.map(|(name, value)| (key(name), value));
        Ok(Device(Value::Map(MapValue::Owned(Arc::new(fields.into())))))
    }
}

type Names<'a> = BTreeMap<MapKey<'a>, Value<'a>>;
type Domains<'a> = BTreeMap<&'a str, Names<'a>>;

fn key(name: &str) -> MapKey<'_> {
    MapKey::String(TextValue::Borrowed(name))
}

fn insert<'a>(domains: &mut Domains<'a>, driver: &'a str, name: &'a str, value: Value<'a>) {
    let (domain, name) = name.split_once('/').unwrap_or((driver, name));
    domains.entry(domain).or_default().insert(key(name), value);
}

fn domains(domains: Domains<'_>) -> Value<'_> {
    let entries = domains.into_iter();
    let entries = entries.map(|(domain, names)| (key(domain), Value::Map(MapValue::Owned(Arc::new(names)))));
    Value::Map(MapValue::Defaulting(Arc::new(entries.collect())))
}

fn attribute(value: AttributeValue<'_>) -> Result<Value<'_>, String> {
    Ok(match value {
        AttributeValue::Int(number) => Value::Int(number),
        AttributeValue::Bool(truth) => Value::Bool(truth),
        AttributeValue::String(text) => Value::String(TextValue::Borrowed(text)),
        AttributeValue::Version(text) => {
            return Value::semver(text).map_err(|error| format!("parse semantic version: {error}"));
        }
        AttributeValue::Unsupported => return Err("unsupported attribute value".to_owned()),
    })
}

/// Compiles the selectors of a DeviceClass, ResourceClaim or ResourceClaimTemplate, after the validation of its kind.
/// `old` is the object before an update: unchanged selectors are not compiled again, and specs of claims are immutable.
/// Other kinds have no selectors.
pub fn validate_selectors(kind: &str, new: &Json, old: Option<&Json>, errors: &mut ErrorList) {
    let spec = Path::root("spec");
    let claim_spec = |object: &Json, path: &Path<'_>, errors: &mut ErrorList| {
        let devices = path.child("devices");
        check_requests(items(object.get("devices"), "requests"), &devices.child("requests"), errors);
    };
    let Some(object) = new.get("spec") else { return };
    match kind {
        "DeviceClass" => {
            let before = old.map(|old| items(old.get("spec"), "selectors"));
            let selectors = items(Some(object), "selectors");
            if before != Some(selectors) {
                check_selectors(selectors, &spec.child("selectors"), errors);
            }
        }
        "ResourceClaim" if old.is_none() => claim_spec(object, &spec, errors),
        "ResourceClaimTemplate" if old.is_none() => {
            if let Some(template) = object.get("spec") {
                claim_spec(template, &spec.child("spec"), errors);
            }
        }
        _ => {}
    }
}

fn items<'a>(object: Option<&'a Json>, field: &str) -> &'a [Json] {
    object.and_then(|object| object.get(field)).and_then(Json::as_list).unwrap_or_default()
}

fn check_requests(requests: &[Json], path: &Path<'_>, errors: &mut ErrorList) {
    if requests.len() > SELECTORS_MAX {
        return;
    }
    for (index, request) in requests.iter().enumerate() {
        let at = path.index(index);
        let exactly = at.child("exactly");
        check_selectors(items(request.get("exactly"), "selectors"), &exactly.child("selectors"), errors);
        let at = at.child("firstAvailable");
        for (index, choice) in items(Some(request), "firstAvailable").iter().enumerate() {
            let at = at.index(index);
            check_selectors(items(Some(choice), "selectors"), &at.child("selectors"), errors);
        }
    }
}

fn check_selectors(selectors: &[Json], path: &Path<'_>, errors: &mut ErrorList) {
    if selectors.len() > SELECTORS_MAX {
        return;
    }
    for (index, selector) in selectors.iter().enumerate() {
        let Some(cel) = selector.get("cel").filter(|cel| !cel.is_null()) else { continue };
        let source = cel.str_at(&["expression"]);
        let at = path.index(index);
        let at = at.child("cel");
        let at = at.child("expression");
        if source.len() <= EXPRESSION_BYTES_MAX {
            check_source(source, &at, errors);
        }
    }
}

fn check_source(source: &str, path: &Path<'_>, errors: &mut ErrorList) {
    match DeviceSelector::compile(source) {
        Ok(selector) if selector.max_cost() > SELECTOR_COST_MAX => {
            errors.push(FieldError::forbidden(path, "too complex, exceeds cost limit"));
        }
        Ok(_) => {}
        Err(SelectorError::Invalid(text)) => errors.push(FieldError::invalid(path, source, text)),
        Err(SelectorError::Internal(text)) => errors.push(FieldError::internal(path, text)),
    }
}

#[cfg(test)]
mod tests;
