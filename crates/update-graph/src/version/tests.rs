use super::*;

#[test]
fn a_build_is_no_part_of_a_version() {
    let (plain, none) = Version::split("4.2.14").unwrap();
    let (built, some) = Version::split("4.2.14+s390x").unwrap();
    assert_eq!(plain, built);
    assert_eq!(none, None);
    assert_eq!(some.unwrap().as_str(), "s390x");
    assert_eq!(built.to_string(), "4.2.14");
}

#[test]
fn order_is_that_of_semver() {
    let sorted = [
        "4.1.0-rc.9",
        "4.1.0-rc.10",
        "4.1.0",
        "4.2.0-ec.1",
        "4.2.0-fc.0",
        "4.2.0-rc.0",
        "4.9.9",
        "4.10.0",
    ];
    for pair in sorted.windows(2) {
        assert!(
            pair[0].parse::<Version>().unwrap() < pair[1].parse::<Version>().unwrap(),
            "{pair:?}"
        );
    }
}

#[test]
fn a_step_crosses_one_minor_version_at_most() {
    for (from, to, allowed) in [
        ("4.14.30", "4.14.31", true),
        ("4.14.30", "4.15.0", true),
        ("4.14.30", "4.16.0-rc.5", false),
        ("4.22.3", "5.0.0-ec.1", true),
        ("4.22.3", "5.1.0", false),
        ("4.22.3", "6.0.0", false),
        ("4.14.30", "4.14.30", false),
        ("4.14.30", "4.14.29", false),
    ] {
        let (a, b): (Version, Version) = (from.parse().unwrap(), to.parse().unwrap());
        assert_eq!(a.within_one_minor(&b), allowed, "{from} -> {to}");
    }
}

#[test]
fn what_is_no_version_or_architecture_is_refused() {
    for text in [
        "",
        "4",
        "4.1",
        "v4.1.0",
        "4.1.0 ",
        "04.1.0",
        "4.1.0-",
        "4.1.0-rc..1",
        "99999999999999999999.0.0",
    ] {
        assert!(Version::parse(text).is_err(), "{text:?}");
    }
    for text in ["", "x86_64", "a b", "a+b", "ä"] {
        assert!(Arch::parse(text).is_err(), "{text:?}");
    }
    assert!(serde_json::from_str::<Arch>("\"multi\"").unwrap() == Arch::multi());
}
