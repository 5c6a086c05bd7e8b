//! Assignment of endpoints to slices.

use std::collections::BTreeMap;

use setpoint_api::{Value, json};
use setpoint_reconcile::Object;

use super::{ENDPOINTS_MAX, Existing};

/// Desired slice.
#[derive(Default)]
pub(super) struct Slice<'a> {
    /// Existing slice; `None` if it has to be created.
    pub was: Option<&'a Object>,
    pub endpoints: Vec<Value>,
    pub ports: Vec<Value>,
    /// `true` if it differs from the existing slice.
    pub changed: bool,
}

/// All slices of a Service and an address family.
#[derive(Default)]
pub(super) struct Packed<'a> {
    pub slices: Vec<Slice<'a>>,
}

impl<'a> Packed<'a> {
    /// Packs endpoints with equal ports, starting from the existing slices.
    pub fn pack(&mut self, ports: Vec<Value>, mut wanted: Vec<Value>, existing: Vec<Existing<'a>>) {
        let mut slices: Vec<Slice<'a>> = Vec::new();
        let mut places: BTreeMap<String, usize> =
            wanted.iter().enumerate().map(|(place, endpoint)| (identity(endpoint), place)).collect();
        for (was, slice) in existing {
            let mut endpoints = Vec::with_capacity(slice.endpoints.len());
            let mut changed = false;
            for endpoint in &slice.endpoints {
                // Endpoints that still serve stay in their slice, with updated content.
                match places.remove(&identity(endpoint)) {
                    Some(place) => {
                        let new = std::mem::take(&mut wanted[place]);
                        changed |= new != *endpoint;
                        endpoints.push(new);
                    }
                    None => changed = true,
                }
            }
            slices.push(Slice { was: Some(was), endpoints, ports: ports.clone(), changed });
        }
        wanted.retain(|endpoint| !endpoint.is_null());
        fill_changed(&mut slices, &mut wanted);
        while wanted.len() >= ENDPOINTS_MAX {
            let endpoints = wanted.split_off(wanted.len() - ENDPOINTS_MAX);
            slices.push(Slice { was: None, endpoints, ports: ports.clone(), changed: true });
        }
        if !wanted.is_empty() {
            let fits = |slice: &&mut Slice<'_>| {
                !slice.endpoints.is_empty() && slice.endpoints.len() + wanted.len() <= ENDPOINTS_MAX
            };
            match slices.iter_mut().filter(fits).max_by_key(|slice| slice.endpoints.len()) {
                Some(slice) => {
                    slice.endpoints.append(&mut wanted);
                    slice.changed = true;
                }
                None => slices.push(Slice { was: None, endpoints: wanted, ports, changed: true }),
            }
        }
        self.slices.extend(slices.into_iter().filter(|slice| !slice.endpoints.is_empty()));
    }
}

/// Fills slices that have to be written anyway, fullest first.
fn fill_changed(slices: &mut [Slice<'_>], wanted: &mut Vec<Value>) {
    let mut changed: Vec<&mut Slice<'_>> = slices.iter_mut().filter(|slice| slice.changed).collect();
    changed.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.len()));
    for slice in changed {
        let room = ENDPOINTS_MAX.saturating_sub(slice.endpoints.len()).min(wanted.len());
        slice.endpoints.extend(wanted.drain(wanted.len() - room..));
    }
}

/// Identity of an endpoint: the UID of its pod, and its addresses.
fn identity(endpoint: &Value) -> String {
    let addresses = endpoint.get("addresses").map(json::to_text).unwrap_or_default();
    format!("{} {addresses}", endpoint.str_at(&["targetRef", "uid"]))
}
