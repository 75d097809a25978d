//! Random requests.

use serde_json::{Value, json};

use crate::objects::{self, KINDS};

/// A seeded source of choices.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds begin far from each other.
        let mut random = Self(seed.wrapping_mul(0xd129_0d3a_f5a3_1b27) ^ 0x5851_f42d_4c95_7f2d);
        random.0 = random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub fn pick<T>(&mut self, mut choices: Vec<T>) -> T {
        let at = usize::try_from(self.next() % choices.len() as u64).unwrap();
        choices.swap_remove(at)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

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
        dry_run: bool,
        generate_name: bool,
    },
    Get,
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
    /// An event is recorded, and read as one of the core group.
    Event {
        body: Value,
    },
    Put {
        body: Value,
        revision: Named,
        uid: Named,
        status: bool,
    },
    Merge {
        body: Value,
        revision: Named,
        uid: Named,
        status: bool,
    },
    Json {
        body: Value,
    },
    Apply {
        body: Value,
        manager: &'static str,
        force: bool,
        uid: Named,
        status: bool,
    },
    Delete {
        uid: Named,
        policy: &'static str,
    },
}

/// A request about an object.
#[derive(Clone, Debug)]
pub struct Step {
    /// Index of the kind.
    pub kind: usize,
    pub name: &'static str,
    pub validation: &'static str,
    pub op: Op,
}

/// Draws a request.
pub fn draw(random: &mut Random) -> Step {
    let at = usize::try_from(random.next() % KINDS.len() as u64).unwrap();
    // Most requests are about few objects, so that they meet.
    let at = if random.chance(50) { at % 2 } else { at };
    let kind = &KINDS[at];
    let name = random.pick(vec!["a", "a", "a", "b", "b", "c"]);
    let validation = random.pick(vec!["", "", "Strict", "Ignore", "Warn"]);
    let status = kind.has_status && random.chance(40);
    let revision = random.pick(vec![
        Named::None,
        Named::Current,
        Named::Current,
        Named::Old,
        Named::Foreign,
    ]);
    let uid = random.pick(vec![Named::None, Named::None, Named::Current, Named::Foreign]);
    let op = match random.between(0, 99) {
        0..25 => Op::Create {
            body: with_metadata(objects::spec(kind, random), random),
            dry_run: random.chance(10),
            generate_name: random.chance(5),
        },
        25..30 => Op::Get,
        30..35 => Op::List {
            labels: random.pick(vec!["", "team=a", "team!=a", "team in (a,b)", "team notin (a),team", "!team"]),
            limit: random.pick(vec![0, 1]),
            fields: random.pick(vec!["", "", "metadata.name=a", "metadata.name!=a"]),
        },
        35..37 => Op::Pages { limit: random.between(1, 2) },
        37..39 => Op::Metadata { list: random.chance(50) },
        39..41 => Op::WatchList {
            labels: random.pick(vec!["", "team=a"]),
        },
        41..43 => Op::DeleteAll {
            labels: random.pick(vec!["team=a", "team"]),
        },
        43..46 => Op::Managers { reset: random.chance(40) },
        46..47 => Op::Event { body: objects::event(random) },
        47..56 => Op::Put {
            body: changed(at, status, random),
            revision,
            uid,
            status,
        },
        56..68 => Op::Merge {
            body: changed(at, status, random),
            revision: if random.chance(60) { Named::None } else { revision },
            uid,
            status,
        },
        68..72 => Op::Json {
            body: random.pick(vec![
                json!([{"op": "add", "path": "/metadata/labels", "value": {"j": "1"}}]),
                json!([{"op": "remove", "path": "/metadata/labels/j"}]),
                json!([{"op": "test", "path": "/metadata/labels/j", "value": "1"}, {"op": "replace", "path": "/metadata/labels/j", "value": "2"}]),
            ]),
        },
        72..90 => Op::Apply {
            body: changed(at, status, random),
            manager: random.pick(vec!["one", "two"]),
            force: random.chance(50),
            uid: if random.chance(70) { Named::None } else { uid },
            status,
        },
        _ => Op::Delete {
            uid,
            policy: random.pick(vec!["", "Background", "Foreground", "Orphan"]),
        },
    };
    Step {
        kind: at,
        name,
        validation,
        op,
    }
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
    let choices = vec![
        json!({}),
        json!({}),
        json!({"labels": {"team": "a"}}),
        json!({"labels": {"team": "b", "tier": "1"}}),
        json!({"annotations": {"note": "x"}}),
        json!({"finalizers": ["example.com/hold"]}),
        json!({"finalizers": []}),
        json!({"labels": {"team": "not valid!"}}),
    ];
    let mut choices = choices;
    choices.extend([
        json!({"labels": null, "annotations": {"note": null}}),
        json!({"labels": {"team": "a"}, "finalizers": ["example.com/hold", "undotted"]}),
        json!({"annotations": {"note": "y"}, "foreign": true}),
    ]);
    body["metadata"] = random.pick(choices);
    body
}
