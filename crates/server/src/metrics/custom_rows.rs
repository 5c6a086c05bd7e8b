//! Rows of custom resources in the request metrics, in the order of their first requests.

/// Maximum number of rows of custom resources and subresources, with the shared one.
pub(super) const CUSTOM_ROWS_MAX: usize = 1024;
/// Labels of the resources that share the last row.
const SHARED: [&str; 4] = ["", "", "other", ""];

/// Group, version, resource and subresource of a row.
pub(super) type CustomRow = [Box<str>; 4];

/// Rows by name. They stay when a definition is deleted, as counters do.
#[derive(Default)]
pub(super) struct CustomRows(Vec<(CustomRow, usize)>);

impl CustomRows {
    fn position(&self, name: [&str; 4]) -> Result<usize, usize> {
        self.0.binary_search_by(|(row, _)| row.each_ref().map(|part| &**part).cmp(&name))
    }

    /// Returns the row of a resource; `None` if it has none and could get one.
    pub(super) fn find(&self, name: [&str; 4]) -> Option<usize> {
        match self.position(name) {
            Ok(at) => Some(self.0[at].1),
            Err(_) if self.0.len() == CUSTOM_ROWS_MAX - 1 => Some(CUSTOM_ROWS_MAX - 1),
            Err(_) => None,
        }
    }

    /// Returns the row of a resource, and adds it if there is none.
    pub(super) fn find_or_add(&mut self, name: [&str; 4]) -> usize {
        if let Some(found) = self.find(name) {
            return found;
        }
        let row = self.0.len();
        let (Ok(at) | Err(at)) = self.position(name);
        self.0.insert(at, (name.map(Into::into), row));
        row
    }

    /// Returns the names of all rows by index; the last one is the shared row, if all others are taken.
    pub(super) fn all(&self) -> Vec<CustomRow> {
        let mut rows = self.0.clone();
        rows.sort_by_key(|(_, row)| *row);
        let mut names: Vec<CustomRow> = rows.into_iter().map(|(name, _)| name).collect();
        if names.len() == CUSTOM_ROWS_MAX - 1 {
            names.push(SHARED.map(Into::into));
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_beyond_the_bound_share_the_last_row() {
        let mut rows = CustomRows::default();
        let plurals: Vec<String> =
            (0..CUSTOM_ROWS_MAX + 1).rev().map(|number| format!("r{number:05}")).collect();
        for (index, plural) in plurals.iter().enumerate() {
            let row = rows.find_or_add(["example.com", "v1", plural, ""]);
            assert_eq!(row, index.min(CUSTOM_ROWS_MAX - 1));
        }
        let all = rows.all();
        assert_eq!(all.len(), CUSTOM_ROWS_MAX);
        assert_eq!((&*all[0][2], &*all[CUSTOM_ROWS_MAX - 1][2]), (plurals[0].as_str(), "other"));
        assert_eq!(rows.find(["example.com", "v1", &plurals[7], ""]), Some(7));
    }
}
