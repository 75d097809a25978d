//! Writing: straight into bytes, in one fixed order. Nodes by version, edges by their ends, groups and risks by name.

use serde::Serialize;

use crate::graph::{Graph, Node, State, Table, View, digest_of};
use crate::metadata::key;
use crate::version::Arch;

impl Graph {
    /// The body of a channel for an architecture: v1 JSON, equal bytes for an equal graph. Empty lists for what is not
    /// known.
    #[must_use]
    pub fn body(&self, channel: &str, arch: &Arch) -> Vec<u8> {
        self.view(Some(channel), arch).body()
    }

    /// The body of the whole graph: all architectures, versions with build, as one service feeds another.
    #[must_use]
    pub fn whole(&self) -> Vec<u8> {
        write_whole(self)
    }
}

impl View<'_> {
    /// The v1 JSON of the view: equal bytes for an equal view.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        write_view(self)
    }
}

/// A JSON value; writing into memory does not fail.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

fn number(out: &mut Vec<u8>, n: u32) {
    let mut digits = [0_u8; 10];
    let mut at = digits.len();
    let mut rest = n;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Whether versions carry their architecture.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One architecture, no builds.
    Plain,
    /// All architectures, builds kept.
    Built,
}

/// A version, as a JSON string: nothing in it needs escaping.
fn version(out: &mut Vec<u8>, graph: &Graph, table: &Table, node: &Node, form: Form) {
    use std::io::Write;
    out.push(b'"');
    // Writing into memory does not fail.
    let _ = write!(out, "{}", graph.version(node.version));
    if form == Form::Built {
        out.push(b'+');
        out.extend_from_slice(table.arch.as_str().as_bytes());
    }
    out.push(b'"');
}

fn write_node(out: &mut Vec<u8>, graph: &Graph, table: &Table, node: &Node, form: Form) {
    out.extend_from_slice(b"{\"version\":");
    version(out, graph, table, node, form);
    out.extend_from_slice(b",\"payload\":");
    json(out, node.payload.as_str());
    out.extend_from_slice(b",\"metadata\":{");
    let channels = graph.channels.set(node.channels).csv.as_str();
    let digest = digest_of(&node.payload).filter(|_| node.metadata.get(key::MANIFESTREF).is_none());
    let derived = [
        (key::PREVIOUS_REMOVE_REGEX, node.remove_regex.as_deref()),
        (key::ARCH, (form == Form::Built).then_some(table.arch.as_str())),
        (key::CHANNELS, Some(channels).filter(|csv| !csv.is_empty())),
        (key::MANIFESTREF, digest),
    ];
    let mut derived = derived
        .iter()
        .filter_map(|(key, value)| Some((*key, (*value)?)))
        .peekable();
    let mut first = true;
    let mut entry = |out: &mut Vec<u8>, key: &str| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        json(out, key);
        out.push(b':');
    };
    for (key, value) in node.metadata.iter() {
        let mut replaced = false;
        while let Some((derived_key, text)) = derived.next_if(|(derived_key, _)| *derived_key <= key) {
            replaced |= derived_key == key;
            entry(out, derived_key);
            json(out, text);
        }
        if !replaced {
            entry(out, key);
            out.extend_from_slice(value.as_bytes());
        }
    }
    for (derived_key, text) in derived {
        entry(out, derived_key);
        json(out, text);
    }
    out.extend_from_slice(b"}}");
}

/// A node to be written, and an edge between two of them by their place.
struct Item<'g> {
    table: &'g Table,
    node: u32,
}

struct Link {
    from: u32,
    to: u32,
    state: State,
}

fn write(graph: &Graph, items: &[Item<'_>], mut links: Vec<Link>, form: Form) -> Vec<u8> {
    let mut out = Vec::with_capacity(items.len() * 700 + links.len() * 40 + 64);
    out.extend_from_slice(b"{\"version\":1,\"nodes\":[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_node(&mut out, graph, item.table, item.table.node(item.node), form);
    }
    out.extend_from_slice(b"],\"edges\":[");
    // By state, so that conditional edges are in groups; risk sets are numbered in the order of their names.
    links.sort_unstable_by_key(|link| (link.state, link.from, link.to));
    let open = links.partition_point(|link| link.state == State::Open);
    let (open, conditional) = links.split_at(open);
    for (at, link) in open.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",[" } else { b"[" });
        number(&mut out, link.from);
        out.push(b',');
        number(&mut out, link.to);
        out.push(b']');
    }
    out.extend_from_slice(b"],\"conditionalEdges\":[");
    for (at, group) in conditional.chunk_by(|a, b| a.state == b.state).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_group(&mut out, graph, items, group, form);
    }
    out.extend_from_slice(b"]}");
    out
}

fn write_group(out: &mut Vec<u8>, graph: &Graph, items: &[Item<'_>], group: &[Link], form: Form) {
    let end = |out: &mut Vec<u8>, place: u32| {
        let item = &items[place as usize];
        version(out, graph, item.table, item.table.node(item.node), form);
    };
    out.extend_from_slice(b"{\"edges\":[");
    for (at, link) in group.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b",{\"from\":" } else { b"{\"from\":" });
        end(out, link.from);
        out.extend_from_slice(b",\"to\":");
        end(out, link.to);
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"risks\":[");
    if let Some(State::Conditional(set)) = group.first().map(|link| link.state) {
        for (at, risk) in graph.risks_of(set).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            json(out, risk.as_ref());
        }
    }
    out.extend_from_slice(b"]}");
}

/// One channel or all releases of one architecture, versions without build.
fn write_view(view: &View<'_>) -> Vec<u8> {
    let Some(table) = view.table else {
        return write(view.graph, &[], Vec::new(), Form::Plain);
    };
    let items: Vec<_> = view.nodes.iter().map(|&node| Item { table, node }).collect();
    let mut links = Vec::new();
    for &to in &view.nodes {
        for edge in view.served(table.incoming(to)) {
            if let (Some(from), Some(to)) = (view.place(edge.from), view.place(edge.to)) {
                links.push(Link {
                    from,
                    to,
                    state: edge.state,
                });
            }
        }
    }
    write(view.graph, &items, links, Form::Plain)
}

/// Everything, versions with build.
fn write_whole(graph: &Graph) -> Vec<u8> {
    let mut order: Vec<(u32, usize, u32)> = Vec::new();
    for (at, table) in graph.tables.iter().enumerate() {
        order.extend(
            (0..)
                .zip(&table.nodes)
                .map(|(node, data)| (data.version, at, node)),
        );
    }
    order.sort_unstable();
    let mut places: Vec<Vec<u32>> = graph
        .tables
        .iter()
        .map(|table| vec![0; table.nodes.len()])
        .collect();
    let mut items = Vec::with_capacity(order.len());
    for (place, &(_, at, node)) in (0..).zip(&order) {
        places[at][node as usize] = place;
        items.push(Item {
            table: &graph.tables[at],
            node,
        });
    }
    let mut links = Vec::new();
    for (table, places) in graph.tables.iter().zip(&places) {
        for edge in table
            .edges()
            .filter(|edge| !matches!(edge.state, State::Blocked(_)))
        {
            let (from, to) = (places[edge.from as usize], places[edge.to as usize]);
            links.push(Link {
                from,
                to,
                state: edge.state,
            });
        }
    }
    write(graph, &items, links, Form::Built)
}
