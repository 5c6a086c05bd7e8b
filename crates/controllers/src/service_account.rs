//! Service account controller: creates the account `default` in every namespace.

use setpoint_api::{Key, Time, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::namespace::Namespace;

/// Name of the account.
const DEFAULT_ACCOUNT: &str = "default";

/// The service account controller.
pub struct ServiceAccountController;

impl Planner for ServiceAccountController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "serviceaccount-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:service-account-controller".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] =
            [Watch::primary("namespaces"), Watch::mapped("serviceaccounts", enqueue_for_account)];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let namespace = world.get(key).and_then(|object| object.view::<Namespace>());
        if namespace.is_some_and(Namespace::is_active)
            && world.find("serviceaccounts", key.name(), DEFAULT_ACCOUNT).is_none()
        {
            let account = value!({"metadata": {"name": (DEFAULT_ACCOUNT)}});
            plan.stage([Write::create("serviceaccounts", key.name(), account).into()]);
        }
        plan
    }
}

fn enqueue_for_account(account: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if &*account.meta().name == DEFAULT_ACCOUNT
        && let Some(key) = key_of("namespaces", "", &account.meta().namespace)
    {
        enqueue(key);
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;
    use setpoint_sim::cluster::Cluster;

    use super::*;

    #[test]
    fn deleted_default_account_is_recreated_in_active_namespaces() {
        let controllers: setpoint_sim::cluster::Controllers =
            || (vec![Box::new(ServiceAccountController)], crate::indexes::all());
        let mut cluster = Cluster::new(controllers, 7);
        cluster.create("namespaces", "", value!({"metadata": {"name": "a"}}));
        cluster.settle();
        assert!(cluster.get("serviceaccounts", "default/default").is_some());
        assert!(cluster.get("serviceaccounts", "a/default").is_some());
        cluster.assert_quiet();
        cluster.delete("serviceaccounts", "a/default", &value!({})).unwrap();
        cluster.crash();
        cluster.settle();
        assert!(cluster.get("serviceaccounts", "a/default").is_some());
        cluster.delete("namespaces", "a", &value!({})).unwrap();
        cluster.delete("serviceaccounts", "a/default", &value!({})).unwrap();
        cluster.settle();
        assert!(
            cluster.get("serviceaccounts", "a/default").is_none(),
            "a terminating namespace gets no account"
        );
        cluster.assert_quiet();
    }
}
