//! Claims about what counts: of the first pod of a group.

use super::*;

#[test]
fn the_first_of_a_group_need_not_be_near_to_pods_that_are_nowhere() {
    let mut cluster = cluster();
    add_node(&mut cluster, "bare", "4", value!({}));
    cluster.create("pods", "default", pod("stray", "1"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "stray"), "bare");
    add_node(&mut cluster, "n", "4", value!({"zone": "a"}));
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
    let near = value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
    cluster.create("pods", "default", with(pod("first", "1"), "affinity", near));
    cluster.settle();
    assert_eq!(node_of(&cluster, "first"), "n");
    cluster.assert_quiet();
}
