//! Model tests: the search finds an allocation if and only if a naive enumeration of all choices does, never allocates a
//! device twice, and its allocations satisfy the claims.

mod model;

use proptest::prelude::*;
use setpoint_api::{Value, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::{Object, World};

use super::search::{AllocationError, ClaimAllocation};
use super::*;

const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const CLASSES: &str = "deviceclasses.resource.k8s.io";
const SLICES: &str = "resourceslices.resource.k8s.io";

fn put(world: &mut World, resource: &str, namespace: &str, value: &Value) -> Object {
    let name = value.str_at(&["metadata", "name"]);
    let path = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    let object = model::read(resource, &path, value);
    world.put(object.clone());
    object
}

fn claim(name: &str, spec: Value) -> Value {
    value!({"metadata": {"name": (name), "namespace": "default", "uid": (name)}, "spec": (spec)})
}

fn exactly(count: i64) -> Value {
    let spec = value!({"deviceClassName": "k", "allocationMode": "ExactCount", "count": (count)});
    value!({"devices": {"requests": [{"name": "r", "exactly": (spec)}]}})
}

/// World with a class without selectors.
fn world() -> World {
    let mut world = World::default();
    put(&mut world, CLASSES, "", &value!({"metadata": {"name": "k"}, "spec": {}}));
    world
}

fn slice(name: &str, pool: &str, generation: i64, count: i64, devices: Vec<Value>) -> Value {
    let pool = value!({"name": (pool), "generation": (generation), "resourceSliceCount": (count)});
    let spec = value!({"driver": "d", "pool": (pool), "allNodes": true, "devices": (devices)});
    value!({"metadata": {"name": (name)}, "spec": (spec)})
}

fn device(name: &str) -> Value {
    value!({"name": (name)})
}

/// Names of the devices that a claim gets on a node.
fn allocate(world: &World, claim: &Object) -> Result<Option<Vec<String>>, AllocationError> {
    let mut cache = DeviceCache::default();
    let task = cache.prepare(std::slice::from_ref(claim), &world.reader()).unwrap();
    let found = task.allocate("n", &Pairs::default())?;
    Ok(found.map(|found| names(&task, &found[0])))
}

fn names(task: &AllocationTask, allocation: &ClaimAllocation) -> Vec<String> {
    let name = |device: &search::AllocatedDevice| {
        task.inventory().slices[device.slice].spec().devices[device.device].name.clone()
    };
    allocation.devices.iter().map(name).collect()
}

#[test]
fn only_the_newest_complete_generation_is_allocated() {
    let mut world = world();
    let claim = put(&mut world, CLAIMS, "default", &claim("c", exactly(1)));
    put(&mut world, SLICES, "", &slice("s1", "p", 1, 1, vec![device("old")]));
    assert_eq!(allocate(&world, &claim), Ok(Some(vec!["old".to_owned()])));
    put(&mut world, SLICES, "", &slice("s2", "p", 2, 2, vec![device("a")]));
    assert_eq!(allocate(&world, &claim), Ok(None), "the new generation is incomplete");
    put(&mut world, SLICES, "", &slice("s3", "p", 2, 2, vec![device("b")]));
    assert_eq!(allocate(&world, &claim), Ok(Some(vec!["a".to_owned()])));
    put(&mut world, SLICES, "", &slice("s3", "p", 2, 2, vec![device("a")]));
    let invalid = AllocationError::OnNode("invalid resource pools were encountered".to_owned());
    assert_eq!(allocate(&world, &claim), Err(invalid), "names are not unique");
}

#[test]
fn all_devices_of_an_incomplete_pool_are_unknown() {
    let mut world = world();
    let all = value!({"deviceClassName": "k", "allocationMode": "All"});
    let spec = value!({"devices": {"requests": [{"name": "r", "exactly": (all)}]}});
    let claim = put(&mut world, CLAIMS, "default", &claim("c", spec));
    put(&mut world, SLICES, "", &slice("s1", "p", 1, 2, vec![device("a")]));
    let text =
        "claim default/c, request r: asks for all devices, but resource pool d/p is currently being updated";
    assert_eq!(allocate(&world, &claim), Err(AllocationError::Fatal(text.to_owned())));
    put(&mut world, SLICES, "", &slice("s2", "p", 1, 2, vec![device("b")]));
    assert_eq!(allocate(&world, &claim), Ok(Some(vec!["a".to_owned(), "b".to_owned()])));
}

#[test]
fn hopeless_search_ends_within_its_bound() {
    let mut world = world();
    let devices = |slice: usize| -> Vec<Value> {
        let with_value = |at: usize| {
            let name = format!("d{}", slice * 100 + at);
            value!({"name": (name), "attributes": {"x": {"int": (i64::try_from(at % 2).unwrap())}}})
        };
        (0..100).map(with_value).collect()
    };
    put(&mut world, SLICES, "", &slice("s1", "p", 1, 1, devices(1)));
    let mut spec = exactly(20);
    let constraint = value!({"distinctAttribute": "d/x"});
    spec.get_mut("devices").unwrap().make_map().insert("constraints", vec![constraint]);
    let mut object = claim("c", spec);
    assert_eq!(allocate(&world, &put(&mut world.clone(), CLAIMS, "default", &object)), Ok(None));
    // Pairs of requests multiply the combinations beyond the bound.
    let request = |name: &str, constraint: i64| {
        let class = value!({"deviceClassName": "k", "allocationMode": "ExactCount", "count": (constraint)});
        value!({"name": (name), "exactly": (class)})
    };
    let requests = vec![request("free", 16), request("bound", 3)];
    let constraint = value!({"requests": ["bound"], "distinctAttribute": "d/x"});
    let spec = value!({"devices": {"requests": (requests), "constraints": [(constraint)]}});
    object.make_map().insert("spec", spec);
    let claim = put(&mut world, CLAIMS, "default", &object);
    let text = "node n: timed out trying to allocate devices";
    assert_eq!(allocate(&world, &claim), Err(AllocationError::Fatal(text.to_owned())));
}

#[test]
fn search_of_the_largest_depth_does_not_overflow_the_stack() {
    let mut world = world();
    let devices = |slice: usize| (0..120).map(|at| device(&format!("d{}", slice * 120 + at))).collect();
    for at in 0..6 {
        put(&mut world, SLICES, "", &slice(&format!("s{at}"), &format!("p{at}"), 1, 1, devices(at)));
    }
    let claims: Vec<Object> = (0..20)
        .map(|at| put(&mut world, CLAIMS, "default", &claim(&format!("c{at}"), exactly(32))))
        .collect();
    let mut cache = DeviceCache::default();
    let task = cache.prepare(&claims[..14], &world.reader()).unwrap();
    assert!(task.allocate("n", &Pairs::default()).unwrap().is_some());
    let task = cache.prepare(&claims, &world.reader()).unwrap();
    let text = "node n: too many requested devices".to_owned();
    assert_eq!(task.allocate("n", &Pairs::default()), Err(AllocationError::Fatal(text)));
}

#[test]
fn shares_consume_the_capacity_of_a_device() {
    let mut world = world();
    let shared = value!({
        "name": "a", "allowMultipleAllocations": true, "capacity": {"memory": {"value": "10Gi"}},
    });
    put(&mut world, SLICES, "", &slice("s1", "p", 1, 1, vec![shared]));
    let request = value!({
        "deviceClassName": "k", "allocationMode": "ExactCount", "count": 1, "capacity": {"requests": {"memory": "4Gi"}},
    });
    let spec = value!({"devices": {"requests": [{"name": "r", "exactly": (request)}]}});
    let mut cache = DeviceCache::default();
    let mut shares = Vec::new();
    for name in ["c1", "c2", "c3"] {
        let object = put(&mut world, CLAIMS, "default", &claim(name, spec.clone()));
        let task = cache.prepare(&[object], &world.reader()).unwrap();
        let Some(found) = task.allocate("n", &Pairs::default()).unwrap() else { break };
        cache.assume(&task, &found);
        let seed = setpoint_reconcile::Seed(shares.len() as u64);
        let (claim, allocation) = (&task.claims()[0], &found[0]);
        let writer =
            result::AllocationWriter { inventory: task.inventory(), claim, allocation, node: "n", seed };
        let results = writer.write();
        let results = results.at(&["devices", "results"]).and_then(Value::as_list).unwrap().to_vec();
        assert_eq!(results[0].str_at(&["consumedCapacity", "memory"]), "4Gi");
        let id = results[0].str_at(&["shareID"]).to_owned();
        assert_eq!(id.len(), 36);
        assert!(!shares.contains(&id));
        shares.push(id);
    }
    assert_eq!(shares.len(), 2, "the third share exceeds the capacity");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn search_agrees_with_brute_force(model in model::world()) {
        let (world, claims) = model.objects();
        let mut cache = DeviceCache::default();
        let task = cache.prepare(&claims, &world.reader()).unwrap();
        for node in ["n0", "n1", "n2", "n3"] {
            let found = task.allocate(node, &Pairs::default()).unwrap();
            let expected = model.brute_force(node);
            prop_assert_eq!(found.is_some(), expected, "on {}", node);
            if let Some(found) = found {
                let chosen = model::chosen(&task, &found);
                prop_assert!(model.is_valid(node, &chosen, &found), "{:?}", chosen);
            }
        }
    }

    #[test]
    fn pods_of_one_plan_never_share_a_device(model in model::world()) {
        let (world, claims) = model.objects();
        let mut cache = DeviceCache::default();
        let mut used = model.allocated();
        for claim in &claims {
            let task = cache.prepare(std::slice::from_ref(claim), &world.reader()).unwrap();
            let Some(found) = task.allocate("n0", &Pairs::default()).unwrap() else { continue };
            cache.assume(&task, &found);
            prop_assert!(cache.is_pending(&claim.meta().uid));
            for (_, device) in model::chosen(&task, &found) {
                prop_assert!(!used.contains(&device), "{} is allocated twice", device);
                used.insert(device);
            }
        }
        // The next plan knows only what the world shows.
        cache.begin_plan();
        prop_assert!(claims.iter().all(|claim| !cache.is_pending(&claim.meta().uid)));
    }
}

#[test]
fn models_have_solvable_and_unsolvable_claims() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut solvable = 0;
    for _ in 0..500 {
        let model = model::world().new_tree(&mut runner).unwrap().current();
        solvable += usize::from(model.brute_force("n0"));
    }
    assert!((50..450).contains(&solvable), "{solvable} of 500");
}
