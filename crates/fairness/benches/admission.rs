//! Cost of an uncontended request: `cargo bench -p setpoint-fairness`.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use setpoint_api::{Identity, RequestInfo};
use setpoint_fairness::{
    Arrival, Controller, FlowSchema, PriorityLevel, RequestId, RequestWork, Start, flow_hash,
};

const ROUNDS: u32 = 1_000_000;
/// Budget of classification, start and end of a request.
const BUDGET: Duration = Duration::from_nanos(500);

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn main() {
    let object = |name: &str, spec: Option<setpoint_api::Value>| setpoint_api::value!({"metadata": {"name": (name), "uid": (name)}, "spec": (spec.unwrap())});
    use setpoint_api::kinds::flowcontrol::builtin;
    let schemas = builtin::schema_names()
        .map(|name| FlowSchema::read(&object(name, builtin::schema_spec(name))).unwrap())
        .collect();
    let levels = builtin::level_names()
        .map(|name| PriorityLevel::read(&object(name, builtin::level_spec(name))).unwrap())
        .collect();
    let controller: Controller<()> = Controller::new(600, Duration::ZERO);
    let (configuration, _) = controller.reconfigure(Duration::ZERO, 1, schemas, levels);
    let user = Identity::new("ann", vec!["developers".into(), "system:authenticated".into()]);
    let info = RequestInfo {
        is_resource: true,
        verb: "get",
        path: "/api/v1/namespaces/default/pods/p",
        version: "v1",
        resource: "pods",
        namespace: "default",
        name: "p",
        ..RequestInfo::default()
    };
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let position = configuration.classify(&user, black_box(&info));
        black_box(flow_hash(7, &configuration.schemas()[position].schema.name, &user.user));
    }
    let classified = begun.elapsed() / ROUNDS;
    let schema = &configuration.schemas()[configuration.classify(&user, &info)];
    let arrival = Arrival {
        generation: 1,
        schema: schema.position,
        flow: flow_hash(7, "global-default", "ann"),
        work: RequestWork::Plain,
        is_watch: false,
        subject: None,
        path: info.path,
        name: info.name,
    };
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let id: RequestId = match schema.level.lock().start(begun.elapsed(), &arrival, || ()) {
            Start::Executing(id) => id,
            other => panic!("{other:?}"),
        };
        schema.level.lock().leave(begun.elapsed(), black_box(id));
    }
    let admitted = begun.elapsed() / ROUNDS;
    println!("classification without the cache of the server: {classified:?}");
    println!("start and end of a request, with four readings of the clock: {admitted:?} of {BUDGET:?}");
}
