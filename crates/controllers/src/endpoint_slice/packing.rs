//! Assignment of endpoints to slices.

use std::collections::BTreeMap;

use setpoint_api::{Value, json};
use setpoint_reconcile::Object;

use super::{ENDPOINTS_MAX, Existing};

/// Desired slice.
#[derive(Default)]
pub(super) struct DesiredSlice<'a> {
    /// Existing slice; `None` if it has to be created.
    pub current: Option<&'a Object>,
    pub endpoints: Vec<Value>,
    pub ports: Vec<Value>,
    /// `true` if it differs from the existing slice.
    pub changed: bool,
}

/// All slices of a Service and an address family.
#[derive(Default)]
pub(super) struct DesiredSlices<'a> {
    pub slices: Vec<DesiredSlice<'a>>,
}

impl<'a> DesiredSlices<'a> {
    /// Packs endpoints with equal ports, starting from the existing slices.
    pub fn add_group(
        &mut self,
        ports: Vec<Value>,
        mut endpoints_to_place: Vec<Value>,
        existing: Vec<Existing<'a>>,
    ) {
        let mut slices: Vec<DesiredSlice<'a>> = Vec::new();
        let mut positions: BTreeMap<String, usize> = endpoints_to_place
            .iter()
            .enumerate()
            .map(|(position, endpoint)| (endpoint_key(endpoint), position))
            .collect();
        for (current, slice) in existing {
            let mut endpoints = Vec::with_capacity(slice.endpoints.len());
            let mut changed = false;
            for endpoint in &slice.endpoints {
                // Endpoints that still serve stay in their slice, with updated content.
                match positions.remove(&endpoint_key(endpoint)) {
                    Some(position) => {
                        let new = std::mem::take(&mut endpoints_to_place[position]);
                        changed |= new != *endpoint;
                        endpoints.push(new);
                    }
                    None => changed = true,
                }
            }
            slices.push(DesiredSlice { current: Some(current), endpoints, ports: ports.clone(), changed });
        }
        endpoints_to_place.retain(|endpoint| !endpoint.is_null());
        fill_changed(&mut slices, &mut endpoints_to_place);
        while endpoints_to_place.len() >= ENDPOINTS_MAX {
            let endpoints = endpoints_to_place.split_off(endpoints_to_place.len() - ENDPOINTS_MAX);
            slices.push(DesiredSlice { current: None, endpoints, ports: ports.clone(), changed: true });
        }
        if !endpoints_to_place.is_empty() {
            let fits = |slice: &&mut DesiredSlice<'_>| {
                !slice.endpoints.is_empty()
                    && slice.endpoints.len() + endpoints_to_place.len() <= ENDPOINTS_MAX
            };
            match slices.iter_mut().filter(fits).max_by_key(|slice| slice.endpoints.len()) {
                Some(slice) => {
                    slice.endpoints.append(&mut endpoints_to_place);
                    slice.changed = true;
                }
                None => slices.push(DesiredSlice {
                    current: None,
                    endpoints: endpoints_to_place,
                    ports,
                    changed: true,
                }),
            }
        }
        self.slices.extend(slices.into_iter().filter(|slice| !slice.endpoints.is_empty()));
    }
}

/// Fills slices that have to be written anyway, fullest first.
fn fill_changed(slices: &mut [DesiredSlice<'_>], endpoints_to_place: &mut Vec<Value>) {
    let mut changed: Vec<&mut DesiredSlice<'_>> = slices.iter_mut().filter(|slice| slice.changed).collect();
    changed.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.len()));
    for slice in changed {
        let free = ENDPOINTS_MAX.saturating_sub(slice.endpoints.len()).min(endpoints_to_place.len());
        slice.endpoints.extend(endpoints_to_place.drain(endpoints_to_place.len() - free..));
    }
}

/// Identity of an endpoint: the UID of its pod, and its addresses.
fn endpoint_key(endpoint: &Value) -> String {
    let addresses = endpoint.get("addresses").map(json::to_text).unwrap_or_default();
    format!("{} {addresses}", endpoint.str_at(&["targetRef", "uid"]))
}
