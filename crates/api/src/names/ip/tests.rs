//! Tests of addresses and CIDRs, canonical and legacy.

use super::*;

fn details(check: impl FnOnce(&mut ErrorList, &Path<'_>)) -> String {
    let mut errors = ErrorList::new();
    check(&mut errors, &Path::root("f"));
    errors.iter().map(|error| error.detail.to_string()).collect::<Vec<_>>().join("|")
}

const LEADING: &str = "must not have leading 0s";
const MAPPED: &str = "must not be an IPv4-mapped IPv6 address";

#[test]
fn legacy_fields_accept_addresses_that_new_fields_reject() {
    // Text, then the error in a new field, in a legacy field, and in a strict legacy field.
    for (text, new, old, strict) in [
        ("1.2.3.4", "", "", ""),
        ("1234::abcd", "", "", ""),
        ("::", "", "", ""),
        ("0:0:0:0:0:0:0:0", "must be in canonical form (\"::\")", "", ""),
        ("0001:002:03:4::", "must be in canonical form (\"1:2:3:4::\")", "", ""),
        ("1234::ABCD", "must be in canonical form (\"1234::abcd\")", "", ""),
        ("1.1.1.01", LEADING, "", LEADING),
        ("00000:0::00001", LEADING, "", LEADING),
        ("::ffff:1.1.1.1", MAPPED, "", MAPPED),
        ("", IP_FAULT, IP_FAULT, IP_FAULT),
        ("1.2.3.400", IP_FAULT, IP_FAULT, IP_FAULT),
        ("-1.0.0.0", IP_FAULT, IP_FAULT, IP_FAULT),
        ("2001:db8::10005", IP_FAULT, IP_FAULT, IP_FAULT),
        ("[2001:db8::1]", IP_FAULT, IP_FAULT, IP_FAULT),
        ("1234::abcd%eth0", IP_FAULT, IP_FAULT, IP_FAULT),
        ("1.2.3.0/24", IP_FAULT, IP_FAULT, IP_FAULT),
    ] {
        assert_eq!(details(|e, p| ip(e, p, text)), new, "{text}");
        assert_eq!(details(|e, p| ip_legacy(e, p, text, false, &[])), old, "{text}");
        assert_eq!(details(|e, p| ip_legacy(e, p, text, true, &[])), strict, "{text}");
        assert_eq!(details(|e, p| ip_legacy(e, p, text, true, &["x", text])), "", "{text}");
    }
}

#[test]
fn legacy_fields_accept_cidrs_that_new_fields_reject() {
    const LEADING: &str = "must not have leading 0s in IP or prefix length";
    const MAPPED: &str = "must not have an IPv4-mapped IPv6 address";
    const BITS: &str = "must not have bits set beyond the prefix length";
    for (text, new, old, strict) in [
        ("1.0.0.0/8", "", "", ""),
        ("0.0.0.0/0", "", "", ""),
        ("::1/128", "", "", ""),
        ("2a00:79e0:2:0::/64", "must be in canonical form (\"2a00:79e0:2::/64\")", "", ""),
        ("1.1.01.0/24", LEADING, "", LEADING),
        ("192.168.0.0/016", LEADING, "", LEADING),
        ("::ffff:1.1.1.0/24", MAPPED, "", MAPPED),
        ("::ffff:1.1.1.0/120", MAPPED, "", MAPPED),
        ("1.2.3.4/24", BITS, "", BITS),
        ("2001:db8::1/64", BITS, "", BITS),
        ("1.2.3.4", CIDR_FAULT, CIDR_FAULT, CIDR_FAULT),
        ("1.2.3.0/33", CIDR_FAULT, CIDR_FAULT, CIDR_FAULT),
        ("::/129", CIDR_FAULT, CIDR_FAULT, CIDR_FAULT),
        ("1.2.3.0/", CIDR_FAULT, CIDR_FAULT, CIDR_FAULT),
        ("1.2.3.0/+8", CIDR_FAULT, CIDR_FAULT, CIDR_FAULT),
        ("1.2.3.0/8/8", CIDR_FAULT, CIDR_FAULT, CIDR_FAULT),
    ] {
        assert_eq!(details(|e, p| cidr(e, p, text)), new, "{text}");
        assert_eq!(details(|e, p| cidr_legacy(e, p, text, false, &[])), old, "{text}");
        assert_eq!(details(|e, p| cidr_legacy(e, p, text, true, &[])), strict, "{text}");
        assert_eq!(details(|e, p| cidr_legacy(e, p, text, true, &[text])), "", "{text}");
    }
}

#[test]
fn warnings_contain_the_canonical_form() {
    let spec = Path::root("spec");
    let ips = spec.child("ips");
    let path = ips.index(0);
    assert_eq!(ip_warning(&path, "192.12.2.2"), None);
    assert_eq!(ip_warning(&path, "2001:db8::2"), None);
    assert_eq!(
        ip_warning(&path, "192.012.2.2").as_deref(),
        Some(r#"spec.ips[0]: non-standard IP address "192.012.2.2" is invalid: use "192.12.2.2""#)
    );
    assert_eq!(
        ip_warning(&path, "::ffff:192.12.2.2").as_deref(),
        Some(r#"spec.ips[0]: non-standard IP address "::ffff:192.12.2.2" is invalid: use "192.12.2.2""#)
    );
    assert_eq!(
        ip_warning(&path, "2001:db8:0:0::2").as_deref(),
        Some(
            r#"spec.ips[0]: IPv6 address "2001:db8:0:0::2" should be in RFC 5952 canonical format ("2001:db8::2")"#
        )
    );
    assert_eq!(cidr_warnings(&path, "10.0.0.0/8"), Vec::<String>::new());
    assert_eq!(
        cidr_warnings(&path, "10.0.0.1/08"),
        [
            r#"spec.ips[0]: CIDR value "10.0.0.1/08" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#,
            r#"spec.ips[0]: non-standard CIDR value "10.0.0.1/08" is invalid: use "10.0.0.0/8""#,
        ]
    );
    assert_eq!(
        cidr_warnings(&path, "::ffff:10.0.0.0/104"),
        [r#"spec.ips[0]: non-standard CIDR value "::ffff:10.0.0.0/104" is invalid: use "10.0.0.0/8""#]
    );
}

#[test]
fn interface_addresses_keep_their_host_bits() {
    assert_eq!(details(|e, p| interface_address(e, p, "192.168.1.5/24")), "");
    assert_eq!(details(|e, p| interface_address(e, p, "2001:db8::1/64")), "");
    assert_eq!(
        details(|e, p| interface_address(e, p, "::ffff:192.168.0.1/120")),
        "must be in canonical form (\"192.168.0.1/24\")"
    );
    assert_eq!(details(|e, p| interface_address(e, p, "192.168.1.5")), INTERFACE_FAULT);
}
