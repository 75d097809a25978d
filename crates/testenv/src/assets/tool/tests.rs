use super::*;

fn version(text: &str) -> Option<String> {
    Version::find(text).map(|version| version.to_string())
}

#[test]
fn versions_are_read_from_what_each_tool_prints() {
    assert_eq!(
        version("etcd Version: 3.6.16\nGit SHA: Not provided\nGo Version: go1.26.8\n").as_deref(),
        Some("3.6.16")
    );
    assert_eq!(version("Kubernetes v1.35.4\n").as_deref(), Some("1.35.4"));
    assert_eq!(
        version("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n").as_deref(),
        Some("1.32.4")
    );
    assert_eq!(
        version("placement version v1.2.1-3-g863fcfc").as_deref(),
        Some("1.2.1")
    );
    assert_eq!(version("Kubernetes v1.35.4+k3s1").as_deref(), Some("1.35.4"));
    assert_eq!(
        version("/opt/registry github.com/distribution/distribution/v3 v3.1.2").as_deref(),
        Some("3.1.2")
    );
    assert_eq!(
        version("prometheus, version 3.15.0 (branch: , revision: unknown)").as_deref(),
        Some("3.15.0")
    );
    assert_eq!(version("no number here, 1.2 is too short"), None);
}

#[test]
fn a_pin_accepts_its_minor_version_and_no_other() {
    let pin = Pin::read(Tool::Kubectl, &super::super::hub_tools()).unwrap();
    assert!(pin.accepts(&Version::find("1.35.0").unwrap()));
    assert!(pin.accepts(&Version::find("1.35.99").unwrap()));
    assert!(!pin.accepts(&Version::find("1.34.4").unwrap()));
    assert!(!pin.accepts(&Version::find("2.35.4").unwrap()));
}

#[test]
fn every_tool_has_a_pin_and_kubernetes_is_stamped_with_it() {
    for tool in Tool::ALL {
        Pin::read(tool, &super::super::hub_tools()).unwrap();
    }
    let pin = Pin::read(Tool::KubeApiserver, &super::super::hub_tools()).unwrap();
    let flags = pin.linker_flags();
    assert!(
        flags.contains(&format!("gitVersion=v{} ", pin.version)),
        "{flags}"
    );
    assert!(flags.contains("gitMinor=35 "), "{flags}");
}

#[test]
fn the_pin_of_prometheus_is_its_release_and_not_the_version_of_its_module() {
    let pin = Pin::read(Tool::Prometheus, &super::super::hub_tools()).unwrap();
    assert_eq!((pin.version.major, pin.version.minor), (3, 15));
    let module = Version::find("v0.315.2").unwrap();
    assert_eq!(Tool::Promtool.release(module).to_string(), "3.15.2");
    assert_eq!(Tool::Work.release(module), module);
}

#[test]
fn the_required_version_is_found_in_a_block_and_on_a_line_and_not_in_a_replacement() {
    let go_mod = "module m\nrequire a.io/x v1.2.3\nrequire (\n\tb.io/y v0.1.0 // indirect\n)\nreplace c.io/z => c.io/z v9.9.9\n";
    assert_eq!(module_version(go_mod, "a.io/x"), Some("v1.2.3"));
    assert_eq!(module_version(go_mod, "b.io/y"), Some("v0.1.0"));
    assert_eq!(module_version(go_mod, "c.io/z"), None);
}

#[test]
fn the_tools_of_one_module_have_equal_compiler_flags_so_that_a_package_is_compiled_once() {
    for one in Tool::ALL {
        for other in Tool::ALL
            .into_iter()
            .filter(|tool| tool.pin_dir() == one.pin_dir())
        {
            assert_eq!(
                one.compiler_flags(),
                other.compiler_flags(),
                "{one:?} and {other:?}"
            );
        }
    }
}
