//! Device inventory: the ResourceSlices of a world, with the taints of DeviceTaintRules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use setpoint_api::Value;
use setpoint_api::quantity::Quantity;
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_requirements::node_affinity::NodeSelectorTerm;
use setpoint_views::device_taint_rule::DeviceTaintRule;
use setpoint_views::node::Taint;
use setpoint_views::resource_slice::{Device, ResourceSlice, ResourceSliceSpec};

/// Number of a device, by driver, pool and name. Slices of several generations have the same number for a device.
pub type DeviceNumber = usize;
/// Values by name.
type ByName<T> = BTreeMap<Box<str>, T>;
/// Counters of the counter sets of a pool.
pub type Counters = ByName<ByName<Quantity>>;

static NO_SLICE: LazyLock<ResourceSliceSpec> = LazyLock::new(ResourceSliceSpec::default);

/// Nodes that can reach a device or slice.
#[derive(Clone, Debug)]
pub enum NodeScope {
    /// The node of this name.
    Name(Box<str>),
    /// All nodes.
    All,
    /// Nodes that match one of the terms.
    Selector(Vec<NodeSelectorTerm>),
    /// Each device has nodes of its own.
    PerDevice,
    /// Unknown, so no node.
    Unknown,
}

/// A ResourceSlice.
#[derive(Debug)]
pub struct SliceInfo {
    object: Object,
    /// Index in [`DeviceInventory::generations`].
    pub generation: usize,
    /// Nodes that can reach it.
    pub nodes: NodeScope,
    /// Its devices, in the order of the slice.
    pub devices: Vec<DeviceInfo>,
    /// `true` if it has counters instead of devices.
    pub has_counters: bool,
    /// `true` if a device has binding conditions.
    pub has_binding_conditions: bool,
}

/// A device of a slice.
#[derive(Debug)]
pub struct DeviceInfo {
    /// Number of the device.
    pub number: DeviceNumber,
    /// Position among the devices of all slices.
    pub position: usize,
    /// Nodes that can reach it, if the slice leaves that to its devices.
    pub nodes: Option<NodeScope>,
    /// Taints by rules; those of the device itself are in the slice.
    pub rule_taints: Vec<Taint>,
}

/// Slices of one generation of a pool.
#[derive(Debug, Default)]
pub struct Generation {
    /// Index in [`DeviceInventory::pools`].
    pub pool: usize,
    /// Number of the generation.
    pub number: i64,
    /// Its slices, by name.
    pub slices: Vec<usize>,
    /// Counters that its devices share.
    pub counters: Counters,
    /// `true` if two devices have the same name.
    pub has_duplicate_devices: bool,
    /// `true` if counter sets have the same name, or devices consume counters that do not exist.
    pub has_invalid_counters: bool,
}

/// A pool of devices.
#[derive(Debug)]
pub struct PoolInfo {
    /// Name of the driver.
    pub driver: Box<str>,
    /// Name of the pool.
    pub name: Box<str>,
    /// Newest generation.
    pub newest: i64,
}

/// All ResourceSlices.
#[derive(Debug, Default)]
pub struct DeviceInventory {
    /// Slices by name.
    pub slices: Vec<SliceInfo>,
    /// Generations of pools.
    pub generations: Vec<Generation>,
    /// Pools by driver and name.
    pub pools: Vec<PoolInfo>,
    local: ByName<Vec<usize>>,
    shared: Vec<usize>,
    /// By driver, pool and name.
    numbers: ByName<ByName<ByName<DeviceNumber>>>,
    positions: usize,
    next_number: DeviceNumber,
}

impl NodeScope {
    fn new(name: Option<&String>, all: Option<bool>, selector: Option<&Value>) -> NodeScope {
        match (name.filter(|name| !name.is_empty()), all, selector) {
            (Some(name), ..) => NodeScope::Name(name.as_str().into()),
            (None, Some(true), _) => NodeScope::All,
            (None, _, Some(selector)) => {
                let terms = selector.get("nodeSelectorTerms").and_then(Value::as_list).unwrap_or_default();
                NodeScope::Selector(terms.iter().filter_map(NodeSelectorTerm::read).collect())
            }
            (None, _, None) => NodeScope::Unknown,
        }
    }

    /// `true` if a node is in scope.
    #[must_use]
    pub fn matches(&self, node: &str, labels: &Pairs) -> bool {
        match self {
            NodeScope::Name(name) => **name == *node,
            NodeScope::All => true,
            NodeScope::Selector(terms) => terms.iter().any(|term| term.matches(node, labels)),
            NodeScope::PerDevice | NodeScope::Unknown => false,
        }
    }
}

impl SliceInfo {
    /// Returns the spec of the slice.
    #[must_use]
    pub fn spec(&self) -> &ResourceSliceSpec {
        self.object.view::<ResourceSlice>().map_or(&*NO_SLICE, |slice| &slice.spec)
    }

    /// `true` if a node can reach the slice or one of its devices.
    #[must_use]
    pub fn is_relevant(&self, node: &str, labels: &Pairs) -> bool {
        match &self.nodes {
            NodeScope::PerDevice => {
                let mut scopes = self.devices.iter().filter_map(|device| device.nodes.as_ref());
                scopes.any(|scope| scope.matches(node, labels))
            }
            scope => scope.matches(node, labels),
        }
    }
}

impl DeviceInventory {
    /// Reads the slices of a world.
    #[must_use]
    pub fn new(world: &WorldReader<'_>) -> DeviceInventory {
        let mut inventory = DeviceInventory::default();
        let rules: Vec<&DeviceTaintRule> = world.views::<DeviceTaintRule>().map(|(_, rule)| rule).collect();
        let mut pools: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        let slices: Vec<(&Object, &ResourceSlice)> = world.views::<ResourceSlice>().collect();
        for (_, slice) in &slices {
            let key = (slice.spec.driver.as_str(), slice.spec.pool.name.as_str());
            let newest = pools.entry(key).or_insert(i64::MIN);
            *newest = (*newest).max(slice.spec.pool.generation);
        }
        let pool_info = |((driver, name), newest): (&(&str, &str), &i64)| PoolInfo {
            driver: (*driver).into(),
            name: (*name).into(),
            newest: *newest,
        };
        inventory.pools = pools.iter().map(pool_info).collect();
        let numbers: BTreeMap<(&str, &str), usize> =
            pools.keys().enumerate().map(|(number, key)| (*key, number)).collect();
        let mut generations: BTreeMap<(usize, i64), usize> = BTreeMap::new();
        for (object, slice) in slices {
            let pool = numbers[&(slice.spec.driver.as_str(), slice.spec.pool.name.as_str())];
            let number = slice.spec.pool.generation;
            let generation = *generations.entry((pool, number)).or_insert_with(|| {
                inventory.generations.push(Generation { pool, number, ..Generation::default() });
                inventory.generations.len() - 1
            });
            inventory.add_slice(object, &slice.spec, generation, &rules);
        }
        for generation in &mut inventory.generations {
            validate(generation, &inventory.slices);
        }
        inventory
    }

    fn add_slice(
        &mut self,
        object: &Object,
        spec: &ResourceSliceSpec,
        generation: usize,
        rules: &[&DeviceTaintRule],
    ) {
        let is_per_device = spec.per_device_node_selection == Some(true);
        let nodes = match NodeScope::new(spec.node_name.as_ref(), spec.all_nodes, spec.node_selector.as_ref())
        {
            NodeScope::Unknown if is_per_device => NodeScope::PerDevice,
            nodes => nodes,
        };
        let devices = spec.devices.iter().map(|device| self.device(spec, device, is_per_device, rules));
        let devices = devices.collect();
        let at = self.slices.len();
        match &nodes {
            NodeScope::Name(name) => self.local.entry(name.clone()).or_default().push(at),
            _ => self.shared.push(at),
        }
        self.generations[generation].slices.push(at);
        self.slices.push(SliceInfo {
            object: object.clone(),
            generation,
            nodes,
            devices,
            has_counters: !spec.shared_counters.is_empty(),
            has_binding_conditions: spec.devices.iter().any(|device| !device.binding_conditions.is_empty()),
        });
    }

    fn device(
        &mut self,
        spec: &ResourceSliceSpec,
        device: &Device,
        is_per_device: bool,
        rules: &[&DeviceTaintRule],
    ) -> DeviceInfo {
        let of_driver = self.numbers.entry(spec.driver.as_str().into()).or_default();
        let of_pool = of_driver.entry(spec.pool.name.as_str().into()).or_default();
        let number = *of_pool.entry(device.name.as_str().into()).or_insert(self.next_number);
        self.next_number = self.next_number.max(number + 1);
        let position = self.positions;
        self.positions += 1;
        let nodes = is_per_device.then(|| {
            NodeScope::new(device.node_name.as_ref(), device.all_nodes, device.node_selector.as_ref())
        });
        let matching = rules.iter().filter(|rule| rule.matches(&spec.driver, &spec.pool.name, &device.name));
        let rule_taints = matching.map(|rule| rule.spec.taint.clone()).collect();
        DeviceInfo { number, position, nodes, rule_taints }
    }

    /// Number of devices, counted once for each slice that has them.
    #[must_use]
    pub fn device_count(&self) -> usize {
        self.positions
    }

    /// Returns the slices that a node may reach, by name: its own, and those that name no node.
    pub fn slices_for(&self, node: &str) -> impl Iterator<Item = usize> {
        let local = self.local.get(node).map(Vec::as_slice).unwrap_or_default();
        local.iter().chain(&self.shared).copied()
    }

    /// Returns the number of a device; `None` if no slice has it.
    #[must_use]
    pub fn number(&self, driver: &str, pool: &str, device: &str) -> Option<DeviceNumber> {
        self.numbers.get(driver)?.get(pool)?.get(device).copied()
    }

    /// Returns the pool of a slice.
    #[must_use]
    pub fn pool_of(&self, slice: usize) -> &PoolInfo {
        &self.pools[self.generations[self.slices[slice].generation].pool]
    }
}

/// Reads the counters of a generation, and checks it as a whole.
fn validate(generation: &mut Generation, slices: &[SliceInfo]) {
    let specs = || generation.slices.iter().map(|slice| slices[*slice].spec());
    let mut counters = Counters::new();
    let mut is_invalid = false;
    for set in specs().flat_map(|spec| &spec.shared_counters) {
        let values = set.counters.iter().map(|(name, counter)| (name.as_str().into(), *counter.value));
        is_invalid |= counters.insert(set.name.as_str().into(), values.collect()).is_some();
    }
    let devices = || specs().filter(|spec| spec.shared_counters.is_empty()).flat_map(|spec| &spec.devices);
    for consumed in devices().flat_map(|device| &device.consumes_counters) {
        let set = counters.get(consumed.counter_set.as_str());
        is_invalid |= set.is_none_or(|set| consumed.counters.keys().any(|name| !set.contains_key(&**name)));
    }
    let mut names = BTreeSet::new();
    let has_duplicates = !devices().all(|device| names.insert(device.name.as_str()));
    generation.counters = counters;
    generation.has_invalid_counters = is_invalid;
    generation.has_duplicate_devices = has_duplicates;
}
