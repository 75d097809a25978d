//! Random requests.

use serde_json::{Value, json};

use crate::objects::{self, KINDS};
use crate::odd;
use crate::random::Random;

/// Which revision or uid a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    None,
    Current,
    Old,
    Foreign,
}

/// One request.
#[derive(Clone, Debug)]
pub enum Op {
    /// A name is only generated in a dry run, as it differs.
    Create {
        body: Value,
        generate_name: bool,
    },
    Get {
        status: bool,
    },
    List {
        labels: &'static str,
        limit: u64,
        fields: &'static str,
    },
    /// All pages of a list; between the first and the second, an object is labelled.
    Pages {
        limit: u64,
    },
    /// Only the metadata, of the object or of the collection.
    Metadata {
        list: bool,
    },
    /// Rows, as `kubectl get` asks for them.
    Table {
        list: bool,
    },
    /// A list at a revision that was seen before, or not older than it, or from the cache of the server as informers ask for it.
    ListAt {
        how: &'static str,
        limit: u64,
    },
    /// A watch that begins with what exists, until it says that this was all.
    WatchList {
        labels: &'static str,
    },
    /// The objects with these labels are deleted.
    DeleteAll {
        labels: &'static str,
    },
    /// The managers are forgotten, or renamed as kubectl does it.
    Managers {
        reset: bool,
    },
    /// An event is recorded, read as one of the core group, and counted again, as recorders do.
    Event {
        body: Value,
        in_core: bool,
    },
    /// The namespace of the sequence is changed.
    Namespace {
        body: Value,
        media_type: &'static str,
    },
    Put {
        body: Value,
        revision: Named,
        uid: Named,
        status: bool,
    },
    /// A merge patch or a strategic merge patch.
    Merge {
        body: Value,
        revision: Named,
        uid: Named,
        status: bool,
        is_strategic: bool,
    },
    Json {
        body: Value,
        status: bool,
    },
    Apply {
        body: Value,
        manager: &'static str,
        force: bool,
        revision: Named,
        uid: Named,
        status: bool,
    },
    /// A request is taken out of a work, as the controller does it: only if that is this object at this revision.
    Withdraw {
        revision: Named,
        uid: Named,
    },
    Delete {
        uid: Named,
        revision: Named,
        policy: &'static str,
    },
    /// A request that is wrong in itself.
    Odd {
        number: usize,
    },
}

/// A request about an object.
#[derive(Clone, Debug)]
pub struct Step {
    /// Index of the kind.
    pub kind: usize,
    pub name: &'static str,
    pub validation: &'static str,
    /// A write that is only tried.
    pub dry_run: bool,
    /// A write that is answered with metadata only, as the controller asks for it.
    pub metadata_only: bool,
    pub op: Op,
}

/// Draws the requests of a sequence. Some are repeated, as clients do that heard nothing.
pub fn story(random: &mut Random) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    if random.chance(30) {
        let kind = usize::try_from(random.next() % KINDS.len() as u64).unwrap();
        steps.extend(["a", "b", "c"].map(|name| first(kind, name, random)));
    }
    // One object owns another.
    if random.chance(6) {
        steps.extend([first(1, "a", random), first(5, "c", random)]);
    }
    for _ in 0..random.between(6, 18) {
        match steps.last() {
            Some(last) if random.chance(6) && can_repeat(last) => steps.push(last.clone()),
            _ => steps.push(draw(random)),
        }
    }
    steps
}

/// The creation of a valid object.
fn first(kind: usize, name: &'static str, random: &mut Random) -> Step {
    let mut body = objects::valid(&KINDS[kind]);
    body["metadata"] = random.pick(vec![
        json!({}),
        json!({"labels": {"team": "a"}}),
        json!({"finalizers": ["example.com/hold"]}),
    ]);
    Step {
        kind,
        name,
        validation: "",
        dry_run: false,
        metadata_only: false,
        op: Op::Create {
            body,
            generate_name: false,
        },
    }
}

/// An apply of empty metadata is stored again if the second has changed meanwhile.
fn can_repeat(step: &Step) -> bool {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    let Op::Apply { body, .. } = &step.op else {
        return true;
    };
    let metadata = body["metadata"].as_object();
    !metadata.is_some_and(|fields| {
        fields
            .values()
            .any(|value| is_empty(value) || value["note"].is_null())
    })
}

fn draw(random: &mut Random) -> Step {
    let at = usize::try_from(random.next() % KINDS.len() as u64).unwrap();
    // Most requests are about few objects, so that they meet.
    let at = if random.chance(50) { at % 2 } else { at };
    let name = random.pick(vec!["a", "a", "a", "b", "b", "c"]);
    let validation = random.pick(vec!["", "", "Strict", "Ignore", "Warn"]);
    let (dry_run, metadata_only) = (random.chance(6), random.chance(10));
    let op = match random.between(0, 99) {
        0..22 => Op::Create {
            body: with_metadata(objects::spec(&KINDS[at], random), random),
            generate_name: random.chance(5),
        },
        22..42 => read(random),
        42..44 => Op::DeleteAll {
            labels: random.pick(vec!["team=a", "team"]),
        },
        44..46 => Op::Managers {
            reset: random.chance(40),
        },
        46..48 => event(random),
        48..50 => namespace(random),
        50..53 => Op::Odd {
            number: usize::try_from(random.next() % odd::COUNT).unwrap(),
        },
        53..90 => change(at, random),
        _ => Op::Delete {
            uid: random.pick(vec![Named::None, Named::None, Named::Current, Named::Foreign]),
            revision: random.pick(vec![
                Named::None,
                Named::None,
                Named::Old,
                Named::Current,
                Named::Old,
            ]),
            policy: random.pick(vec!["", "Background", "Foreground", "Orphan"]),
        },
    };
    Step {
        kind: at,
        name,
        validation,
        dry_run: dry_run
            || matches!(
                op,
                Op::Create {
                    generate_name: true,
                    ..
                }
            ),
        metadata_only,
        op,
    }
}

fn read(random: &mut Random) -> Op {
    match random.between(0, 19) {
        0..5 => Op::Get {
            status: random.chance(20),
        },
        5..10 => Op::List {
            labels: random.pick(vec![
                "",
                "team=a",
                "team==b",
                "team!=a",
                "team in (a,b)",
                "team notin (a),team",
                "!team",
            ]),
            limit: random.pick(vec![0, 1, 500]),
            fields: random.pick(vec![
                "",
                "",
                "metadata.name=a",
                "metadata.name!=a",
                "metadata.name=a,metadata.namespace!=x",
            ]),
        },
        10..12 => Op::Pages {
            limit: random.between(1, 2),
        },
        12..14 => Op::Metadata {
            list: random.chance(50),
        },
        14..16 => Op::Table {
            list: random.chance(50),
        },
        16..18 => Op::ListAt {
            how: random.pick(vec!["Exact", "NotOlderThan", "cached"]),
            limit: random.pick(vec![0, 1]),
        },
        _ => Op::WatchList {
            labels: random.pick(vec!["", "team=a"]),
        },
    }
}

fn change(at: usize, random: &mut Random) -> Op {
    let status = KINDS[at].has_status && random.chance(40);
    let revision = random.pick(vec![
        Named::None,
        Named::Current,
        Named::Current,
        Named::Old,
        Named::Foreign,
    ]);
    let uid = random.pick(vec![Named::None, Named::None, Named::Current, Named::Foreign]);
    match random.between(0, 36) {
        0..8 => Op::Put {
            body: changed(at, status, random),
            revision,
            uid,
            status,
        },
        8..17 => Op::Merge {
            body: changed(at, status, random),
            revision: if random.chance(60) { Named::None } else { revision },
            uid,
            status,
            is_strategic: false,
        },
        17..20 => Op::Merge {
            body: strategic(at, random),
            revision: Named::None,
            uid,
            status: false,
            is_strategic: true,
        },
        20..22 => Op::Json {
            body: json_patch(random),
            status: status && random.chance(30),
        },
        22..24 => Op::Withdraw { revision, uid },
        _ => Op::Apply {
            body: changed(at, status, random),
            manager: random.pick(vec!["one", "two"]),
            force: random.chance(50),
            revision: if random.chance(50) { Named::None } else { revision },
            uid: if random.chance(70) { Named::None } else { uid },
            status,
        },
    }
}

fn event(random: &mut Random) -> Op {
    let body = objects::event(random);
    // The core group is lenient with events that are otherwise refused, which nobody of ours records.
    let is_valid = body["type"] != "Odd" && body["reportingController"].is_string();
    Op::Event {
        body,
        in_core: is_valid && random.chance(40),
    }
}

fn namespace(random: &mut Random) -> Op {
    Op::Namespace {
        body: random.pick(vec![
            json!({"metadata": {"labels": {"team": "a"}}}),
            json!({"metadata": {"labels": {"team": null, "kubernetes.io/metadata.name": null}}}),
            json!({"metadata": {"annotations": {"note": "x"}}, "spec": {"finalizers": []}}),
            json!({"metadata": {"labels": {"team": "not valid!"}}}),
        ]),
        media_type: random.pick(vec![
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ]),
    }
}

fn json_patch(random: &mut Random) -> Value {
    random.pick(vec![
        json!([{"op": "add", "path": "/metadata/labels", "value": {"j": "1"}}]),
        json!([{"op": "remove", "path": "/metadata/labels/j"}]),
        json!([{"op": "test", "path": "/metadata/labels/j", "value": "1"}, {"op": "replace", "path": "/metadata/labels/j", "value": "2"}]),
        json!([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hold"]}]),
        json!([{"op": "remove", "path": "/metadata/finalizers/0"}]),
        json!([{"op": "replace", "path": "/metadata/finalizers/0", "value": "example.com/other"}]),
        json!([{"op": "replace", "path": "/metadata/finalizers/1", "value": "example.com/other"}]),
        json!([{"op": "replace", "path": "/metadata/finalizers/-", "value": "example.com/other"}]),
        json!([{"op": "test", "path": "/metadata/labels/j", "value": null}, {"op": "add", "path": "/metadata/labels", "value": {"j": "3"}}]),
        json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/more"}]),
        json!([{"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/name"}]),
    ])
}

/// Patches of `kubectl edit`, `label` and `apply` of kinds of Kubernetes. Others refuse them.
fn strategic(at: usize, random: &mut Random) -> Value {
    if random.chance(40) {
        let body = changed(at, false, random);
        // Values of other types are refused with a text of Go's maps.
        let is_typed = !body["metadata"]["labels"]["team"].is_number()
            && !body["spec"]["leaseDurationSeconds"].is_string();
        return if is_typed { body } else { json!({}) };
    }
    random.pick(vec![
        json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        json!({"metadata": {"finalizers": ["example.com/more"], "$setElementOrder/finalizers": ["example.com/more", "example.com/hold"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/hold"]}}),
        json!({"metadata": {"$setElementOrder/finalizers": ["example.com/hold"], "$deleteFromPrimitiveList/finalizers": ["example.com/more"]}}),
        // Values that a Secret may have. What cannot be read is refused with a text of Go's maps, and so is `$retainKeys` without data.
        json!({"data": {"$patch": "replace", "z": "MQ=="}}),
        json!({"data": {"a": "NQ=="}}),
        json!({"data": null}),
        json!({"metadata": {"labels": {"$patch": "delete"}}}),
        json!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}\n"}, "labels": {"team": null}}, "data": {"c": "Mw==", "b": null}}),
    ])
}

fn changed(at: usize, status: bool, random: &mut Random) -> Value {
    let kind = &KINDS[at];
    if status {
        let mut body = json!({"status": objects::status(kind, random)});
        if random.chance(20) {
            body["spec"] = json!({"ignored": true});
        }
        return body;
    }
    let body = if random.chance(60) {
        objects::spec(kind, random)
    } else {
        json!({})
    };
    with_metadata(body, random)
}

fn with_metadata(mut body: Value, random: &mut Random) -> Value {
    body["metadata"] = random.pick(vec![
        json!({}),
        json!({}),
        json!({"labels": {"team": "a"}}),
        json!({"labels": {"team": "b", "tier": "1"}}),
        json!({"annotations": {"note": "x"}}),
        json!({"finalizers": ["example.com/hold"]}),
        json!({"finalizers": []}),
        json!({"labels": {"team": "not valid!"}}),
        json!({"labels": null, "annotations": {"note": null}}),
        json!({"labels": {"team": "a"}, "finalizers": ["example.com/hold", "undotted"]}),
        json!({"annotations": {"note": "y"}, "foreign": true}),
        json!({"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"spec\":{}}\n"}}),
        json!({"labels": {"team": 1}}),
    ]);
    body
}
