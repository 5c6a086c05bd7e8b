//! Seats of lists and of the initial events of watches, by the bytes that are in memory at a time.

use super::{MAXIMUM_LIST_SEATS, MINIMUM_SEATS, RequestWork};

/// Bytes of a list per seat.
const BYTES_PER_SEAT: u64 = 100_000;
/// Bytes that a list of recent objects has in memory at most, since it is sent in chunks.
const STREAMED_BYTES_MAX: u64 = 1_000_000;

/// Parameters of a list or watch that its cost depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListRequest<'a> {
    /// `true` for a watch.
    pub is_watch: bool,
    /// `true` if the field selector or the path names one object.
    pub names_one: bool,
    /// Page size.
    pub limit: Option<i64>,
    /// Requested resource version.
    pub resource_version: &'a str,
    /// Requested match of the resource version.
    pub resource_version_match: &'a str,
    /// `true` for a later page.
    pub is_continued: bool,
    /// `true` with a field or label selector.
    pub has_selector: bool,
    /// Parameter `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
}

/// Number and bytes of the stored objects of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectionSize {
    /// Number of objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ListRequest<'_> {
    /// Returns the work of the request. Collections that this server does not store cost one seat.
    #[must_use]
    pub fn work(&self, collection: Option<CollectionSize>) -> RequestWork {
        let Some(collection) = collection.filter(|_| !self.is_watch || self.begins_with_objects()) else {
            return RequestWork::Plain;
        };
        let is_recent = self.is_watch || self.is_served_from_cache();
        let limit = self.limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0);
        let limited = limit.map_or(collection.objects, |limit| limit.min(collection.objects));
        let loaded = match self {
            ListRequest { names_one: true, .. } => 1,
            ListRequest { has_selector: true, .. } if !is_recent => limited.max(collection.objects / 2),
            _ => limited,
        };
        let average = collection.bytes.checked_div(collection.objects).unwrap_or(0);
        let bytes = loaded.saturating_mul(average);
        let bytes = if is_recent { bytes.min(STREAMED_BYTES_MAX) } else { bytes };
        let seats = bytes.div_ceil(BYTES_PER_SEAT).min(MAXIMUM_LIST_SEATS.into());
        RequestWork::List(u32::try_from(seats).unwrap_or(MAXIMUM_LIST_SEATS).max(MINIMUM_SEATS))
    }

    /// `true` if a watch begins with the existing objects.
    fn begins_with_objects(&self) -> bool {
        self.send_initial_events == Some(true) || matches!(self.resource_version, "" | "0")
    }

    /// `true` if the list shows the recent state: upstream's rule for lists from its cache.
    fn is_served_from_cache(&self) -> bool {
        match self.resource_version_match {
            "NotOlderThan" => true,
            "" if self.is_continued => false,
            "" => {
                let is_limited = self.limit.is_some_and(|limit| limit > 0);
                !is_limited || matches!(self.resource_version, "" | "0")
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: CollectionSize = CollectionSize { objects: 1000, bytes: 20_000_000 };

    fn seats(request: ListRequest<'_>, collection: CollectionSize) -> u32 {
        request.work(Some(collection)).estimate(None).max_seats()
    }

    #[test]
    fn recent_list_costs_at_most_ten_seats_and_a_past_one_a_hundred() {
        assert_eq!(seats(ListRequest::default(), LARGE), 10);
        let past =
            ListRequest { resource_version: "7", resource_version_match: "Exact", ..Default::default() };
        assert_eq!(seats(past, LARGE), 100);
        let page = ListRequest { limit: Some(10), ..Default::default() };
        assert_eq!(seats(page, LARGE), 2);
        let later = ListRequest { is_continued: true, ..page };
        assert_eq!(seats(later, LARGE), 2);
        let selected = ListRequest { has_selector: true, ..later };
        assert_eq!(seats(selected, LARGE), 100, "half of the objects are read");
        assert_eq!(seats(ListRequest { has_selector: true, ..page }, LARGE), 2);
        assert_eq!(seats(ListRequest { names_one: true, ..selected }, LARGE), 1);
    }

    #[test]
    fn watch_costs_its_initial_events() {
        let watch = ListRequest { is_watch: true, ..Default::default() };
        assert_eq!(seats(watch, LARGE), 10);
        assert_eq!(seats(ListRequest { resource_version: "5", ..watch }, LARGE), 1);
        let streaming = ListRequest { resource_version: "5", send_initial_events: Some(true), ..watch };
        assert_eq!(seats(streaming, LARGE), 10);
    }

    #[test]
    fn empty_and_foreign_collections_cost_one_seat() {
        assert_eq!(seats(ListRequest::default(), CollectionSize::default()), 1);
        assert_eq!(ListRequest::default().work(None), RequestWork::Plain);
        let negative = ListRequest { limit: Some(-1), ..Default::default() };
        assert_eq!(seats(negative, CollectionSize { objects: 1, bytes: u64::MAX }), 10);
    }
}
