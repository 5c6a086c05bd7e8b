//! Amounts, formats and bounds.

use proptest::prelude::*;

use super::*;

fn q(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn quantities_parse_to_their_amounts() {
    use Format::{BinarySi as B, DecimalExponent as E, DecimalSi as D};
    for (text, value, scale, format) in [
        ("0", 0, 0, D),
        ("0Ki", 0, 0, B),
        ("1", 1, 0, D),
        ("1Ki", 1024, 0, B),
        ("3Ei", 3 << 60, 0, B),
        ("5n", 5, -9, D),
        ("300T", 3, 14, D),
        ("1E", 1, 18, D),
        ("12E", 12, 18, D),
        ("1E-3", 1, -3, E),
        ("1.3E+6", 13, 5, E),
        ("1.53E12", 153, 10, E),
        ("100.035k", 100_035, 0, D),
        ("0.0005k", 5, -1, D),
        ("6.987654321G", 6_987_654_321, 0, D),
        ("3.001n", 4, -9, D),
        ("1.1E-9", 2, -9, E),
        ("0.0000000001", 1, -9, D),
        ("0.00000012345", 124, -9, D),
        ("1e-2147483648", 1, -9, E),
        ("9Ei", i64::MAX, 0, B),
        ("9223372036854775807Ki", i64::MAX, 0, B),
        ("100.035Ki", 10_243_584, -2, B),
        ("0.05Gi", 536_870_912, -1, B),
        ("0.025Ti", 274_877_906_944, -1, B),
        ("0.000000000001Ki", 2, -9, D),
        (".001", 1, -3, D),
        ("1.G", 1, 9, D),
        (".", 0, 0, D),
    ] {
        let expected = Quantity::scaled(value, scale, format);
        let negative = -expected;
        for (text, expected) in
            [(text.to_owned(), expected), (format!("+{text}"), expected), (format!("-{text}"), negative)]
        {
            assert_eq!(q(&text), expected, "{text}");
            assert_eq!(q(&text).format(), format, "{text}");
        }
    }
}

#[test]
fn invalid_quantities_are_rejected() {
    for text in ["", "1.1.M", "1+1.0M", "0.1am", "aoeu", " 1", "1 ", "1e5x", "é", "1é"] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Shape), "{text}");
    }
    for text in ["0.1mi", ".5i", "1i", "-3.01i", "-3.01e-", "1KiB"] {
        assert!(Quantity::parse(text).is_err(), "{text}");
    }
    assert_eq!(Quantity::parse("1mm"), Err(QuantityError::Suffix));
    for text in ["Pi", "+Ei", "e-12"] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Number), "{text}");
    }
    assert_eq!(Quantity::parse("Ki"), Ok(Quantity::ZERO));
}

#[test]
fn amounts_print_in_canonical_form() {
    for (text, canonical) in [
        ("1000m", "1"),
        ("0.5Gi", "512Mi"),
        ("1024Ki", "1Mi"),
        ("1025024Mi", "1001Gi"),
        ("12e6", "12e6"),
        ("12E", "12E"),
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1023", "1023"),
        ("0.5", "500m"),
        ("1080000000n", "1080m"),
        ("1234567000m", "1234567"),
        (".001e12", "1e9"),
        ("0.001e0", "1e-3"),
        ("1000e-12", "1e-9"),
        ("00", "0"),
        (".001Ki", "1024m"),
        (".000000000001Ki", "2n"),
        ("1e100", "10e99"),
        ("1e50", "100e48"),
        ("9Ei", "9223372036854775807"),
        ("1000000E", "1000000E"),
        ("1234567890123456789012345678901234567", "1234567890123456789012345678901234567"),
    ] {
        assert_eq!(q(text).to_string(), canonical, "{text}");
        if canonical != "0" {
            assert_eq!(q(&format!("-{text}")).to_string(), format!("-{canonical}"), "{text}");
        }
    }
}

#[test]
fn other_formats_print_the_same_amount() {
    let gib = q("1Gi");
    assert_eq!(gib.with_format(Format::DecimalSi).to_string(), "1073741824");
    assert_eq!(Quantity::milli(1_234_567, Format::BinarySi).to_string(), "1234567m");
    assert_eq!(Quantity::new(5, Format::BinarySi).to_string(), "5");
    assert_eq!(Quantity::new(1025, Format::BinarySi).to_string(), "1025");
    assert_eq!(Quantity::from(3000).to_string(), "3k");
}

#[test]
fn spelling_is_kept_if_value_and_suffix_are_canonical() {
    for text in ["1", "+5", "007", "1.500", "1E3", "0100m", "1.Ki", "-1Gi", "1e-9"] {
        assert_eq!(stored_text(text), Ok(Cow::Borrowed(text)), "{text}");
    }
    for (text, stored) in [
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("0.50", "500m"),
        (" 1\n", "1"),
        ("00", "0"),
        ("+8Ki", "8Ki"),
        ("+1Pi", "1Pi"),
        ("-0", "0"),
    ] {
        assert_eq!(stored_text(text).as_deref(), Ok(stored), "{text}");
    }
    assert_eq!(stored_text(" "), Err(QuantityError::Shape));
}

#[test]
fn sums_take_the_format_of_the_first_nonzero_operand() {
    let mut sum = Quantity::ZERO;
    sum += q("1Gi");
    assert_eq!(sum.to_string(), "1Gi");
    sum += q("1G");
    assert_eq!(sum.to_string(), "2073741824");
    sum -= q("1G");
    assert_eq!(sum.to_string(), "1Gi");
    sum -= q("1025Mi");
    assert_eq!((sum.to_string().as_str(), sum.sign()), ("-1Mi", -1));
    let mut cpu = q("0");
    cpu -= q("100m");
    assert_eq!(cpu.to_string(), "-100m");
}

#[test]
fn values_round_away_from_zero_and_saturate() {
    assert_eq!((q("1.1").value(), q("-1.1").value(), q("1n").value()), (2, -2, 1));
    assert_eq!((q("1.1m").milli_value(), q("2").milli_value()), (2, 2000));
    assert_eq!((q("1e30").value(), q("-1e30").milli_value()), (i64::MAX, i64::MIN));
    assert_eq!(q("1500M").scaled_value(9), 2);
    assert!((q("1500m").to_f64() - 1.5).abs() < 1e-12);
}

#[test]
fn quantities_of_a_million_digits_parse() {
    let long = "9".repeat(1_000_000);
    assert_eq!(q(&format!("0.{long}")), q("1"));
    assert_eq!(q(&format!("0.{long}Ki")), q("1Ki"));
    assert_eq!(q(&format!("{long}Ki")), Quantity::from(i64::MAX));
    assert_eq!(q(&long), q("1e1000000"));
    assert_eq!(q("1e2000000000").with_format(Format::DecimalSi).to_string(), "100e1999999998");
}

fn texts() -> impl Strategy<Value = String> {
    let number = prop_oneof!["[0-9]{1,20}", "[0-9]{0,20}\\.[0-9]{1,25}", "[1-9][0-9]{0,3}"];
    let suffix = prop_oneof![
        prop::sample::select(vec![
            "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"
        ])
        .prop_map(str::to_owned),
        "[eE][+-]?[0-9]{1,2}",
    ];
    ("[+-]?", number, suffix).prop_map(|(sign, number, suffix)| format!("{sign}{number}{suffix}"))
}

proptest! {
    #[test]
    fn canonicalization_keeps_the_amount_and_is_idempotent(text in texts()) {
        let quantity = q(&text);
        let canonical = quantity.to_string();
        prop_assert_eq!(q(&canonical), quantity);
        prop_assert_eq!(q(&canonical).to_string(), canonical);
    }

    #[test]
    fn stored_form_keeps_the_amount_and_is_idempotent(text in texts()) {
        let stored = stored_text(&text).unwrap().into_owned();
        prop_assert_eq!(q(&stored), q(&text));
        prop_assert_eq!(stored_text(&stored).unwrap(), stored.as_str());
    }

    #[test]
    fn subtraction_reverts_addition(a in -1_000_000_000_i64..1_000_000_000, b in any::<i32>(), s in -9..12) {
        let (a, b) = (Quantity::scaled(a, s, Format::DecimalSi), Quantity::from(b));
        let mut sum = a;
        sum += b;
        prop_assert_eq!(sum.cmp(&a), b.cmp(&Quantity::ZERO));
        sum -= b;
        prop_assert_eq!(sum, a);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*") {
        let _ = Quantity::parse(&text).map(|quantity| quantity.to_string());
    }
}
