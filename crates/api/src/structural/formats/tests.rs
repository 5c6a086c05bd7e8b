//! Formats of strings: valid and invalid texts.

use super::*;

/// Formats with valid and invalid texts.
const CASES: &[(&str, &[&str], &[&str])] = &[
    ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["", "507f1f77bcf86cd79943901x", "507f"]),
    (
        "uri",
        &["http://example.com/a%20b?x=%zz", "/path", "mailto:a", "*", "https://[::1]:80/", "http://u:p@h"],
        &["", "a/b", "http://h h/", "http://x/%zz", "http://h:port/", ":x", "http://h%41/"],
    ),
    (
        "email",
        &["a@b.c", "A B <a@b>", "\"a b\"@c", "a@[127.0.0.1]", "<a@b>"],
        &["", "a", "a@", "@b", "a..b@c", "a b@c", "A <a@b"],
    ),
    (
        "hostname",
        &["localhost", "a-b", "a.b.com", "1.example.com", "\u{e9}.com", "a--b.com"],
        &["", "a_b", "-a", "a.b", "a-.com", "a.c0m", "a-b-c", "a."],
    ),
    ("ipv4", &["127.0.0.1", "010.1.1.1", "::ffff:1.2.3.4"], &["", "::1", "256.0.0.1", "1.2.3"]),
    ("ipv6", &["::1", "2001:db8::1"], &["127.0.0.1", "::g", "fe80::1%eth0"]),
    ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33"]),
    (
        "mac",
        &["01:23:45:67:89:ab", "01-23-45-67-89-AB-cd-ef", "0123.4567.89ab"],
        &["", "01:23:45:67:89", "01:23-45:67:89:ab", "012.3456.789ab"],
    ),
    (
        "uuid",
        &["01234567-89ab-cdef-0123-456789ABCDEF", "0123456789abcdef0123456789abcdef"],
        &[
            "",
            "01234567-89ab-cdef-0123-456789abcde",
            "0123456-789ab-cdef-0123-456789abcdef",
            "01234567--89ab-cdef-0123-456789abcdef",
            "0123456789abcdef0123456789abcdef-",
        ],
    ),
    (
        "uuid4",
        &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
        &["a0eebc99-9c0b-3ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-cb6d-6bb9bd380a11"],
    ),
    ("uuid3", &["a0eebc99-9c0b-3ef8-cb6d-6bb9bd380a11"], &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "978-0321751042", ""]),
    ("isbn10", &["0321751043", "080442957X"], &["978-0321751041"]),
    ("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112", ""]),
    ("ssn", &["111-11-1111", "111 11 1111"], &["111111111", "11-111-1111"]),
    ("hexcolor", &["#FFF", "00ff00"], &["#FFFF", "red"]),
    ("rgbcolor", &["rgb(255,255,255)", "rgb( 0, 10 ,1 )"], &["rgb(256,0,0)", "255,0,0"]),
    ("byte", &["YWI=", "YWJj", "YQ=="], &["", "YWI", "Y===", "YW-="]),
    ("password", &["", "x"], &[]),
    ("date", &["2006-01-02", "2024-02-29"], &["2023-02-29", "2006-1-2", "2006-01-02T", ""]),
    ("duration", &["1h30m", "0", "-1.5s", "3 days", "2w", "22 ns"], &["", "1", "h", "1 x"]),
    (
        "date-time",
        &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
        &["2014-12-15", "2014-12-15T24:30:20Z", "2014-12-15T19:30:60Z", "2014-12-15T19:30:20"],
    ),
    ("k8s-short-name", &["a", "a-b1"], &["", "A", "a.b", "-a", "a-"]),
    ("k8s-long-name", &["a.b-c"], &["a..b", "a.B"]),
];

#[test]
fn formats_accept_and_reject_as_upstream() {
    for (name, valid, invalid) in CASES {
        let format = StringFormat::from_name(name).expect(name);
        for text in *valid {
            assert!(format.is_valid(text), "{name}: {text:?}");
        }
        for text in *invalid {
            assert!(!format.is_valid(text), "{name}: {text:?}");
        }
    }
}

#[test]
fn formats_are_recognized_by_type() {
    for (name, ty, expected) in [
        ("date-time", Some(SchemaType::String), true),
        ("datetime", None, true),
        ("int32", Some(SchemaType::Integer), true),
        ("int32", Some(SchemaType::String), false),
        ("uint32", Some(SchemaType::Integer), false),
        ("double", Some(SchemaType::Number), true),
        ("date", Some(SchemaType::Object), false),
        ("quantity", Some(SchemaType::String), false),
    ] {
        assert_eq!(is_recognized_format(name, ty), expected, "{name} {ty:?}");
    }
}
