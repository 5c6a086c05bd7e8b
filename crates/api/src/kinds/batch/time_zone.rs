//! Names of time zones.

use crate::names::Faults;

/// Zone names, one per line.
const NAMES: &str = include_str!("time_zones.txt");

/// Maximum bytes of a part of a name.
const PART_BYTES_MAX: usize = 14;

/// `true` if there is a zone of this name. Case-sensitive.
#[must_use]
pub fn is_known(name: &str) -> bool {
    NAMES.lines().any(|line| line == name)
}

/// Validates the name of a time zone in an object.
#[must_use]
pub fn faults(name: &str) -> Faults {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".into()];
    }
    let unknown = || format!("unknown time zone {name}").into();
    if !name.split('/').all(is_part) {
        return vec![unknown()];
    }
    let mut faults = Faults::new();
    if name.eq_ignore_ascii_case("Local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        faults.push(text.into());
    }
    if name != "Local" && !is_known(name) {
        faults.push(unknown());
    }
    faults
}

fn is_part(part: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'+');
    (1..=PART_BYTES_MAX).contains(&part.len())
        && part != "."
        && part != ".."
        && !part.starts_with('-')
        && part.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zone_names_are_known() {
        for name in
            ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3", "US/Eastern", "EST5EDT"]
        {
            assert_eq!(faults(name), Faults::new(), "{name}");
        }
        for name in ["Mars/Base", "europe/berlin", "../etc", "/UTC", "UTC/", "-x", "Europe/Berlin\n", "utc"] {
            assert_eq!(faults(name), [format!("unknown time zone {name}")], "{name}");
        }
        assert_eq!(faults(""), ["timeZone must be nil or non-empty string"]);
        let explicit = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        assert_eq!(faults("Local"), [explicit]);
        assert_eq!(faults("local"), [explicit, "unknown time zone local"]);
    }
}
