//! Compiled selectors, with their results for the devices of an inventory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use setpoint_extensions::device_selector::{AttributeValue, Device, DeviceSelector, SelectorError};
use setpoint_views::resource_slice::{self, DeviceAttribute};

/// Selectors that are kept.
const SELECTORS_MAX: usize = 128;

const UNKNOWN: u8 = 0;
const MATCH: u8 = 1;
const NO_MATCH: u8 = 2;

/// Cache of compiled selectors by their text.
#[derive(Clone, Debug, Default)]
pub struct SelectorCache(BTreeMap<Box<str>, Arc<Selector>>);

/// A compiled selector, and its results by the position of the device.
#[derive(Debug)]
pub struct Selector {
    program: Arc<Result<DeviceSelector, SelectorError>>,
    results: Box<[AtomicU8]>,
}

/// Error of a selector on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not compile.
    Compile(String),
    /// It fails on the device.
    Runtime(String),
    /// A value of the device cannot be read.
    Device(String),
}

impl SelectorCache {
    /// Returns the selector of a text, for an inventory with this number of devices.
    pub fn compile(&mut self, source: &str, devices: usize) -> Arc<Selector> {
        if let Some(known) = self.0.get(source) {
            if known.results.len() == devices {
                return Arc::clone(known);
            }
            let selector = Arc::new(Selector::new(Arc::clone(&known.program), devices));
            self.0.insert(source.into(), Arc::clone(&selector));
            return selector;
        }
        if self.0.len() >= SELECTORS_MAX {
            self.0.clear();
        }
        let selector = Arc::new(Selector::new(Arc::new(DeviceSelector::compile(source)), devices));
        self.0.insert(source.into(), Arc::clone(&selector));
        selector
    }

    /// Forgets the results, because devices changed.
    pub fn forget_results(&mut self) {
        for selector in self.0.values_mut() {
            *selector = Arc::new(Selector::new(Arc::clone(&selector.program), 0));
        }
    }
}

impl Selector {
    fn new(program: Arc<Result<DeviceSelector, SelectorError>>, devices: usize) -> Selector {
        Selector { program, results: (0..devices).map(|_| AtomicU8::new(UNKNOWN)).collect() }
    }

    /// `true` if the selector matches a device. Returns the cost of the evaluation too; 0 for a known result.
    pub fn matches(
        &self,
        driver: &str,
        device: &resource_slice::Device,
        position: usize,
    ) -> (Result<bool, Fault>, u64) {
        let known = self.results.get(position);
        match known.map_or(UNKNOWN, |known| known.load(Ordering::Relaxed)) {
            MATCH => return (Ok(true), 0),
            NO_MATCH => return (Ok(false), 0),
            _ => {}
        }
        let program = match &*self.program {
            Ok(program) => program,
            Err(error) => return (Err(Fault::Compile(error.to_string())), 0),
        };
        let device = match read_device(driver, device) {
            Ok(device) => device,
            Err(text) => return (Err(Fault::Device(text)), 0),
        };
        let (result, cost) = program.evaluate(&device);
        if let (Ok(is_match), Some(known)) = (&result, known) {
            known.store(if *is_match { MATCH } else { NO_MATCH }, Ordering::Relaxed);
        }
        (result.map_err(Fault::Runtime), cost)
    }
}

fn read_device<'a>(driver: &'a str, device: &'a resource_slice::Device) -> Result<Device<'a>, String> {
    Device::new(
        driver,
        device.allow_multiple_allocations == Some(true),
        device.attributes.iter().map(|(name, value)| (name.as_str(), attribute(value))),
        device.capacity.iter().map(|(name, capacity)| (name.as_str(), *capacity.value)),
    )
}

fn attribute(attribute: &DeviceAttribute) -> AttributeValue<'_> {
    match attribute {
        DeviceAttribute { int: Some(number), .. } => AttributeValue::Int(*number),
        DeviceAttribute { bool: Some(truth), .. } => AttributeValue::Bool(*truth),
        DeviceAttribute { string: Some(text), .. } => AttributeValue::String(text),
        DeviceAttribute { version: Some(text), .. } => AttributeValue::Version(text),
        _ => AttributeValue::Unsupported,
    }
}
